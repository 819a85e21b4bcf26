"""Guests: hosts that were there before the lab; and the names of all hosts."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.conftest import Program
from e2e.places import inside, interfaces, ip, killed, namespaces
from processes import child
from program import ok, run_program

LAB = """name: {lab}
hosts: {{h1: {{}}, h2: {host}}}
vesws: [{{id: 2, name: blue, pkey: 0x8002, subnet: 10.9.2.0/24, members: [h1, h2]}}]
"""


@pytest.fixture
def lab(request: pytest.FixtureRequest) -> str:
    return f"g{os.getpid()}-{abs(hash(request.node.name)) % 10000}"


@pytest.fixture
def guest() -> Iterator[str]:
    """A network namespace that is not the lab's, as `ip netns` has it."""
    with namespaces("guest") as (name,):
        yield name


def with_path(opavnic: Program, path: str, *words: object) -> subprocess.CompletedProcess[str]:
    """Run opavnic with another list of directories where programs are looked for."""
    return run_program(list(map(str, words)), opavnic.environment | {"PATH": path})


def state_of(opavnic: Program, host: str) -> str:
    rows = opavnic.data("status")["hosts"]
    return str(next(row for row in rows if row["name"] == host)["vnics"][0]["state"])


def test_hosts_have_names_and_know_those_of_the_others(opavnic: Program, lab: str) -> None:
    machine = os.uname().nodename, Path("/etc/hosts").read_text()
    opavnic.up(
        f"name: {lab}\nhosts: {{h1: {{}}, h2: {{}}}}\nvesws:\n"
        "  - {id: 2, name: blue, pkey: 0x8002, subnet: 10.9.2.0/24, members: [h1, h2]}\n"
        "  - {id: 3, name: six, pkey: 0x8003, subnet: 'fd00:3::/64', members: [h1, h2]}\n"
    )
    assert opavnic.on("h1", "hostname") == "h1\n"
    assert opavnic.on("h1", "cat", "/sys/class/net/blue/speed") == "100000\n", "that of the fabric"
    for words in (["h2"], ["h2.blue"], ["-4", "h2"], ["-6", "h2"], ["h2.six"], ["h1"]):
        opavnic.on("h1", "ping", "-c1", "-W10", *words)
    opavnic.on("h2", "ip", "address", "del", "10.9.2.2/24", "dev", "blue")
    opavnic.on("h2", "ip", "address", "add", "10.9.2.77/24", "dev", "blue")
    watch = "until grep -q '^10.9.2.{} h2 h2.blue$' /etc/hosts; do sleep 0.1; done"
    opavnic.on("h1", "timeout", "30", "sh", "-c", watch.format(77))
    with child(
        [
            *("nsenter", f"--net=/run/netns/opavnic-{lab}-h1", "unshare", "-m", "sh", "-c"),
            f'mount --bind {opavnic.root / lab}/hosts/h1 /etc/hosts && echo on && exec "$@"',
            *("sh", "timeout", "30", "sh", "-c", watch.format(99)),
        ],
        stdout=-1,
    ) as reader:  # which has seen the names before they change
        assert reader.stdout.readline() == "on\n"
        opavnic.on("h2", "ip", "address", "del", "10.9.2.77/24", "dev", "blue")
        opavnic.on("h2", "ip", "address", "add", "10.9.2.99/24", "dev", "blue")
        assert reader.wait(60) == 0
    opavnic.ok("down")
    assert (os.uname().nodename, Path("/etc/hosts").read_text()) == machine


@pytest.mark.parametrize("end", ["down", "kill and prune"])
def test_namespace_of_others_gets_a_vnic_and_loses_it(
    opavnic: Program, lab: str, guest: str, end: str
) -> None:
    opavnic.up(LAB.format(lab=lab, host=f"{{netns: {guest}}}"))
    ok(inside(guest, "ping", "-c1", "-W10", "10.9.2.1"))
    assert opavnic.on("h2", "hostname") == "h2\n"
    opavnic.on("h2", "ping", "-c1", "-W10", "h1")
    with child(["ip", "netns", "exec", guest, "sleep", "1000"]) as program:
        if end == "down":
            assert f"interface blue in network namespace {guest}" in opavnic.ok("down")
        else:
            killed(opavnic.root / lab / "state.json")
            opavnic.ok("prune")
        assert program.poll() is None, "a lab ended a program of a guest"
    assert interfaces(guest) == {"lo"}
    assert not (opavnic.root / lab).exists()


