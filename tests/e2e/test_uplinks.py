"""Ways out of a lab: bridges, a NIC, NAT. The machine of these labs is a network namespace that the test has made."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from e2e.places import bridge, inside, interfaces, ip, killed, namespaces, plug, station, veth
from program import ok, run_program

STATION = "02:11:22:33:44:55"
"""With the local bit, as those of containers, veths and virtual machines; as a LID it would be 0x554433."""


@dataclass(frozen=True)
class Machine:
    """A namespace in the part of the machine, one beyond it, and the program that runs there."""

    netns: str
    other: str
    outside: str
    lab: str
    root: Path

    def run(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "OPAVNIC_RUNTIME_DIR": str(self.root / "run")}
        return run_program(words, env, namespaces=[Path("/run/netns", self.netns)], timeout=120)

    def up(self, text: str) -> subprocess.CompletedProcess[str]:
        file = self.root / "lab.yaml"
        file.write_text(f"name: {self.lab}\n{text}")
        return self.run("up", file, "-d")

    @property
    def journal(self) -> Path:
        return self.root / "run" / self.lab / "state.json"


@pytest.fixture
def machine(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Machine]:
    with namespaces("machine", "other", "out") as (netns, other, outside):
        ip("link", "set", "lo", "up", netns=netns)
        found = Machine(
            netns, other, outside, f"u{os.getpid()}-{abs(hash(request.node.name)) % 10000}", tmp_path
        )
        yield found
        found.run("down")
        found.run("prune")


TWO_WAYS = """hosts: {{gw1: {{netns: host}}, gw2: {{netns: {other}}}, h1: {{}}, h2: {{}}}}
vesws:
  - {{id: 2, name: blue, pkey: 0x8002, subnet: 10.9.2.0/24, members: [gw1, gw2, h1]}}
  - {{id: 3, name: red, pkey: 0x8003, subnet: 10.9.3.0/24, members: [h2, gw2]}}
uplinks:
  left: {{bridge: br0, vesw: blue, host: gw1{more}}}
  right: {{bridge: br0, vesw: blue, host: gw2{more}}}
"""


@pytest.fixture
def two_ways(machine: Machine) -> Machine:
    """A bridge here and one in another namespace, and a station behind the first."""
    for netns in (machine.netns, machine.other):
        bridge(netns, "br0")
    station(machine.outside, machine.netns, "br0", mac=STATION, address="10.9.2.100/24")
    return machine


def ways(machine: Machine) -> dict[str, int]:
    told = json.loads(ok(machine.run("status", "--json")))["parts"]["uplinks"]
    return {name: way["addresses"] for name, way in told.items()}


def lid_of_station(machine: Machine) -> int | None:
    rows = json.loads(ok(machine.run("em", "show", "mac-table", "--json")))["mac_table"]
    found = [row["lid"] for row in rows if row["mac"] == STATION]
    return int(found[0]) if found else None


def test_station_behind_a_bridge_is_reached_moves_and_is_reached_again(two_ways: Machine) -> None:
    ok(two_ways.up(TWO_WAYS.format(other=two_ways.other, more="")))
    ok(inside(two_ways.outside, "ping", "-c2", "-i0.2", "-W20", "10.9.2.3"))
    ok(two_ways.run("exec", "h1", "--", "ping", "-c1", "-W20", "10.9.2.100"))
    first = lid_of_station(two_ways)
    ip("link", "set", "port0", "netns", two_ways.other, netns=two_ways.netns)
    plug(two_ways.other, "br0")
    ok(inside(two_ways.outside, "ping", "-c5", "-i0.2", "-W20", "10.9.2.3"))
    ok(two_ways.run("exec", "h1", "--", "ping", "-c1", "-W20", "10.9.2.100"))
    assert first is not None
    assert lid_of_station(two_ways) not in (None, first)
    # another virtual switch is another network, although it has a member on the same host
    assert two_ways.run("exec", "h2", "--", "ping", "-c1", "-W1", "-I", "red", "10.9.2.100").returncode == 1
    assert STATION not in ok(two_ways.run("exec", "h2", "--", "ip", "neighbour"))
    ok(two_ways.run("down"))
    assert "blue" not in interfaces(two_ways.netns) | interfaces(two_ways.other)


def test_address_of_the_fabric_that_shows_up_outside_is_warned_of(two_ways: Machine) -> None:
    ok(two_ways.up(TWO_WAYS.format(other=two_ways.other, more="")))
    rows = json.loads(ok(two_ways.run("status", "--json")))["hosts"]
    (h1,) = [vnic["mac"] for row in rows if row["name"] == "h1" for vnic in row["vnics"]]
    ip("link", "set", "eth0", "address", h1, netns=two_ways.outside)
    assert inside(two_ways.outside, "ping", "-c1", "-W1", "10.9.2.50").returncode
    assert f"[uplink left] {h1}, an address of virtual switch blue, was learnt outside" in ok(
        two_ways.run("logs")
    )
    told = json.loads(ok(two_ways.run("status", "--json")))["parts"]["uplinks"]
    assert told["left"]["loops"] >= 1


def test_quirk_station_with_the_local_bit_is_not_reached_the_drivers_way(two_ways: Machine) -> None:
    ok(two_ways.up(TWO_WAYS.format(other=two_ways.other, more=", mac: driver")))
    assert inside(two_ways.outside, "ping", "-c1", "-W1", "10.9.2.3").returncode == 1
    drops = json.loads(ok(two_ways.run("status", "--json")))["drops"]
    assert drops["sw0"]["sw_no_route"] >= 1


def test_station_that_does_not_speak_is_reached_by_an_entry_given_by_hand(two_ways: Machine) -> None:
    text = TWO_WAYS.format(other=two_ways.other, more="")
    ok(two_ways.up(text.replace("host: gw1", f'host: gw1, static: ["{STATION}"]')))
    assert ways(two_ways)["left"] >= 1
    ok(two_ways.run("exec", "h1", "--", "ping", "-c1", "-W20", "10.9.2.100"))


def test_bridge_that_is_deleted_is_told_and_the_lab_goes_on(two_ways: Machine) -> None:
    ok(two_ways.up(TWO_WAYS.format(other=two_ways.other, more="")))
    ip("link", "delete", "br0", netns=two_ways.other)
    told = json.loads(ok(two_ways.run("status", "--json")))["parts"]["uplinks"]["right"]
    assert (told["state"], told["addresses"]) == ("bridge br0 was deleted", 0)
    ok(inside(two_ways.outside, "ping", "-c1", "-W20", "10.9.2.3"))


NAT_AND_NIC = """hosts: {gw: {}, h1: {}, nic: {netns: host}}
vesws:
  - {id: 2, name: blue, pkey: 0x8002, subnet: 10.9.2.0/24, members: [gw, h1]}
  - {id: 3, name: red, pkey: 0x8003, subnet: 10.9.3.0/24, members: [nic, h1]}
