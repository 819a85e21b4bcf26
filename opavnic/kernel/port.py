"""A port of the fabric that belongs to a kernel: its VNICs and queue pair 1 are the kernel's. Sans-IO.

Below opa_vnic, subnet management (queue pair 0) and performance management stay with the port: they are hfi1's affair,
and it has them where it is the driver.
"""

from __future__ import annotations

import logging
import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple

from hfi_sim.base.counters import Drop, PacketCounters
from hfi_sim.base.types import CapabilityMask3, PortEvent
from hfi_sim.engine.events.outputs import BufferToken
from hfi_sim.nodes.end_port import EndPort
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.wire.icrc import PAD_COUNT_MASK, TRAILER_SIZE
from hfi_sim.wire.lrh16b import L4, L4_BYTE, EthernetL4, Lrh16B
from hfi_sim.wire.packet import seal_packet
from opavnic.kernel.wire import TX_REASONS, WireKind, build_frame, parse_drops, parse_frame, state_of

log = logging.getLogger("opavnic.kernel.port")
_SHORTEST: Final = 32
_VESW_ID_AT: Final = Lrh16B.SIZE + EthernetL4.HEADER.place("vesw_id").offset
_HEADER_SIZE: Final = Lrh16B.SIZE + EthernetL4.SIZE
_VNIC: Final = struct.Struct("!II")
BACKLOG: Final = 256
"""Packets that wait for a kernel with too much unread before more are dropped. On a link with credits they wait in the
buffer of the port, which stops the sender."""

OnVnic = Callable[[int, int], None]
"""Called with the interface index of a VNIC and the virtual switch that the kernel has put it on; 0: none."""


@dataclass(slots=True)
class KernelCounters:
    """Packets between a port and its kernel."""

    to_kernel: int = 0
    from_kernel: int = 0
    refused: int = 0
    """Of the kernel's, those that the port did not let out; the port counts why."""
    malformed: int = 0
    """Of the kernel's, those that are no packets."""


class _Unread(NamedTuple):
    """A packet that the kernel has no room for yet."""

    packet: bytes
    token: BufferToken | None
    counters: PacketCounters
    """Those of its virtual switch, or of MADs."""


class PortOfKernel:
    """One port, from its handing over until `close`: packets of some L4 types and of queue pair 1 are the kernel's."""

    L4_TYPES: ClassVar[tuple[int, ...]] = (L4.ETHERNET,)
    HAS_ALL_MADS: ClassVar = False
    """Whether subnet and performance management are the kernel's, too."""

    def __init__(
        self,
        port: HfiPort,
        send: Callable[[bytes], bool],
        *,
        attached: dict[str, PacketCounters] | None = None,
    ) -> None:
        """Give a port without VNICs to a kernel.

        Args:    send: takes frames for the kernel; where it returns False there is no room, and `go_on` is to be called
                 once there is. attached: where the counters of its packets are entered, so that the fabric includes
                 them in conservation (`fabric.attached`).
        Raises:  FabricError: the port has a handler of Ethernet packets.
        """
        self.counters = KernelCounters()
        self.ready = False
        """Whether the kernel's driver has come as far as the port needs."""
        self._port = port
        self._send = send
        self._attached = {} if attached is None else attached
        self._waiting: deque[_Unread] = deque()
        self._closed = False
        for l4 in self.L4_TYPES:
            port.register_l4(l4, self._to_kernel)
        every = self.HAS_ALL_MADS
        port.mad.give_gsi_to(self._mad_to_kernel, with_pma=every, with_smps=every)
        self._leave = port.subscribe(self._changed)

    def close(self) -> None:
        """Take the port back. May be called twice."""
        if self._closed:
            return
        self._closed = True
        self._leave()
        self._port.mad.give_gsi_to(None)
        for l4 in self.L4_TYPES:
            self._port.unregister_l4(l4)
        while self._waiting:
            self._leave_queue(Drop.VNIC_RX_HOST)

    def take(self, frame: bytes) -> None:
        """Take a frame of the kernel."""
        raise NotImplementedError

    def _changed(self, event: PortEvent) -> None:
        """Let the kernel know of an event of the port."""
        raise NotImplementedError

    # --- flow control --------------------------------------------------------------------------------------

    @property
    def should_wait(self) -> bool:
        """Whether the link has no credits: what the kernel sends should wait in the kernel's own queues."""
        return self._port.tx_stopped

    @property
    def is_behind(self) -> bool:
        """Whether packets wait for the kernel."""
        return bool(self._waiting)

    def go_on(self) -> None:
        """Give the kernel what has waited, while it has room."""
        while self._waiting and self._send(self._frame_of(self._waiting[0].packet)):
            self._leave_queue(None)

    def _leave_queue(self, drop: Drop | None) -> None:
        packet, token, counters = self._waiting.popleft()
        counters.in_flight -= 1
        _count_out(counters, packet, drop)
        if token is not None:
            self._port.release(token)

    # --- to the kernel -------------------------------------------------------------------------------------

    def _frame_of(self, packet: bytes) -> bytes:
        """Return what the kernel gets of a packet."""
        return build_frame(WireKind.PACKET, packet)

    def traffic(self, vesw_id: int) -> tuple[PacketCounters, PacketCounters]:
        """Return the counters of the packets of one virtual switch, from and to the kernel; 0: of MADs."""
        name = f"{self._port.name} {f'vesw {vesw_id}' if vesw_id else 'kernel MADs'}"
        tx = self._attached.setdefault(f"{name} tx", PacketCounters())
        return tx, self._attached.setdefault(f"{name} rx", PacketCounters())

    def _to_kernel(self, _port: EndPort, packet: bytes, token: BufferToken | None) -> Drop | None:
        if len(packet) < _SHORTEST:
            return Drop.RX_L4
        vesw_id = _vesw_of(packet) if packet[L4_BYTE] == L4.ETHERNET else 0
        self._give(packet, token, vesw_id, Drop.VNIC_RX_HOST)
        return None

    def _mad_to_kernel(self, packet: bytes) -> Drop | None:
        self._give(packet, None, 0, Drop.MAD_UNREAD)
        return None

    def _give(self, packet: bytes, token: BufferToken | None, vesw_id: int, when_behind: Drop) -> None:
        """Give the kernel a packet, behind those that wait; where too many do, it ends for this reason."""
        _, counters = self.traffic(vesw_id)
        counters.in_packets += 1
        counters.in_bytes += len(packet)
        self.counters.to_kernel += 1
        self.go_on()
        if not self._waiting and self._send(self._frame_of(packet)):
            _count_out(counters, packet, None)
        elif token is None and len(self._waiting) >= BACKLOG:
            counters.drop(when_behind)
        else:
            if token is not None:
                self._port.keep(token)
            counters.in_flight += 1
            self._waiting.append(_Unread(packet, token, counters))

    def _leaves(self, packet: bytes) -> None:
        """Let a packet of the kernel out."""
        drop = self._port.send(packet)
        if drop is not None:
            self.counters.refused += 1
            log.debug("[%s] a packet of the kernel was refused: %s", self._port.name, drop.value)