BIND_ALL = """
import ipaddress, socket
count = 0
for line in open("/proc/net/if_inet6"):
    digits, index, *_, name = line.split()
    if name == "blue":
        address = str(ipaddress.IPv6Address(int(digits, 16)))
        socket.socket(socket.AF_INET6).bind((address, 0, 0, int(index, 16)))
        count += 1
print(count)
"""


@pytest.mark.parametrize(
    ("switch", "addresses"), [("default/accept_dad", 2), ("all/accept_dad", 2), ("default/disable_ipv6", 0)]
)
def test_every_address_can_be_bound_when_up_returns(
    opavnic: Program, lab: str, guest: str, switch: str, addresses: int
) -> None:
    """In the namespace of a lab, and in one that checks every address for duplicates, or has no IPv6 at all."""
    ok(inside(guest, "sh", "-c", f"echo 1 > /proc/sys/net/ipv6/conf/{switch}"))
    text = LAB.format(lab=lab, host=f"{{netns: {guest}}}")
    opavnic.up(text.replace("10.9.2.0/24", "fd00:2::/64") if addresses else text)
    hosts = {"h1": 1 + bool(addresses), "h2": addresses}
    for host, count in hosts.items():
        assert opavnic.on(host, sys.executable, "-c", BIND_ALL) == f"{count}\n"


def test_guest_that_is_deleted_takes_its_port_along_and_nothing_else(
    opavnic: Program, lab: str, guest: str
) -> None:
    text = LAB.format(lab=lab, host=f"{{netns: {guest}}}").replace("h1: {}", "h1: {}, h3: {}")
    opavnic.up(text.replace("members: [h1, h2]", "members: [h1, h2, h3]"))
    with opavnic.started("logs", "--follow", stdout=-1) as logs:
        ip("netns", "delete", guest)
        assert any("its VNICs are gone" in line for line in logs.stdout)
    assert state_of(opavnic, "h2") == f"lost: network namespace {guest} was deleted"
    opavnic.on("h1", "ping", "-c1", "-W10", "10.9.2.2")
    assert opavnic("exec", "h2", "--", "true").returncode == 1
    opavnic.ok("down")


def test_process_is_a_host_until_it_ends(opavnic: Program, lab: str, guest: str) -> None:
    with child(["ip", "netns", "exec", guest, "sh", "-c", "echo on; exec sleep 1000"], stdout=-1) as process:
        assert process.stdout.readline() == "on\n"
        opavnic.up(LAB.format(lab=lab, host=f"{{pid: {process.pid}}}"))
        ok(inside(guest, "ping", "-c1", "-W10", "10.9.2.1"))
        assert opavnic.ok("exec", "--print", "h2", "--", "true").startswith("nsenter --net=/proc/")
        with opavnic.started("logs", "--follow", stdout=-1) as logs:
            process.kill()
            assert any("its VNICs are gone" in line for line in logs.stdout)
    assert state_of(opavnic, "h2") == f"lost: process {process.pid} has ended"
    assert interfaces(guest) == {"lo"}


@pytest.mark.parametrize(
    ("host", "told"),
    [
        (
            "{netns: opavnic-nowhere}",
            'host h2: there is no network namespace "opavnic-nowhere" (known: own, host',
        ),
        ("{netns: /etc/hosts}", "host h2: network namespace /etc/hosts: this is not a network namespace"),
        ("{netns: /proc/self/ns/uts}", "namespace /proc/self/ns/uts: this is not a network namespace"),
        ("{pid: 4194304}", "host h2: process 4194304 does not run: there is no process 4194304"),
        ("{pid: SELF}", "host h2: process SELF shares the network of the machine: write netns: host"),
        ("{container: web, engine: podman}", "host h2: podman is not installed, so container"),
        ("{tap: {name: vm0, owner: nobody-of-that-name}}", "hosts.h2.tap.owner: there is no user"),
    ],
)
def test_guest_that_is_not_there_is_told(
    opavnic: Program, tmp_path: Path, lab: str, host: str, told: str
) -> None:
    host, told = (text.replace("SELF", str(os.getpid())) for text in (host, told))
    (tmp_path / "lab.yaml").write_text(LAB.format(lab=lab, host=host))
    done = with_path(opavnic, "/nowhere", "up", tmp_path / "lab.yaml", "-d")
    assert (done.returncode, told in done.stderr) == (1, True), done.stderr
    assert not (tmp_path / "run" / lab).exists()


