"""Hosts that the lab file sets up, and a command of theirs that fails."""

from __future__ import annotations

import json
from pathlib import Path

from e2e.conftest import Program
from e2e.kernel import wait_until
from opavnic.lab.file.loader import load_lab
from opavnic.lab.ownership.namespaces import NETNS_DIR

LAB = """
name: setup
hosts:
  h1: {routes: ["10.9.3.0/24 via 10.9.2.2", "default via fd00:2::2 dev blue"]}
  r1:
    sysctls: {net.ipv4.ip_forward: 1, net.ipv4.conf.red.log_martians: 1}
    exec: ["hostname > DIR/said; getent hosts h2 >> DIR/said", [touch, "DIR/a b"], "sleep 1000 &"]
  h2: {number: 7, addresses: {lo: 10.255.0.7/32}, routes: [10.9.2.0/24 via 10.9.3.2 metric 7]}
vesws:
  - {id: 2, name: blue, subnet: [10.9.2.0/24, "fd00:2::/64"], members: [h1, r1]}
  - {id: 3, name: red, subnet: 10.9.3.0/24, members: [r1, h2]}
"""


def test_hosts_are_set_up_as_the_lab_file_says(opavnic: Program, tmp_path: Path) -> None:
    file, saved = tmp_path / "lab.yaml", tmp_path / "saved.yaml"
    file.write_text(LAB.replace("DIR", str(tmp_path)))
    opavnic.ok("up", file, "-d")
    assert (tmp_path / "said").read_text().split()[:3] == ["r1", "10.9.3.7", "h2"]
    assert (tmp_path / "a b").exists()
    # through the router, by routes of both ends
    opavnic.on("h1", "ping", "-c1", "-W20", "10.9.3.7")
    assert opavnic("exec", "r1", "--", "sysctl", "-n", "net.ipv4.conf.red.log_martians").stdout == "1\n"
    assert "10.255.0.7/32" in opavnic("exec", "h2", "--", "ip", "-br", "address", "show", "lo").stdout
    assert "via fd00:2::2 dev blue" in opavnic("exec", "h1", "--", "ip", "-6", "route").stdout
    (vnic,) = opavnic.data("status")["hosts"][0]["vnics"]
    assert (vnic["ip"], vnic["other_ips"]) == ("10.9.2.1/24", ["fd00:2::1/64"])
    # what the file says is not said to be missing from it
    save = opavnic("save", saved)
    assert [line for line in save.stderr.splitlines() if "h1" in line or "h2" in line] == []
    assert "program sleep" in opavnic("down").stdout

    file.write_text(saved.read_text().replace("sleep 1000 &", "echo no >&2; exit 3"))
    failed = opavnic("up", file, "-d")
    assert failed.returncode == 1
    assert 'host r1: exec[2] "echo no >&2; exit 3": exit code 3: no\n' in failed.stderr
    assert list(NETNS_DIR.glob("opavnic-setup-*")) == []


def test_vnics_have_link_local_addresses_where_the_virtual_switch_has(
    opavnic: Program, tmp_path: Path
) -> None:
    file, saved = tmp_path / "lab.yaml", tmp_path / "saved.yaml"
    file.write_text(
        """
name: quiet
hosts: 2
vesws:
  - {id: 2, name: blue, subnet: 10.9.2.0/24, members: all}
  - {id: 3, name: red, subnet: [10.9.3.0/24, "fd00:3::/64"], link_local: false, members: all}
"""
    )
    opavnic.ok("up", file, "-d")

    def addresses(vnic: str) -> str:
        return opavnic("exec", "h1", "--", "ip", "-br", "-6", "address", "show", vnic).stdout

    assert "fe80:" in addresses("blue")
    assert ("fd00:3::1" in addresses("red"), "fe80:" in addresses("red")) == (True, False)
    opavnic.ok("check")
    opavnic("save", saved)
    opavnic("down")
    assert [vesw.link_local for vesw in load_lab(saved).vesws] == ["auto", False]


async def test_static_neighbours_are_there_from_the_start_and_follow_addresses(
    opavnic: Program, tmp_path: Path
) -> None:
    file = tmp_path / "lab.yaml"
    blue = "{id: 2, name: blue, subnet: 10.9.2.0/24, neighbours: static, members: all}"
    file.write_text(f"name: known\nhosts: 3\nvesws: [{blue}]\n")
    opavnic.ok("up", file, "-d")

    def known(host: str) -> dict[str, str]:
        told = json.loads(opavnic("exec", host, "--", "ip", "-j", "neighbour").stdout)
        return {entry["dst"]: entry["lladdr"] for entry in told if entry["state"] == ["PERMANENT"]}

    def ping(address: str) -> int:
        return opavnic("exec", "h1", "--", "ping", "-c1", "-W20", address).returncode

    assert {"10.9.2.2", "10.9.2.3"} <= known("h1").keys()
    assert sum(address.startswith("fe80::") for address in known("h1")) == 3, "each of them, and its own"
    assert (ping("10.9.2.3"), opavnic("check").returncode) == (0, 0)
    opavnic("exec", "h2", "--", "ip", "address", "add", "10.9.2.77/24", "dev", "blue")
    await wait_until(lambda: "10.9.2.77" in known("h1"), "h1 knows the new address")
    opavnic("exec", "h2", "--", "ip", "address", "delete", "10.9.2.77/24", "dev", "blue")
    opavnic("exec", "h3", "--", "ip", "address", "add", "10.9.2.77/24", "dev", "blue")
    await wait_until(lambda: known("h1").get("10.9.2.77") == known("h1")["10.9.2.3"], "it is that of h3 now")
    assert ping("10.9.2.77") == 0
    assert opavnic("host", "add", "h4", "--vesw", "blue").returncode == 0
    await wait_until(
        lambda: "10.9.2.4" in known("h1") and "10.9.2.1" in known("h4"), "h4 is known, and knows"
    )
    opavnic("down")
