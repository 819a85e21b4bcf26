"""The load balancer's packet socket on a real interface: what it counts, and what it leaves as it was."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from e2e.places import inside
from native_module import needs_native
from program import ok


def told_in(namespace: Path, script: str, *words: str) -> Any:
    """Run a script in a namespace; return the JSON that it prints."""
    done = inside(namespace.name, sys.executable, "-c", script, *words, timeout_s=120)
    return json.loads(ok(done))


PROGRAM = """
import json, socket, subprocess, sys, time
from ejfat.live.ports import PacketPort
from ejfat.live.routes import routes_of
from hfi_sim.netdev.ethtool import GRO, features, set_feature

def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True)

for family in ("all", "default"):
    with open(f"/proc/sys/net/ipv6/conf/{family}/accept_dad", "w") as file:
        file.write("0")
ip("link", "add", "lb0", "type", "veth", "peer", "name", "wire0")
for name in ("lb0", "wire0"):
    ip("link", "set", name, "up")
ip("address", "add", "10.7.0.1/24", "dev", "lb0")
ip("route", "add", "default", "via", "10.7.0.254", "dev", "lb0", "metric", "50")
ip("route", "add", "10.9.0.0/16", "via", "10.7.0.253", "dev", "lb0")
routes = sorted((str(r.to), *map(str, r.via), r.metric) for r in routes_of("lb0") if r.to.version == 4)
probe = socket.socket()
set_feature(probe, "lb0", GRO, True)
before = GRO in features(probe, "lb0")
port = PacketPort("lb0")
port.open()
(taker,) = port._sockets
during = GRO in features(probe, "lb0")
taker.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
wire.bind(("wire0", 0))
for number in range(500):
    wire.send(bytes(12) + b"\\x08\\x00" + bytes(1000))
taken = 0
while True:
    try:
        taker.recv(65536)
    except BlockingIOError:
        break
    taken += 1
first, second = port.missed, port.missed
print(json.dumps({
    "routes": routes, "gro": [before, during, GRO in features(probe, "lb0")],
    "taken": taken, "missed": [first, second], "gone": routes_of("none0"),
}))
"""


def test_packet_socket_counts_what_it_misses_and_changes_nothing_of_the_interface(namespace: Path) -> None:
    told = told_in(namespace, PROGRAM)
    assert told["gro"] == [True, True, True]
    assert told["routes"] == [
        ["0.0.0.0/0", "10.7.0.254", 50],
        ["10.7.0.0/24", 0],
        ["10.9.0.0/16", "10.7.0.253", 0],
    ]
    assert told["gone"] == []
    assert told["missed"][0] == told["missed"][1] > 0
    assert told["taken"] + told["missed"][0] >= 500, "every frame was taken or counted"


FILTERED = """
import json, socket, subprocess
from ipaddress import ip_address
from ejfat.live.ports import PacketPort
from opavnic_bench.ejfat.frames import udp_packet

subprocess.run("ip link add lb0 type veth peer name wire0 && ip link set lb0 up && ip link set wire0 up",
               shell=True, check=True)
own = [ip_address(text) for text in ("10.7.0.100", "fd07::100", "10.7.0.101", "fd07::101")]
port = PacketPort("lb0", own)
port.open()
(taker,) = port._sockets
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
wire.bind(("wire0", 0))

def udp(text, number):
    dst = ip_address(text)
    src = ip_address("10.7.0.9" if dst.version == 4 else "fd07::9")
    return bytes(12) + udp_packet(b"%03d" % number, src=src, dst=dst, src_port=1, dst_port=2)

sent = ["10.7.0.100", "10.7.0.1", "fd07::100", "fd07::1", "10.7.0.101", "fd07::101", "ff02::1", "fd07:1::100"]
for number, text in enumerate(sent):
    wire.send(udp(text, number))
tcp = bytearray(udp("10.7.0.1", 99))
tcp[23] = 6
wire.send(bytes(tcp))
wire.send((bytes(12) + bytes.fromhex("0806000108000604") + b"ARP").ljust(60, b"."))
wire.send(bytes(12) + bytes.fromhex("88cc") + bytes(46))
wire.send(udp("10.7.0.100", 100))
taker.settimeout(60)
taken = []
while not taken or taken[-1] != "100":
    frame = taker.recv(65536)[10:]
    if frame[12:14] == b"\\x08\\x06":
        taken.append("arp")
    elif frame[-3:].isdigit():
        taken.append(frame[-3:].decode())
print(json.dumps(taken))
"""


def test_packet_socket_leaves_the_hosts_own_traffic_alone(namespace: Path) -> None:
    assert told_in(namespace, FILTERED) == ["000", "002", "004", "005", "006", "arp", "100"]


CARRIED = """
import asyncio, json, os, socket, subprocess, sys
from ejfat.live.carrier import NativeCarrier
from ejfat.live.ports import VNET, frames_of
from ejfat.live.ports import PacketPort
from ejfat.pipeline import Pipeline
from ejfat.pipeline.native import NativePipeline
from ejfat.tables.schema import Dialect
from opavnic_bench.ejfat.frames import LB, SENDER, WORKER, make_frames, make_tables
from ejfat.control.epochs.programming import Rewrite