ENGINE = """#!/bin/sh
# stands in for docker: one container, `web`, whose first process is {pid}
case "$1 $2" in
    "container inspect")
        [ "$5" = web ] || [ "$5" = 1234abcd ] || {{ echo "Error: No such container: $5" >&2; exit 1; }}
        echo "{pid} 1234abcd" ;;
    "exec --interactive") shift 3; exec nsenter --net=/proc/{pid}/ns/net "$@" ;;
    *) exit 2 ;;
esac
"""


def test_container_is_a_host(opavnic: Program, tmp_path: Path, lab: str, guest: str) -> None:
    with child(["ip", "netns", "exec", guest, "sh", "-c", "echo on; exec sleep 1000"], stdout=-1) as process:
        assert process.stdout.readline() == "on\n"
        engine = tmp_path / "bin" / "docker"
        engine.parent.mkdir()
        engine.write_text(ENGINE.format(pid=process.pid))
        engine.chmod(0o755)

        def run(*words: str) -> subprocess.CompletedProcess[str]:
            return with_path(opavnic, f"{engine.parent}:/usr/sbin:/usr/bin:/sbin:/bin", *words)

        file = tmp_path / "lab.yaml"
        file.write_text(LAB.format(lab=lab, host="{container: wbe, engine: docker}"))
        wrong = run("up", str(file), "-d")
        assert 'no container "wbe" (docker: Error: No such container: wbe)' in wrong.stderr
        file.write_text(LAB.format(lab=lab, host="{container: web, engine: docker}"))
        ok(run("up", str(file), "-d"))
        ok(run("exec", "h2", "--", "ping", "-c1", "-W10", "10.9.2.1"))
        assert opavnic.ok("exec", "--print", "h2", "--", "true") == "docker exec 1234abcd true\n"
        assert "interface blue in container web of docker" in opavnic.ok("down")
        assert process.poll() is None


TUNSETIFF = 0x400454CA
ARP = struct.Struct("!6s6sHHHBBH6s4s6s4s")


def test_virtual_machine_opens_its_tap_and_is_reached(opavnic: Program, lab: str) -> None:
    """The part of the virtual machine is played by this test: it opens the TAP by its name, as QEMU does."""
    tap = f"vm{os.getpid() % 100000}"
    opavnic.up(LAB.format(lab=lab, host=f"{{tap: {tap}}}"))
    mac, address, asker = bytes.fromhex("525400123456"), bytes([10, 9, 2, 2]), bytes([10, 9, 2, 1])
    with open("/dev/net/tun", "r+b", buffering=0) as machine:
        fcntl.ioctl(machine, TUNSETIFF, struct.pack("16sH22x", tap.encode(), 0x1002))
        request = ARP.pack(b"\xff" * 6, mac, 0x806, 1, 0x800, 6, 4, 1, mac, address, bytes(6), asker)
        opavnic.on("h1", "timeout", "30", "sh", "-c", "until ip link show blue | grep -q UP; do :; done")
        with opavnic.started("exec", "h1", "--", "ping", "-W30", "-c1", "h2"):
            answered = False
            machine.write(request)
            while not answered:
                frame = os.read(machine.fileno(), 65536)
                if frame[12:14] == b"\x08\x06" and frame[20:22] == b"\0\2" and frame[38:42] == address:
                    answered = (
                        True  # h1 has found it behind the bridge, by its MAC address with the local bit
                    )
                elif frame[12:14] == b"\x08\x06" and frame[20:22] == b"\0\1" and frame[38:42] == address:
                    machine.write(request)
    assert opavnic("exec", "h2", "--", "true").returncode == 2
    assert f"interface {tap}" in opavnic.ok("down")
    assert tap not in ip("-br", "link")
