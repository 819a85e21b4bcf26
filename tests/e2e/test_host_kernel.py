"""What kernels and programs of hosts see is what was sent: at routers, relays, bridges and packet sockets."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes.util
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import pytest
import pytest_asyncio

from e2e import sctp_stream
from e2e.frames_seen import SIZE
from native_module import needs_native
from opavnic.lab.file.model import LabModel
from opavnic.lab.run.lab import Lab

PROGRAM = [sys.executable, str(Path(__file__).with_name("frames_seen.py"))]
HERE = Path(__file__).parent
COUNT = 20
GROUP = "239.1.1.1"
KINDS = {
    "one by one": ("send", "10.9.3.3"),
    "cut by UDP_SEGMENT": ("send-segmented", "10.9.3.3"),
    "to a group": ("send", GROUP),
}


@pytest_asyncio.fixture(params=["python", pytest.param("native", marks=needs_native)])
async def routed(request: pytest.FixtureRequest) -> AsyncIterator[Lab]:
    """A sender a, a router r of unicast and multicast, and a receiver b."""
    model = {
        "name": f"seen-{os.getpid()}",
        "datapath": request.param,
        "em": {"mac": "learn"},
        "hosts": {"a": {}, "r": {}, "b": {}},
        "vesws": [
            {"id": 2, "name": "blue", "subnet": "10.9.2.0/24", "members": ["a", "r"]},
            {"id": 3, "name": "red", "subnet": "10.9.3.0/24", "members": ["r", "b"]},
        ],
    }
    async with Lab(LabModel.model_validate(model)) as lab:
        await run(lab, "r", "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
        await run(lab, "a", "ip", "route", "add", "default", "via", "10.9.2.2")
        await run(lab, "b", "ip", "route", "add", "default", "via", "10.9.3.2")
        await run(
            lab, "a", "ping", "-c", "1", "-w", "20", "10.9.3.3"
        )  # all addresses are resolved from here on
        yield lab


async def run(lab: Lab, host: str, *command: str) -> None:
    done = await lab.run(host, list(command), timeout_s=30)
    assert done.returncode == 0, done.stdout + done.stderr


async def start(
    lab: Lab, host: str, *arguments: str, program: Sequence[str] = PROGRAM
) -> subprocess.Popen[str]:
    started = lab.popen(host, [*program, *arguments], stdin=-1, stdout=-1)
    assert await asyncio.to_thread(started.stdout.readline) == "listening\n"
    return started


async def ended(program: subprocess.Popen[str]) -> str:
    """Close the input of a program, and return what it prints."""
    out, _ = await asyncio.to_thread(program.communicate, "")
    assert program.returncode == 0, out
    return out


async def seen(watcher: subprocess.Popen[str]) -> list[int]:
    out, _ = await asyncio.to_thread(watcher.communicate)
    frames: list[int] = json.loads(out)
    return frames


async def test_router_and_sniffers_see_each_datagram_as_it_was_sent(routed: Lab) -> None:
    router = await start(routed, "r", "route", GROUP, "10.9.2.1", "10.9.2.2", "10.9.3.2")
    for kind, (verb, address) in KINDS.items():
        watchers = [
            await start(routed, "r", "watch", "blue", str(COUNT)),
            await start(routed, "b", "watch", "red", str(COUNT)),
        ]
        carrier = routed.world.carrier
        # what was sent while nothing passes arrives together, and could be merged
        with contextlib.nullcontext() if carrier is None else carrier.still():
            await run(routed, "a", *PROGRAM, verb, address, str(COUNT))
        assert [await seen(watcher) for watcher in watchers] == [[SIZE] * COUNT] * 2, kind
    await asyncio.to_thread(router.communicate, "")
    assert routed.world.fabric.balance() == {}


# --- DHCP ------------------------------------------------------------------------------------------------------

DHCPD = """
ping-check false; # which takes a second before each offer
subnet 10.9.2.0 netmask 255.255.255.0 {}
subnet 10.9.3.0 netmask 255.255.255.0 { range 10.9.3.100 10.9.3.120; option routers 10.9.3.2; }
"""
LEASED = """#!/bin/sh
# of udhcpc and of dhclient: what they call when the server has answered
[ -n "$ip" ] && [ "$1" = bound ] && ip address add $ip/24 dev $interface
[ "$reason" = BOUND ] && ip address add $new_ip_address/24 dev $interface
exit 0
"""
CLIENTS = {
    "udhcpc": "udhcpc -f -q -n -t 20 -T 1 -i {interface} -s {script}",
    "dhclient": "dhclient -4 -1 -sf {script} -lf {directory}/leases -pf {directory}/pid {interface}",
}


@contextlib.contextmanager
def daemon(lab: Lab, host: str, *command: str) -> Iterator[None]:
    with lab.popen(host, list(command), stdin=-3, stdout=-3) as started:
        try:
            yield
        finally:
            started.kill()
            started.wait()


@contextlib.contextmanager
def dhcp_server(lab: Lab, host: str, interface: str, directory: Path) -> Iterator[None]:
    settings, leases = directory / "dhcpd.conf", directory / "dhcpd.leases"
    settings.write_text(DHCPD)
    leases.write_text("")
    files = ("-cf", str(settings), "-lf", str(leases), "-pf", str(directory / "dhcpd.pid"))
    with daemon(lab, host, "dhcpd", "-4", "-f", *files, interface):
        yield


def lease_script(directory: Path) -> Path:
    directory.chmod(0o755)
    script = directory / "leased"
    script.write_text(LEASED)
    script.chmod(0o755)
    return script


async def bridged(lab: Lab) -> str:
    """Put a bridge between the VNIC of b and an interface with another MAC address; return the interface."""
    for command in (
        "ip link add br0 type bridge",
        "ip link add behind address 06:00:00:00:00:77 type veth peer name port",
        "ip link set red master br0",
        "ip link set port master br0",
        "ip link set br0 up",
        "ip link set port up",
        "ip link set behind up",
        "bridge fdb add 06:00:00:00:00:77 dev red self",
    ):
        await run(lab, "b", *command.split())
    return "behind"


@pytest.mark.parametrize("way", ["direct", "bridge", "relay"])
async def test_dhcp_server_serves_clients_of_another_host(routed: Lab, way: str, tmp_path: Path) -> None:
    if missing := [name for name in ("dhcpd", "dhcrelay", *CLIENTS) if shutil.which(name) is None]:
        pytest.skip(f"not installed: {missing} (isc-dhcp-server isc-dhcp-relay isc-dhcp-client udhcpc)")
    script = lease_script(tmp_path)
    await run(routed, "b", "ip", "address", "flush", "dev", "red")
    interface = await bridged(routed) if way == "bridge" else "red"
    with contextlib.ExitStack() as daemons:
        server = ("a", "blue") if way == "relay" else ("r", "red")
        daemons.enter_context(dhcp_server(routed, *server, tmp_path))
        if way == "relay":
            relay = ("dhcrelay", "-4", "-d", "-iu", "blue", "-id", "red", "10.9.2.1")
            daemons.enter_context(daemon(routed, "r", *relay))
        for client in CLIENTS.values():
            command = client.format(interface=interface, script=script, directory=tmp_path)
            await run(routed, "b", *command.split())
            await run(routed, "b", "ping", "-c", "1", "-w", "20", "10.9.3.2")
            await run(routed, "b", "ip", "address", "flush", "dev", interface)
    assert routed.world.fabric.balance() == {}


# --- IPsec and SCTP --------------------------------------------------------------------------------------------

STREAM = 200_000
LARGE = """
import socket, sys
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
if sys.argv[1] == "receive":
    sock.bind(("", 5007))
    sock.settimeout(60)
    print("listening", flush=True)
    print(sock.recv(65536) == bytes(range(250)) * 32)