WORKERS = int(sys.argv[1])
# each processor has a queue of its own behind a veth: a thread that moves to another one overtakes itself
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
for family in ("all", "default"):
    with open(f"/proc/sys/net/ipv6/conf/{family}/disable_ipv6", "w") as file:
        file.write("1")
subprocess.run("ip link add lb0 mtu 9000 type veth peer name wire0 mtu 9000 && ip link set lb0 up && "
               "ip link set wire0 up", shell=True, check=True)
worker = Rewrite(0, 0x020000000077, WORKER, 10000)

def flow(frame, number):
    # another source port, and its checksum: 0, as if there were none
    return frame[:34] + (5000 + number).to_bytes(2, "big") + frame[36:40] + bytes(2) + frame[42:]

def counts(pipeline):
    counters = pipeline.counters
    counters.lbs[0].last_tick = 0  # that of one of the workers
    return counters

async def main():
    tables, reference = make_tables(worker=worker), Pipeline(make_tables(worker=worker))
    pipeline, punts = NativePipeline(tables, workers=WORKERS), asyncio.Queue()
    port = PacketPort("lb0", [LB], WORKERS)
    failures = asyncio.Queue()
    carrier = NativeCarrier(pipeline, port, punts.put_nowait, failures.put_nowait)
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    wire.setsockopt(263, 15, 1)
    wire.setsockopt(socket.SOL_SOCKET, 33, 32 << 20)
    wire.bind(("wire0", 3))
    wire.setblocking(False)
    frames = [flow(frame, number % 16) for number, frame in enumerate(make_frames(2, 100)[:1000])]
    frames += [flow(frame, 3) for frame in make_frames(1, 100)[:10] + make_frames(2, 8000)[:10]]
    expected = [reference.process(frame).frame for frame in frames]
    carrier.start()
    loop = asyncio.get_running_loop()

    def taken():
        out = []
        while True:
            try:
                data, address = wire.recvfrom(70000)
            except BlockingIOError:
                return out
            if address[2] != 4 and data[10:16] == bytes.fromhex("020000000077"):
                out += frames_of(data)

    got = []
    for first in range(0, len(frames), 50):  # fewer than the queue of a processor holds
        for frame in frames[first:first + 50]:
            await loop.sock_sendall(wire, bytes(10) + frame)
        while len(got) < min(first + 50, len(frames)):
            got += taken()
            await asyncio.sleep(0)
    # datagrams sent in one call, as a veth hands them over: with the checksum left out
    payloads = [frame[42:] for frame in make_frames(2, 50)[:3]]
    head = make_frames(2, 50)[0][:42]
    whole = head + b"".join(payloads)
    length = len(whole) - 14
    whole = whole[:16] + length.to_bytes(2, "big") + whole[18:38] + (length - 20).to_bytes(2, "big") + whole[40:]
    header = VNET.pack(1, 5, 42, len(payloads[0]), 34, 6)
    await loop.sock_sendall(wire, header + whole)
    merged = [reference.process(frame).frame for frame in frames_of(header + whole)]
    tagged = frames[0][:12] + bytes.fromhex("81000005") + frames[0][12:]
    await loop.sock_sendall(wire, bytes(10) + tagged)
    reference.process(tagged)
    arp = (bytes(6) + b"\\x02" + bytes(5) + bytes.fromhex("0806000108000604") + bytes(28)).ljust(60, b"\\0")
    await loop.sock_sendall(wire, bytes(10) + arp)
    mine = await asyncio.wait_for(punts.get(), 60)
    while len(got) < len(expected) + len(merged):
        got += taken()
        await asyncio.sleep(0)
    while pipeline.counters.rx_packets < reference.counters.rx_packets:
        await asyncio.sleep(0)
    by_flow = lambda list_: [[f for f in list_ if f[34:36] == (5000 + n).to_bytes(2, "big")] for n in range(16)]
    told = {
        "same": sorted(got) == sorted(expected + merged), "order": by_flow(got) == by_flow(expected),
        "counters": counts(pipeline) == counts(reference), "arp": mine == arp, "lost": carrier.lost,
        "missed": port.missed, "drops": {str(k): v for k, v in pipeline.counters.drops.items()},
    }
    subprocess.run(["ip", "link", "set", "lb0", "down"], check=True)
    subprocess.run(["ip", "link", "set", "lb0", "up"], check=True)
    while not taken():
        try:
            await loop.sock_sendall(wire, bytes(10) + frames[0])
        except OSError:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
    subprocess.run(["ip", "link", "delete", "lb0"], check=True)
    told["gone"] = await asyncio.wait_for(failures.get(), 60)
    carrier.close()
    port.close()
    print(json.dumps(told))

asyncio.run(main())
"""


@needs_native
@pytest.mark.parametrize("workers", [1, 3])
def test_threads_carry_what_the_reference_forwards_in_the_order_of_each_flow(
    namespace: Path, workers: int
) -> None:
    assert told_in(namespace, CARRIED, str(workers)) == {
        **dict.fromkeys(("same", "order", "counters", "arp"), True),
        **dict.fromkeys(("lost", "missed"), 0),
        "drops": {"ip_dst_filter:miss": 1},
        "gone": "it is gone",
    }
