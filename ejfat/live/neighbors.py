"""ARP and IPv6 neighbor discovery for a node without a kernel."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address

from ejfat.base.addresses import IpAddress
from ejfat.pipeline.packet import ETH_ARP, ICMPV6, Packet
from hfi_sim.wire.internet_checksum import checksum

ARP_FRONT = bytes.fromhex("0806000108000604")
_TRIES = 3


class Neighbors:
    """MAC addresses of neighbors that were asked for, learned from ARP replies and neighbor advertisements."""

    def __init__(
        self, send: Callable[[bytes], object], mac: Callable[[], bytes], own: list[IpAddress]
    ) -> None:
        """Args:  mac: returns the node's MAC (6 bytes). own: the node's addresses, the sources of its requests."""
        self.on_move: Callable[[IpAddress, bytes], None] = lambda ip, mac: None
        """Called when a neighbor has another MAC than before."""
        self._send = send
        self._mac = mac
        self._own = {address.version: address for address in own}
        self._known: dict[IpAddress, bytes] = {}
        self._waiting: dict[IpAddress, asyncio.Future[bytes]] = {}

    def known(self, ip: IpAddress) -> bytes | None:
        """Return the MAC of `ip` (6 bytes) if it is known, or None."""
        return self._known.get(ip)

    async def resolve(self, ip: IpAddress, timeout_s: float = 1.0, *, afresh: bool = False) -> bytes | None:
        """Return the MAC of `ip` (6 bytes); send up to three requests. None if there is no answer.

        Args:    afresh: send a request even if the MAC is known, because the host may have a new interface.
        """
        if ip in self._known and not afresh:
            return self._known[ip]
        own = self._own.get(ip.version)
        if own is None:
            return None
        future = self._waiting.get(ip)
        if future is None:
            future = self._waiting[ip] = asyncio.get_running_loop().create_future()
        for _ in range(_TRIES):
            self._send(self._question(ip, own))
            try:
                return await asyncio.wait_for(asyncio.shield(future), timeout_s / _TRIES)
            except TimeoutError:
                continue
        self._waiting.pop(ip, None)
        return None

    def watch(self, ip: IpAddress, mac: bytes) -> None:
        """Ask a neighbor that has `mac`, as far as is known, whether it still has it."""
        self._known.setdefault(ip, mac)
        own = self._own.get(ip.version)
        if own is not None:
            self._send(self._question(ip, own))

    def receive(self, packet: Packet) -> bool:
        """Learn from an ARP reply or a neighbor advertisement; return False if the packet is neither."""
        frame = packet.frame
        if packet.ether_type == ETH_ARP:
            if frame[12:20] != ARP_FRONT or len(frame) < 42:
                return False
            self._learn(IPv4Address(frame[28:32]), frame[22:28])  # of a question, too: it tells its own MAC
            return bytes(frame[20:22]) == b"\x00\x02"
        ip = packet.untagged
        if ip is None or (ip.version, ip.protocol) != (6, ICMPV6):
            return False
        if frame[54:56] != b"\x88\x00" or len(frame) < 78:
            return False
        has_option = frame[78:80] == b"\x02\x01" and len(frame) >= 86
        self._learn(IPv6Address(frame[62:78]), frame[80:86] if has_option else frame[6:12])
        return True

    def _learn(self, ip: IpAddress, mac: bytes) -> None:
        if ip not in self._waiting and ip not in self._known:
            return  # unrequested: claims of other hosts must not fill the memory
        before, self._known[ip] = self._known.get(ip), bytes(mac)
        if before is not None and before != bytes(mac):
            self.on_move(ip, bytes(mac))
        future = self._waiting.pop(ip, None)
        if future is not None and not future.done():
            future.set_result(bytes(mac))

    def _question(self, ip: IpAddress, own: IpAddress) -> bytes:
        return question(self._mac(), ip.packed, own.packed)


def question(mac: bytes, ip: bytes, own: bytes = b"") -> bytes:
    """Return the frame that asks for the MAC of an address, ARP or a neighbor solicitation.

    Args:    own: the asking address; empty: the question is whether anyone has `ip`, the address that is to be used.
    """
    if len(ip) == 4:
        body = b"\x00\x01" + mac + (own or ip) + bytes(6) + ip
        return (b"\xff" * 6 + mac + ARP_FRONT + body).ljust(60, b"\0")
    source, option = (own, b"\x01\x01" + mac) if own else (bytes(16), b"")
    group = b"\xff\x02" + bytes(9) + b"\x01\xff" + ip[13:]
    body = bytes(4) + ip + option
    length = (4 + len(body)).to_bytes(2, "big")
    icmp_sum = checksum(source + group + bytes(2) + length + b"\x00\x00\x00\x3a\x87\x00\x00\x00" + body)
    header = b"\x60\x00\x00\x00" + length + b"\x3a\xff" + source + group
    ethernet = b"\x33\x33\xff" + ip[13:] + mac + b"\x86\xdd"
    return ethernet + header + b"\x87\x00" + icmp_sum.to_bytes(2, "big") + body
