"""Hosts without a kernel, for labs in memory, under an app or a responder: ARP, ICMP echo, UDP, and a byte stream to
show that frames pass.

It uses the host side of a memory netdev, as Linux uses that of a TAP. The byte stream is not TCP but a go-back-N window
over UDP datagrams; like TCP, it shows whether the fabric delivers data in order and undamaged.
"""

from __future__ import annotations

import asyncio
import ipaddress
import struct
from collections.abc import Callable
from functools import partial
from ipaddress import IPv4Address
from typing import Final

from hfi_sim.base.errors import NetdevError
from hfi_sim.base.types import MacAddr, mac_text
from hfi_sim.netdev.base import Netdev
from hfi_sim.netdev.memory import MemoryNetdev
from hfi_sim.wire.internet_checksum import checksum
from opavnic.world.host_backends.backend import HostBackend, SetUp
from opavnic.world.host_backends.given import Interface

BROADCAST: Final = MacAddr(b"\xff" * 6)
STREAM_PORT: Final = 5201
_ETH_ARP: Final = b"\x08\x06"
_ETH_IPV4: Final = b"\x08\x00"
_ARP: Final = struct.Struct("!HHBBH6s4s6s4s")
_IPV4: Final = struct.Struct("!BBHHHBBH4s4s")
_ICMP: Final = struct.Struct("!BBHHH")
_UDP: Final = struct.Struct("!HHHH")
_PSEUDO: Final = struct.Struct("!4s4sHH")
"""The pseudo-header that the checksum of UDP covers."""
_SEGMENT: Final = struct.Struct("!BI")  # 0 data, 1 acknowledgement; sequence number of the segment
_ICMP_PROTOCOL: Final = 1
_UDP_PROTOCOL: Final = 17
_ECHO_REQUEST: Final = 8
_WINDOW: Final = 32


OnUdp = Callable[[bytes, int], None]
"""Called with the payload of a datagram and its destination port."""


