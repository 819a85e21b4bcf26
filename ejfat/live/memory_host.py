"""A UDP host without a kernel: what stands on a memory netdev in labs that have no TAPs."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv4Address

from ejfat.live.neighbors import IpAddress, Neighbors
from ejfat.segmentation import udp_packet
from hfi_sim.netdev.memory import MemoryNetdev

OnUdp = Callable[[bytes, int], None]
"""Told of a datagram: its payload, the port it came to."""


class MemoryUdpHost:
    """One IPv4 address: answers ARP, sends datagrams, hands received ones on."""

    def __init__(self, netdev: MemoryNetdev, ip: IPv4Address) -> None:
        self.netdev = netdev
        self.ip = ip
        self.on_udp: OnUdp | None = None
        self.neighbors = Neighbors(netdev.transmit, lambda: bytes(netdev.address), [ip])
        netdev.on_receive = self._receive

    async def resolve(self, ip: IpAddress) -> bytes | None:
        """Return the MAC of a neighbor."""
        return await self.neighbors.resolve(ip)

    def send(self, mac: bytes, ip: IpAddress, payload: bytes, *, src_port: int, dst_port: int) -> None:
        """Send a datagram to a neighbor whose MAC is known."""
        packet = udp_packet(payload, src=self.ip, dst=ip, src_port=src_port, dst_port=dst_port)
        self.netdev.transmit(mac + bytes(self.netdev.address) + packet)

    def close(self) -> None:
        """Neither answer nor receive any more."""
        self.on_udp = None
        self.netdev.on_receive = _ignore

    def _receive(self, frame: bytes) -> None:
        if frame[12:14] == b"\x08\x06":
            if not self.neighbors.receive(frame):
                self._answer_arp(frame)
        elif frame[12:15] == b"\x08\x00\x45" and frame[23:24] == b"\x11" and frame[30:34] == self.ip.packed:
            end = 34 + int.from_bytes(frame[38:40], "big")
            if self.on_udp is not None and end >= 42:
                self.on_udp(frame[42:end], int.from_bytes(frame[36:38], "big"))

    def _answer_arp(self, frame: bytes) -> None:
        if len(frame) >= 42 and frame[20:22] == b"\x00\x01" and frame[38:42] == self.ip.packed:
            mac = bytes(self.netdev.address)
            body = b"\x00\x02" + mac + self.ip.packed + frame[22:32]
            self.netdev.transmit((frame[6:12] + mac + frame[12:20] + body).ljust(60, b"\0"))


def _ignore(frame: bytes) -> None:
    """Take a frame to nowhere."""
