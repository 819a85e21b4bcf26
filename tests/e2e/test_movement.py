"""Addresses that move from host to host under `em: {mac: learn}`: VRRP with a virtual MAC, macvlans, guests at bridges.

How many pings a change costs depends on the machine: it is printed, and what must be is that they come back.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e.conftest import Program, program_in
from opavnic_bench.base.sites import until
from permission import require
from processes import child
from program import ok

MAC = "00:00:5e:00:01:07"
IP = "10.9.2.100"
LIMIT_S = 60.0
CONTAINER_MAC = "02:42:0a:09:02:65"

MACVLAN = f"""ip link add mv0 link blue address {MAC} type macvlan mode bridge
sysctl -qw net.ipv6.conf.mv0.disable_ipv6=1 net.ipv4.conf.blue.arp_ignore=1; ip link set mv0 up"""
MASTER = f"ip address add {IP}/24 dev mv0; ping -qc1 -W1 -I mv0 10.9.2.3 || true"
BACKUP = f"ip address del {IP}/24 dev mv0"
GUEST = f"""ip address flush dev blue; ip link add br0 type bridge; ip link set br0 up; ip link set blue master br0
ip link add v0 type veth peer name v1; ip link set v0 master br0 up
ip link set v1 address 02:42:0a:09:02:64 up; ip address add {IP}/24 dev v1; ping -qc1 -W1 10.9.2.3 || true"""
GUEST_LEAVES = "ip link del v0"
LEFT_OVER = "for link in mv0 v0 br0 vrrp.7 frr7; do ip link del $link 2>/dev/null || true; done"
KEEPALIVED = """global_defs {{ vrrp_version 3 }}
vrrp_instance v {{ state BACKUP
 interface blue
 virtual_router_id 7
 priority {priority}
 advert_int 0.1
 use_vmac
 {option}
 virtual_ipaddress {{ {ip}/24 }} }}
"""


FRR = """interface blue
 vrrp 7 version 3
 vrrp 7 priority {priority}
 vrrp 7 advertisement-interval 100
 vrrp 7 ip {ip}