else:
    sock.sendto(bytes(range(250)) * 32, (sys.argv[1], 5007))
"""


@pytest.mark.parametrize(
    ("routed", "mode"),
    [
        ("python", "transport"),
        pytest.param("native", "tunnel", marks=needs_native),
        pytest.param("python", "tunnel", marks=pytest.mark.slow),
        pytest.param("native", "transport", marks=[needs_native, pytest.mark.slow]),
    ],
    indirect=["routed"],
)
async def test_esp_carries_streams_and_datagrams_through_a_router(routed: Lab, mode: str) -> None:
    gateway = [sys.executable, str(HERE / "esp_gateway.py")]
    ends = [
        await start(routed, "a", mode, "10.9.2.1", "10.9.3.3", program=gateway),
        await start(routed, "b", mode, "10.9.3.3", "10.9.2.1", program=gateway),
    ]
    stream = [sys.executable, str(HERE / "checked_stream.py")]
    receiver = await start(routed, "b", "receive", "10.9.3.3", program=stream)
    sent = await routed.run("a", [*stream, "send", "10.9.3.3", str(STREAM)], timeout_s=60)
    assert json.loads(await ended(receiver)) == json.loads(sent.stdout)
    large = [sys.executable, "-c", LARGE]
    receiver = await start(routed, "b", "receive", program=large)
    await run(routed, "a", *large, "10.9.3.3")
    assert await ended(receiver) == "True\n"
    a, b = (json.loads(text) for text in await asyncio.gather(*map(ended, ends)))
    assert (a["sent"], b["sent"]) == (b["received"], a["received"])
    assert (a["failed"], b["failed"]) == (0, 0)
    assert a["sent"] > STREAM // 1400
    assert routed.world.fabric.balance() == {}


async def test_sctp_association_carries_a_stream_through_a_router(routed: Lab) -> None:
    if ctypes.util.find_library("usrsctp") is None:
        pytest.skip("not installed: libusrsctp2")
    program = [sys.executable, str(HERE / "sctp_stream.py")]
    receiver = await start(routed, "b", "receive", "10.9.3.3", program=program)
    await run(routed, "a", *program, "send", "10.9.3.3", str(2 * STREAM))
    assert (await ended(receiver)).strip() == hashlib.sha256(sctp_stream.data(2 * STREAM)).hexdigest()
    assert routed.world.fabric.balance() == {}