uplinks:
  wan: {nat: true, vesw: blue, host: gw}
  lan: {nic: port0, vesw: red, host: nic}
"""


def test_nat_and_nic_lead_out_and_leave_the_machine_as_it_was_even_after_kill(machine: Machine) -> None:
    veth(machine.netns, "out0", machine.other, "in0")
    for netns, name, address in (
        (machine.netns, "out0", "192.0.2.1/24"),
        (machine.other, "in0", "192.0.2.9/24"),
    ):
        ip("address", "add", address, "dev", name, netns=netns)
        ip("link", "set", name, "up", netns=netns)
    ip("route", "add", "default", "via", "192.0.2.9", netns=machine.netns)
    veth(machine.netns, "port0", machine.outside)
    ip("address", "add", "10.9.3.100/24", "dev", "eth0", netns=machine.outside)
    ip("link", "set", "eth0", "up", netns=machine.outside)
    sysctls = ("cat", "/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv4/conf/out0/forwarding")
    before = interfaces(machine.netns), ok(inside(machine.netns, *sysctls))
    assert before[1] == "0\n0\n"
    for end in ("down", "kill"):
        ok(machine.up(NAT_AND_NIC))
        ok(machine.run("exec", "h1", "--", "ping", "-c1", "-W20", "192.0.2.9"))
        ok(machine.run("exec", "h1", "--", "ping", "-c1", "-W20", "10.9.3.100"))
        if end == "down":
            ok(machine.run("down"))
        else:
            ip("link", "set", "port0", "netns", machine.other, netns=machine.netns)
            ip("link", "set", "port0", "netns", machine.netns, netns=machine.other)
            parts = json.loads(ok(machine.run("status", "--json")))["parts"]["uplinks"]
            assert "interface port0 is gone" in [way.get("state") for way in parts.values()]
            killed(machine.journal)
            ok(machine.run("prune"))
        assert (interfaces(machine.netns), ok(inside(machine.netns, *sysctls))) == before
        assert "state DOWN" in ip("link", "show", "port0", netns=machine.netns)
    assert not machine.journal.parent.exists()


WRONG = """hosts: {{gw: {{netns: host}}, g2: {{netns: host}}, h1: {{}}}}
vesws:
  - {{id: 2, name: blue, members: [gw, g2, h1]}}
uplinks: {{w: {{{key}: {name}, vesw: blue, host: gw}}}}
"""


@pytest.mark.parametrize(
    ("key", "name", "told"),
    [
        (
            "bridge",
            "br1",
            'uplinks.w.bridge: there is no bridge "br1" where host gw is (known: br0; nearest: br0)',
        ),
        ("bridge", "port0", "uplinks.w.bridge: port0 is no bridge (for an interface, write nic: port0)"),
        ("nic", "port0", "uplinks.w.nic: port0 is a port of br0 already: write bridge: br0"),
        ("nic", "br0", "uplinks.w.nic: br0 is a bridge: write bridge: br0"),
        ("nic", "dummy0", "uplinks.w.nic: dummy0 has 198.51.100.1/24, which would stop to work in a bridge"),
    ],
)
def test_uplink_that_leads_nowhere_is_told(two_ways: Machine, key: str, name: str, told: str) -> None:
    ip("link", "add", "dummy0", "type", "veth", "peer", "name", "dummy1", netns=two_ways.netns)
    ip("address", "add", "198.51.100.1/24", "dev", "dummy0", netns=two_ways.netns)
    before = interfaces(two_ways.netns)
    done = two_ways.up(WRONG.format(key=key, name=name))
    assert (done.returncode, told in done.stderr) == (1, True), done.stderr
    assert interfaces(two_ways.netns) == before


def test_tap_whose_name_is_taken_is_left_alone(two_ways: Machine) -> None:
    text = "hosts: {h1: {}, vm: {tap: port0}}\nvesws: [{id: 2, name: blue, members: [h1, vm]}]\n"
    done = two_ways.up(text)
    assert "an interface port0 exists on this machine and is not the lab's; it is left alone" in done.stderr
    assert "port0" in interfaces(two_ways.netns)
