"""The load balancer as a node on a network: frames in and out of a port, sync messages to the control plane."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address

from ejfat.base.addresses import IpAddress
from ejfat.base.drops import LbDrop
from ejfat.control.health import Conflict
from ejfat.pipeline import Pipeline, Verdict
from ejfat.pipeline.packet import ETH_ARP, ICMP, ICMPV6, Ip, Packet, parse_packet
from ejfat.wire.headers import SyncHeader
from hfi_sim.base.errors import WireError
from hfi_sim.wire.internet_checksum import checksum

# --- the neighbours of a node ------------------------------------------------------------------------------

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


# -----------------------------------------------------------------------------------------------------------

# --- what the network says about the load balancer ---------------------------------------------------------
# Source: RFC 5227 and RFC 4862 (conflicts), RFC 792 and RFC 4443 (unreachable).

_TELL_S = 10.0
_UNREACHABLE = 3
_CODES4 = {
    0: "network",
    1: "host",
    2: "protocol",
    3: "port",
    4: "fragmentation_needed",
    9: "network_prohibited",
    10: "host_prohibited",
    13: "prohibited",
}
_CODES6 = {
    0: "no_route",
    1: "prohibited",
    2: "beyond_scope",
    3: "address",
    4: "port",
    5: "source_policy",
    6: "route_rejected",
}
_UNREACHABLE6, _TOO_BIG6 = 1, 2
_SOLICITATION, _ADVERTISEMENT = 135, 136


class FrameWatch:
    """Looks at frames that are handled elsewhere; counts nothing twice."""

    def __init__(self, mac: Callable[[], bytes], own: Iterable[IpAddress], now: Callable[[], float]) -> None:
        """Args:  mac: returns the node's MAC (6 bytes). own: its addresses. now: Unix time."""
        self._mac = mac
        self._own = {address.packed: address for address in own}
        self._now = now
        self._told_at = float("-inf")
        self.conflicts: dict[IpAddress, Conflict] = {}
        """By the address that another host has too."""
        self.unreachable: Counter[str] = Counter()
        """Messages that a packet of this load balancer did not arrive, by ICMP version and reason."""

    def see(self, packet: Packet) -> None:
        """Look at a packet from the port."""
        frame, ip = packet.frame, packet.untagged
        if packet.ether_type == ETH_ARP:
            if frame[12:20] == ARP_FRONT and len(frame) >= 42:
                self._claim(frame[28:32], frame[22:28])
        elif ip is not None and ip.protocol == (ICMP if ip.version == 4 else ICMPV6):
            self._see_icmp(packet, ip)

    def announcements(self) -> list[bytes]:
        """Return the frames that make a host with one of the addresses known, to it and to this one."""
        return [question(self._mac(), ip) for ip in self._own]

    def _see_icmp(self, packet: Packet, ip: Ip) -> None:
        message = packet.frame[ip.l4 :]
        if len(message) < 8:
            return
        kind, code, said = message[0], message[1], message[8:]
        if ip.protocol == ICMP:
            if kind == _UNREACHABLE and said[12:16] in self._own:
                self.unreachable[f"icmpv4:{_CODES4.get(code, f'code_{code}')}"] += 1
        elif kind == _UNREACHABLE6 and said[8:24] in self._own:
            self.unreachable[f"icmpv6:{_CODES6.get(code, f'code_{code}')}"] += 1
        elif kind == _TOO_BIG6 and said[8:24] in self._own:
            self.unreachable["icmpv6:too_big"] += 1
        elif kind == _ADVERTISEMENT or (kind == _SOLICITATION and not any(packet.source)):
            self._claim(message[8:24], packet.frame[6:12])

    def _claim(self, address: bytes, mac: bytes) -> None:
        found = self._own.get(address)
        if found is None or mac == self._mac():
            return
        now, text = self._now(), mac.hex(":")
        known = self.conflicts.get(found)
        since = known.since if known is not None and known.mac == text else now
        self.conflicts[found] = Conflict(text, since, now)
        if now - self._told_at >= _TELL_S:
            self._told_at = now
            log.error("%s says that it has %s too: packets go to one of two hosts", text, found)


# -----------------------------------------------------------------------------------------------------------

log = logging.getLogger("ejfat.live.node")

_TAKEN = Verdict(None)

OnForward = Callable[[bytes, bytes], None]
"""Called with each forwarded frame: as received, and as sent."""
OnSync = Callable[[IpAddress, int, SyncHeader], LbDrop | None]
"""Called with the source address, the UDP destination port and a sync message; returns a reason to refuse it."""


class LbNode:
    """A pipeline attached to a port."""

    def __init__(
        self,
        pipeline: Pipeline,
        send: Callable[[bytes], object],
        *,
        mac: Callable[[], bytes],
        addresses: list[IpAddress],
        on_sync: OnSync,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.pipeline = pipeline
        self.neighbors = Neighbors(send, mac, addresses)
        self.watch = FrameWatch(mac, addresses, now)
        self.on_forward: OnForward | None = None
        self.send = send
        """Sends a frame from the port."""
        self._addresses = {address.packed for address in addresses}
        self._on_sync = on_sync

    def receive(self, frame: bytes) -> None:
        """Handle a frame from the port.

        What leaves for the load balancer itself, an instance downstream of another, comes back at once: no switch sends
        a frame back to where it came from. Each pass decrements the TTL or removes a header.
        """
        packet = parse_packet(frame)
        self.watch.see(packet)
        verdict = self._pass(packet)
        while verdict.frame is not None and verdict.comes_back:
            verdict = self._pass(parse_packet(verdict.frame))
        if verdict.frame is None or verdict.to_host:
            return
        if self.on_forward is not None:
            self.on_forward(frame, verdict.frame)
        self.send(verdict.frame)

    def _pass(self, packet: Packet) -> Verdict:
        """Take a frame once; return the verdict, without a frame if it was the node's own."""
        if self.neighbors.receive(packet):
            return _TAKEN
        if packet.is_sync(self.pipeline.sync_ports) and packet.destination in self._addresses:
            self._receive_sync(packet)
            return _TAKEN
        return self.pipeline.process_packet(packet)

    def _receive_sync(self, packet: Packet) -> None:
        refusal: LbDrop | None = LbDrop.SYNC_MALFORMED
        try:
            sync = SyncHeader.parse(packet.payload)
        except WireError as error:
            log.debug("bad sync message: %s", error)
        else:
            refusal = self._on_sync(ip_address(packet.source), packet.port, sync)
        self.pipeline.count_sync(len(packet.raw), refusal)