class MemoryHost:
    """One IPv4 address on one memory netdev: answers ARP and pings; pings, and sends bytes and datagrams itself."""

    def __init__(self, netdev: MemoryNetdev, address: ipaddress.IPv4Address) -> None:
        """Attach to the host side of `netdev`."""
        self.address = address
        self.received = bytearray()
        """The bytes received from streams, in order."""
        self.on_udp: OnUdp | None = None
        """Receives the datagrams to all ports except that of the stream."""
        self.frames_sent = 0
        self.frames_received = 0
        self._netdev = netdev
        self._neighbours: dict[bytes, MacAddr] = {}
        self._waiting: dict[object, asyncio.Future[bytes]] = {}
        self._expected = 0
        self._acknowledged: Callable[[int], None] = lambda sequence: None
        netdev.on_receive = self._receive

    async def ping(self, target: ipaddress.IPv4Address, count: int, timeout_s: float = 1.0) -> int:
        """Send `count` echo requests, one after the other, and return how many were answered."""
        answered = 0
        for sequence in range(1, count + 1):
            body = bytes(range(56))
            echo = _ICMP.pack(_ECHO_REQUEST, 0, 0, 1, sequence)
            echo = _ICMP.pack(_ECHO_REQUEST, 0, checksum(echo + body), 1, sequence) + body
            mac = await self.resolve(target, timeout_s)
            if mac is not None:
                send = partial(self._send_ip, mac, target.packed, _ICMP_PROTOCOL, echo)
                answered += await self._ask(sequence, timeout_s, send) == body
        return answered

    async def stream(self, target: ipaddress.IPv4Address, data: bytes, timeout_s: float = 1.0) -> int:
        """Send bytes to the stream port of `target` and return how many were acknowledged."""
        mac = await self.resolve(target, timeout_s)
        if mac is None:
            return 0
        size = self._netdev.mtu - _IPV4.size - _UDP.size - _SEGMENT.size
        segments = [data[start : start + size] for start in range(0, len(data), size)]
        acknowledged = 0
        progress = asyncio.Event()

        def on_acknowledgement(sequence: int) -> None:
            nonlocal acknowledged
            acknowledged = max(acknowledged, sequence)
            progress.set()

        self._acknowledged = on_acknowledgement
        while acknowledged < len(segments):
            before = acknowledged
            progress.clear()
            for number in range(acknowledged, min(acknowledged + _WINDOW, len(segments))):
                self._send_segment(mac, target.packed, _SEGMENT.pack(0, number) + segments[number])
            if acknowledged == before:
                try:
                    await asyncio.wait_for(progress.wait(), timeout_s)
                except TimeoutError:
                    break
        return sum(map(len, segments[:acknowledged]))

    def send_udp(
        self, mac: MacAddr, target: ipaddress.IPv4Address, payload: bytes, *, src_port: int, dst_port: int
    ) -> None:
        """Send a datagram to a neighbour whose MAC address is known."""
        length = _UDP.size + len(payload)
        pseudo = _PSEUDO.pack(self.address.packed, target.packed, _UDP_PROTOCOL, length)
        udp = _UDP.pack(src_port, dst_port, length, 0)
        udp = _UDP.pack(src_port, dst_port, length, checksum(pseudo + udp + payload) or 0xFFFF)
        self._send_ip(mac, target.packed, _UDP_PROTOCOL, udp + payload)

    def close(self) -> None:
        """Neither answer nor receive any more."""
        self.on_udp = None
        self._netdev.on_receive = lambda _frame: None

    async def resolve(self, target: ipaddress.IPv4Address, timeout_s: float = 1.0) -> MacAddr | None:
        """Return the MAC address of a neighbour, asking for it once; None if it does not answer."""
        key = target.packed
        if key not in self._neighbours:
            await self._ask(key, timeout_s, lambda: self._send_arp(1, BROADCAST, bytes(6), key))
        return self._neighbours.get(key)

    async def _ask(self, key: object, timeout_s: float, send: Callable[[], None]) -> bytes | None:
        """Send a question and return its answer; None if none came in time."""
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting[key] = future
        try:
            send()
            return await asyncio.wait_for(future, timeout_s)
        except TimeoutError:
            return None
        finally:
            self._waiting.pop(key, None)

    def _answer(self, key: object, value: bytes) -> None:
        future = self._waiting.get(key)
        if future is not None and not future.done():
            future.set_result(value)

    # frames out

    def _send(self, mac: MacAddr, ethertype: bytes, payload: bytes) -> None:
        self.frames_sent += self._netdev.transmit(mac + self._netdev.address + ethertype + payload)

    def _send_arp(self, operation: int, mac: MacAddr, target_mac: bytes, target: bytes) -> None:
        arp = _ARP.pack(
            1, 0x0800, 6, 4, operation, self._netdev.address, self.address.packed, target_mac, target
        )
        self._send(mac, _ETH_ARP, arp)

    def _send_ip(self, mac: MacAddr, target: bytes, protocol: int, payload: bytes) -> None:
        fields = (0x45, 0, _IPV4.size + len(payload), 0, 0, 64, protocol)
        header = _IPV4.pack(*fields, 0, self.address.packed, target)
        header = _IPV4.pack(*fields, checksum(header), self.address.packed, target)
        self._send(mac, _ETH_IPV4, header + payload)

    def _send_segment(self, mac: MacAddr, target: bytes, segment: bytes) -> None:
        udp = _UDP.pack(STREAM_PORT, STREAM_PORT, _UDP.size + len(segment), 0)
        self._send_ip(mac, target, _UDP_PROTOCOL, udp + segment)

    # frames in

    def _receive(self, frame: bytes) -> None:
        self.frames_received += 1
        ethertype, payload = frame[12:14], frame[14:]
        if ethertype == _ETH_ARP and len(payload) >= _ARP.size:
            self._receive_arp(payload)
        elif ethertype == _ETH_IPV4 and len(payload) >= _IPV4.size:
            self._receive_ip(MacAddr(frame[6:12]), payload)

    def _receive_arp(self, payload: bytes) -> None:
        _, _, _, _, operation, mac, sender, _, target = _ARP.unpack_from(payload)
        if target != self.address.packed:
            return
        self._neighbours[sender] = MacAddr(mac)
        if operation == 1:
            self._send_arp(2, MacAddr(mac), mac, sender)
        else:
            self._answer(sender, mac)

    def _receive_ip(self, source_mac: MacAddr, packet: bytes) -> None:
        _, _, length, _, _, _, protocol, _, source, target = _IPV4.unpack_from(packet)
        payload = packet[_IPV4.size : length]
        if target != self.address.packed or checksum(packet[: _IPV4.size]):
            return
        if protocol == _ICMP_PROTOCOL and len(payload) >= _ICMP.size and not checksum(payload):
            kind, _, _, ident, sequence = _ICMP.unpack_from(payload)
            body = payload[_ICMP.size :]
            if kind == _ECHO_REQUEST:
                reply = _ICMP.pack(0, 0, 0, ident, sequence)
                reply = _ICMP.pack(0, 0, checksum(reply + body), ident, sequence)
                self._send_ip(source_mac, source, _ICMP_PROTOCOL, reply + body)
            else:
                self._answer(sequence, body)
        elif protocol == _UDP_PROTOCOL and len(payload) >= _UDP.size:
            _, port, length, _ = _UDP.unpack_from(payload)
            data = payload[_UDP.size : length]
            if port != STREAM_PORT:
                if self.on_udp is not None:
                    self.on_udp(data, port)
            elif len(data) >= _SEGMENT.size:
                self._receive_segment(source_mac, source, data)

    def _receive_segment(self, source_mac: MacAddr, source: bytes, segment: bytes) -> None:
        kind, sequence = _SEGMENT.unpack_from(segment)
        if kind == 1:
            self._acknowledged(sequence)
            return
        if sequence == self._expected:
            self.received += segment[_SEGMENT.size :]
            self._expected += 1
        self._send_segment(source_mac, source, _SEGMENT.pack(1, self._expected))

    def __repr__(self) -> str:
        return f"MemoryHost({self.address} at {mac_text(self._netdev.address)})"


class InMemoryHost(HostBackend):
    """A host without a kernel: memory netdevs, each with a responder, or used by an app of this process."""

    def __init__(self, name: str, interfaces: list[Interface], *, of_app: bool = False) -> None:
        super().__init__(name, interfaces)
        self._of_app = of_app
        self.runs_no_programs = "hosts in memory run no programs"
        if of_app:
            self.runs_no_programs = f"host {name} belongs to an app: it runs no programs"

    def _make(self, name: str) -> tuple[Netdev, SetUp]:
        netdev = MemoryNetdev(name)
        return netdev, partial(self._set_up, netdev)

    def _set_up(self, netdev: MemoryNetdev, interface: Interface) -> None:
        first = next((one.ip for one in interface.addresses if isinstance(one.ip, IPv4Address)), None)
        if self._of_app:
            interface.app_netdev = netdev
        elif first is not None:
            interface.memory_host = MemoryHost(netdev, first)
        try:
            self._bring_up(netdev, interface.vesw.mtu)
        except NetdevError as error:
            self.trouble.append(f"{interface}: {error}")

    def _bring_up(self, netdev: Netdev, mtu: int) -> None:
        assert isinstance(netdev, MemoryNetdev)  # noqa: S101 - `_make` makes no other
        netdev.change_mtu(mtu)
        if refused := netdev.open():
            raise NetdevError(f"cannot be set up (errno {-refused})", -refused)