class KernelPort(PortOfKernel):
    """A port whose driver is our module in hfi1's place, below opa_vnic."""

    def __init__(
        self,
        port: HfiPort,
        send: Callable[[bytes], bool],
        *,
        attached: dict[str, PacketCounters] | None = None,
        on_vnic: OnVnic = lambda *_: None,
    ) -> None:
        """Give a port to a kernel. Args:  on_vnic: is told of its VNICs. Others, Raises: as above."""
        super().__init__(port, send, attached=attached)
        self._on_vnic = on_vnic
        self._tell()
        send(build_frame(WireKind.HELLO, bytes(4)))

    def close(self) -> None:
        """Take the port back; what the kernel has announced is withdrawn. May be called twice."""
        if not self._closed:
            super().close()
            self._announce(0)

    def _changed(self, _event: PortEvent) -> None:
        self._tell()

    def _tell(self) -> None:
        self._send(build_frame(WireKind.STATE, state_of(self._port)))

    # --- from the kernel -----------------------------------------------------------------------------------

    def take(self, frame: bytes) -> None:
        """Take a frame of the kernel; frames of another kind are passed over."""
        self.go_on()
        found = parse_frame(frame)
        if found is None or self._closed:
            return
        if found.kind == WireKind.PACKET:
            self._from_kernel(found.body)
        elif found.kind in (WireKind.HELLO, WireKind.CAPS):
            if found.kind == WireKind.HELLO:
                self._announce(0)  # a driver that comes has lost what an EM gave the one before it
                self._tell()
            self._announce(int.from_bytes(found.body))
        elif found.kind == WireKind.VNIC and len(found.body) == _VNIC.size:
            self._on_vnic(*_VNIC.unpack(found.body))
        elif found.kind == WireKind.DROPS and (drops := parse_drops(found.body)) is not None:
            self._count_drops(*drops)

    def _announce(self, mask: int) -> None:
        announced = CapabilityMask3.ETH_ON_FABRIC_SUPPORTED
        self.ready = bool(mask & announced)
        if self.ready:
            self._port.announce(announced)
        else:
            self._port.withdraw(announced)

    def _count_drops(self, vesw_id: int, reason: Drop, frames: int, octets: int) -> None:
        """Count what has ended in the driver: of what was given to it, or of what its host has sent."""
        tx, rx = self.traffic(vesw_id)
        if reason in TX_REASONS:
            tx.in_packets += frames
            tx.in_bytes += octets
            tx.drop(reason, frames)
        else:
            rx.out_packets -= frames
            rx.out_bytes -= octets
            rx.drop(reason, frames)

    def _from_kernel(self, body: bytes) -> None:
        self.counters.from_kernel += 1
        if len(body) < _SHORTEST or len(body) % 8:
            self.counters.malformed += 1
            return
        end = len(body) - TRAILER_SIZE - (body[-1] & PAD_COUNT_MASK)
        packet = seal_packet(body[:end], self._port.icrc)
        if body[L4_BYTE] == L4.ETHERNET:
            tx, _ = self.traffic(_vesw_of(body))
            tx.in_packets += 1
            tx.in_bytes += _frame_length(packet)
            _count_out(tx, packet, None)
        self._leaves(packet)


def _vesw_of(packet: bytes) -> int:
    return (packet[_VESW_ID_AT] | packet[_VESW_ID_AT + 1] << 8) & 0xFFF


def _frame_length(packet: bytes) -> int:
    """Return how long the Ethernet frame in a packet is."""
    return max(0, len(packet) - _HEADER_SIZE - TRAILER_SIZE - (packet[-1] & PAD_COUNT_MASK))


def _count_out(counters: PacketCounters, packet: bytes, drop: Drop | None) -> None:
    if drop is not None:
        counters.drop(drop)
    else:
        counters.out_packets += 1
        counters.out_bytes += _frame_length(packet)
