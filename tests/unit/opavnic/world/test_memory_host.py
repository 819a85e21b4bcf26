"""The small IP stack of hosts in memory, two of them on one wire."""

from __future__ import annotations

from ipaddress import IPv4Address

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from hfi_sim.base.types import MacAddr
from hfi_sim.netdev.memory import MemoryNetdev, memory_netdev
from opavnic.world.host_backends.memory_host import STREAM_PORT, MemoryHost

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]

ONE, TWO, NOBODY = (IPv4Address(f"10.0.0.{number}") for number in (1, 2, 9))


class Wire:
    """The adapter of a netdev, for which the other netdev is the whole fabric."""

    def __init__(self, far: MemoryNetdev) -> None:
        self.far = far
        self.frames: list[bytes] = []

    def ndo_open(self) -> int:
        return 0

    def ndo_stop(self) -> None:
        pass

    def ndo_set_mac_address(self, mac: MacAddr) -> int:
        return 0

    def ndo_set_rx_mode(self) -> None:
        pass

    def ndo_start_xmit(self, frame: bytes) -> None:
        self.frames.append(frame)
        self.far.receive(frame)

    def ndo_rx_wake(self) -> None:
        pass


def pair() -> tuple[MemoryHost, MemoryHost, Wire]:
    """Return two hosts, and the wire that carries what the first one sends."""
    netdevs = memory_netdev(1), memory_netdev(2)
    for number, (near, far) in enumerate((netdevs, netdevs[::-1]), 1):
        near.ops = Wire(far)
        near.set_mac(MacAddr(bytes([2, 0, 0, 0, 0, number])))
        near.open()
    wire = netdevs[0].ops
    assert isinstance(wire, Wire)
    return MemoryHost(netdevs[0], ONE), MemoryHost(netdevs[1], TWO), wire


async def test_datagram_arrives_with_its_port_and_valid_checksums() -> None:
    one, two, wire = pair()
    got: list[tuple[bytes, int]] = []
    two.on_udp = lambda payload, port: got.append((payload, port))
    mac = await one.resolve(TWO)
    assert mac == MacAddr(b"\x02\0\0\0\0\2")
    one.send_udp(mac, TWO, b"seven b", src_port=7, dst_port=9)
    assert got == [(b"seven b", 9)]
    sent = Ether(wire.frames[-1])
    checksums = sent[IP].chksum, sent[UDP].chksum
    del sent[IP].chksum, sent[UDP].chksum
    again = Ether(bytes(sent))
    assert checksums == (again[IP].chksum, again[UDP].chksum)


async def test_datagrams_and_the_stream_do_not_meet() -> None:
    one, two, _ = pair()
    got: list[bytes] = []
    two.on_udp = lambda payload, _port: got.append(payload)
    assert await one.stream(TWO, b"x" * 5000) == 5000
    mac = await one.resolve(TWO)
    assert mac is not None
    one.send_udp(mac, TWO, bytes(9), src_port=STREAM_PORT, dst_port=STREAM_PORT + 1)
    assert (bytes(two.received), got) == (b"x" * 5000, [bytes(9)])


async def test_host_that_is_not_there_is_not_resolved() -> None:
    one, _, _ = pair()
    assert await one.resolve(NOBODY) is None
    assert await one.ping(NOBODY, 2) == 0
    assert await one.stream(NOBODY, b"x") == 0


async def test_closed_host_neither_receives_nor_answers() -> None:
    one, two, _ = pair()
    got: list[bytes] = []
    two.on_udp = lambda payload, _port: got.append(payload)
    mac = await one.resolve(TWO)
    assert mac is not None
    two.close()
    one.send_udp(mac, TWO, b"", src_port=1, dst_port=2)
    assert got == []
    assert await one.ping(TWO, 1) == 0