"""
FRR_DEVICE = f"""ip link add frr7 link blue address {MAC} type macvlan mode bridge
sysctl -qw net.ipv6.conf.frr7.disable_ipv6=1 net.ipv4.conf.blue.arp_ignore=1
ip address add {IP}/24 dev frr7; ip link set frr7 up"""
FRR_GROUP = "frrvty:x:65533:root"
"""Its programs do not start on a machine without this group: there is one in their mount namespace alone."""


class MovementLab:
    """Three hosts on one virtual switch that learns."""

    def __init__(self, opavnic: Program, datapath: str) -> None:
        self.opavnic, self.place = opavnic, opavnic.directory
        name = f"mv{os.getpid()}{datapath}"
        self._namespace = f"opavnic-{name}"
        opavnic.up(
            f"name: {name}\ndatapath: {datapath}\nhosts: {{h1: {{}}, h2: {{}}, h3: {{}}}}\n"
            "em: {mac: learn}\n"
            "vesws: [{id: 2, name: blue, pkey: 0x8002, subnet: 10.9.2.0/24, members: [h1, h2, h3]}]\n"
        )

    def inside(self, host: str, *words: str) -> list[str]:
        return ["ip", "netns", "exec", f"{self._namespace}-{host}", *words]

    def run(self, host: str, script: str) -> str:
        words = self.inside(host, "sh", "-ec", script)
        return ok(subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, check=False))

    def lost(self, changes: Callable[[], None], count: int = 25) -> int:
        """Return how many of `count` pings to the address, ten in a second, are lost while a change happens."""
        words = self.inside("h3", "ping", "-q", "-c", str(count), "-i", "0.1", "-W", "1", IP)
        with child(words, stdout=subprocess.PIPE) as pings:
            changes()
            said = pings.communicate(timeout=LIMIT_S)[0]
        found = re.search(r"(\d+) packets transmitted, (\d+) received", said)
        assert found is not None, said
        assert self.answers()
        return int(found[1]) - int(found[2])

    def answers(self) -> bool:
        """Say whether pings to the address are answered, within seconds."""
        words = self.inside("h3", "ping", "-q", "-c1", "-W1", IP)
        return any(subprocess.run(words, capture_output=True, check=False).returncode == 0 for _ in range(10))

    def port_of(self, mac: str) -> str:
        rows = self.opavnic.data("em", "show", "mac-table")["mac_table"]
        return next((str(row["port"]) for row in rows if row["mac"] == mac), "")


@pytest.fixture(scope="module", params=["native", "python"])
def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MovementLab]:
    require(["ip", "ping"])
    with program_in(tmp_path_factory.mktemp("movement")) as opavnic:
        yield MovementLab(opavnic, request.param)


@pytest.fixture(autouse=True)
def clean(lab: MovementLab) -> Iterator[None]:
    yield
    for host in ("h1", "h2"):
        lab.run(host, LEFT_OVER)


def test_virtual_mac_that_is_up_on_two_hosts_is_at_the_one_that_speaks(lab: MovementLab) -> None:
    for host in ("h1", "h2"):
        lab.run(host, MACVLAN)
    lost = []
    for master, backup in (("h2", ""), ("h1", "h2"), ("h2", "h1")):

        def change(master: str = master, backup: str = backup) -> None:
            if backup:
                lab.run(backup, BACKUP)
            lab.run(master, MASTER)

        lost.append(lab.lost(change))
        assert lab.port_of(MAC) == f"{master}:1"
    print(f"macvlan up on both hosts: lost pings of 25 at each change of master: {lost[1:]}")


def test_macvlan_that_moves_to_another_host_is_followed(lab: MovementLab) -> None:
    lab.run("h1", f"{MACVLAN}; {MASTER}")
    assert lab.answers()

    def move() -> None:
        lab.run("h1", "ip link del mv0")
        lab.run("h2", f"{MACVLAN}; {MASTER}")

    lost = lab.lost(move)
    assert lab.port_of(MAC) == "h2:1"
    print(f"macvlan that moves: lost pings of 25: {lost}")


def test_restart_of_the_manager_without_its_database_leaves_a_virtual_mac_where_it_is(
    lab: MovementLab,
) -> None:
    for host in ("h1", "h2"):
        lab.run(host, MACVLAN)
    lab.run("h2", MASTER)
    assert lab.answers()
    for options in ([], ["--forget"]):
        assert "0 Sets" in lab.opavnic.ok("em", "restart", *options)
        assert lab.port_of(MAC) == "h2:1"


@pytest.mark.parametrize("option", ["vmac_xmit_base", ""])
def test_master_of_keepalived_is_reached(lab: MovementLab, option: str) -> None:
    require(["keepalived"])

    def keepalived(host: str, priority: int) -> list[str]:
        name = str(lab.place / f"{host}-{priority}{option}")
        Path(f"{name}.conf").write_text(KEEPALIVED.format(priority=priority, option=option, ip=IP))
        files = [f"--pid={name}.pid", f"--vrrp_pid={name}.vrrp", f"--use-file={name}.conf"]
        return lab.inside(host, "keepalived", "--dont-fork", "--log-console", *files)

    def at(port: str) -> None:
        until(
            lambda: lab.port_of(MAC) == port and lab.answers(),
            f"{MAC} is not at {port}",
            pause_s=0.1,
            limit_s=LIMIT_S,
        )

    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with child(keepalived("h1", 100), **quiet):
        at("h1:1")
        with child(keepalived("h2", 200), **quiet) as master:
            at("h2:1")

            def stop() -> None:
                master.terminate()
                assert master.wait(LIMIT_S) == 0
                at("h1:1")

            lost = lab.lost(stop)
    print(f"keepalived, use_vmac {option}: lost pings of 25 when the master stops: {lost}")


@pytest.mark.slow
def test_master_of_frr_is_reached(lab: MovementLab) -> None:
    require(["zebra", "vrrpd"])
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with contextlib.ExitStack() as ends:

        def frr(host: str, priority: int) -> subprocess.Popen[str]:
            """Start its VRRP on a host, with all its files in a directory of the test; return the process."""
            place = lab.place / f"frr-{host}"
            place.mkdir()
            (place / "group").write_text(f"{Path('/etc/group').read_text()}{FRR_GROUP}\n")
            (place / "zebra.conf").write_text("")
            (place / "vrrpd.conf").write_text(FRR.format(priority=priority, ip=IP))
            lab.run(host, FRR_DEVICE)
            zebra, vrrpd = (Path(shutil.which(name) or "") for name in ("zebra", "vrrpd"))
            libraries = ":".join(map(str, (vrrpd.parents[3] / "usr/lib").glob("*-linux-gnu*")))
            libraries += "".join(
                f":{found}" for found in (vrrpd.parents[3] / "usr/lib").glob("*-linux-gnu*/frr")
            )
            started = []
            for program in (zebra, vrrpd):
                files = (
                    f"-f {program.name}.conf -i {program.name}.pid -z {place}/zserv.sock --vty_socket {place}"
                )
                script = (
                    f"mount --bind group /etc/group; exec {program} -u root -g root -P 0 {files} --log stdout"
                )
                words = lab.inside(host, "sh", "-ec", f"cd {place}; {script}")
                environment = {**os.environ, "LD_LIBRARY_PATH": libraries}
                started.append(ends.enter_context(child(words, env=environment, **quiet)))
                until((place / "zserv.sock").exists, f"zebra is not up on {host}", limit_s=LIMIT_S)
            return started[-1]

        def at(port: str) -> None:
            until(
                lambda: lab.port_of(MAC) == port and lab.answers(),
                f"{MAC} is not at {port}",
                pause_s=0.1,
                limit_s=LIMIT_S,
            )

        frr("h1", 100)
        at("h1:1")
        master = frr("h2", 200)
        at("h2:1")

        def stop() -> None:
            master.terminate()
            assert master.wait(LIMIT_S) == 0
            lab.run("h2", "ip link set frr7 down")
            at("h1:1")

        lost = lab.lost(stop)
    print(f"FRR's vrrpd: lost pings of 25 when the master stops: {lost}")


def test_container_that_moves_to_another_host_is_followed(lab: MovementLab) -> None:
    """A network namespace of its own with a macvlan, as container engines make it: it ends, and starts elsewhere."""
    require(["unshare", "nsenter"])

    def start(host: str, process: subprocess.Popen[str]) -> None:
        own, first = (Path(f"/proc/{pid}/ns/net") for pid in (process.pid, os.getpid()))
        of_host = Path("/run/netns") / lab.inside(host)[3]
        others = {of_host.stat().st_ino, first.stat().st_ino}
        until(lambda: own.stat().st_ino not in others, "no namespace", limit_s=LIMIT_S)
        lab.run(
            host,
            f"ip link add mv0 link blue address {CONTAINER_MAC} type macvlan mode bridge\n"
            f"ip link set mv0 netns {process.pid}; nsenter -t {process.pid} -n sh -ec '\n"
            f"ip link set mv0 up; ip address add {IP}/24 dev mv0; ping -qc1 -W1 10.9.2.3 || true'",
        )

    def container(host: str) -> contextlib.AbstractContextManager[subprocess.Popen[str]]:
        return child(lab.inside(host, "unshare", "--net", "sleep", "600"))

    with contextlib.ExitStack() as ends, container("h2") as second:
        first = ends.enter_context(container("h1"))
        start("h1", first)
        assert lab.answers()

        def move() -> None:
            ends.close()
            start("h2", second)

        lost = lab.lost(move)
        assert lab.port_of(CONTAINER_MAC) == "h2:1"
    print(f"container that moves: lost pings of 25: {lost}")


def test_guest_behind_a_bridge_moves_to_another_host(lab: MovementLab) -> None:
    lab.run("h1", GUEST)
    assert lab.answers()

    def move() -> None:
        lab.run("h1", GUEST_LEAVES)
        lab.run("h2", GUEST)

    lost = lab.lost(move)
    assert lab.port_of("02:42:0a:09:02:64") == "h2:1"
    print(f"guest behind a bridge that moves: lost pings of 25: {lost}")
