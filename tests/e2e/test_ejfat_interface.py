"""The load balancer's packet socket on a real interface: what it counts, and what it leaves as it was."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import json, socket, subprocess, sys, time
from ejfat.live.ports import PacketPort
from ejfat.live.routes import routes_of
from hfi_sim.netdev.ethtool import merges_received, set_merges_received

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
routes = sorted((str(r.network), str(r.gateway), r.metric) for r in routes_of("lb0") if r.network.version == 4)
probe = socket.socket()
set_merges_received(probe, "lb0", True)
before = merges_received(probe, "lb0")
port = PacketPort("lb0")
during = merges_received(probe, "lb0")
port._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
wire.bind(("wire0", 0))
for number in range(500):
    wire.send(bytes(12) + b"\\x08\\x00" + bytes(1000))
taken = 0
while True:
    try:
        port._socket.recv(65536)
    except BlockingIOError:
        break
    taken += 1
first, second = port.missed, port.missed
print(json.dumps({
    "routes": routes, "gro": [before, during, merges_received(probe, "lb0")],
    "taken": taken, "missed": [first, second], "gone": routes_of("none0"),
}))
"""


def test_packet_socket_counts_what_it_misses_and_changes_nothing_of_the_interface(namespace: Path) -> None:
    command = ["ip", "netns", "exec", namespace.name, sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["gro"] == [True, True, True]
    assert told["routes"] == [
        ["0.0.0.0/0", "10.7.0.254", 50],
        ["10.7.0.0/24", "None", 0],
        ["10.9.0.0/16", "10.7.0.253", 0],
    ]
    assert told["gone"] == []
    assert told["missed"][0] == told["missed"][1] > 0
    assert told["taken"] + told["missed"][0] >= 500, "every frame was taken or counted"


FILTERED = """
import json, socket, subprocess
from ipaddress import ip_address
from ejfat.live.ports import PacketPort
from ejfat.segmentation import udp_packet

subprocess.run("ip link add lb0 type veth peer name wire0 && ip link set lb0 up && ip link set wire0 up",
               shell=True, check=True)
own = [ip_address(text) for text in ("10.7.0.100", "fd07::100", "10.7.0.101", "fd07::101")]
port = PacketPort("lb0", own)
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
port._socket.settimeout(60)
taken = []
while not taken or taken[-1] != "100":
    frame = port._socket.recv(65536)[10:]
    if frame[12:14] == b"\\x08\\x06":
        taken.append("arp")
    elif frame[-3:].isdigit():
        taken.append(frame[-3:].decode())
print(json.dumps(taken))
"""


def test_packet_socket_leaves_the_hosts_own_traffic_alone(namespace: Path) -> None:
    command = ["ip", "netns", "exec", namespace.name, sys.executable, "-c", FILTERED]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["000", "002", "004", "005", "006", "arp", "100"]
