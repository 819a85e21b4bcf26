"""An HFI port in the Python engine, or port 0 of a switch: where packets enter and leave the fabric.

It enforces what hardware enforces: its own LID as SLID, its partition table in both directions, and complete,
undamaged packets on receipt.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from hfi_sim.base.counters import CongestionCounters, Drop, PacketCounters
from hfi_sim.base.types import LID_NONE, LID_PERMISSIVE, PortState, is_multicast_lid
from hfi_sim.engine.api import PortErrors
from hfi_sim.engine.config import PortConfig
from hfi_sim.engine.events.outputs import BufferToken, Delivered, FlowChanged, PortId
from hfi_sim.engine.events.queue import EngineState, Space
from hfi_sim.engine.forwarding import is_management, lets_pass
from hfi_sim.engine.link.arbiter import Egress
from hfi_sim.wire.icrc import Icrc
from hfi_sim.wire.lrh16b import (
    BECN_BYTE3,
    FECN_BYTE7,
    dlid_of,
    is_9b,
    is_16b,
    length_qw_of,
    pkey_of,
    slid_of,
    with_becn,
)
from hfi_sim.wire.packet import MAX_PACKET, MIN_PACKET, QUAD_WORD, check_packet

RX_BUFFER_BYTES: Final = 1 << 20
"""Bytes that a stalled port queues from a link without credits; more is dropped (rx_overflow)."""


class Leaving(Protocol):
    """Where a port sends: a direction of its link, or the switch that it is port 0 of."""

    def enter(self, now: int, packet: bytes, hops: int, space: Space | None, /) -> None:
        """Take a packet."""

    def discards(self, egress: Egress, packet: bytes, /) -> bool:
        """Return whether a packet exceeds the MTU of its VL, and count it then; the caller discards it."""
        ...

    @property
    def is_stopped(self) -> bool:
        """Whether the port is to stop for lack of credits."""
        ...


class EnginePort:
    """One HFI port, or port 0 of one switch."""

    def __init__(
        self,
        state: EngineState,
        number: PortId,
        tx: PacketCounters,
        rx: PacketCounters,
        congestion: CongestionCounters,
        *,
        icrc: Icrc,
        lend: Callable[[Space], BufferToken],
    ) -> None:
        """Make a port without a cable.

        Args:  rx: receive counters; a packet passed to the host counts there as in flight until the host reports
               that it has taken or dropped it. lend: returns a token for the buffer space that a packet occupies; the
               host gets it with the packet.
        """
        self.errors = PortErrors()
        self.leaving: Leaving | None = None
        """Where it sends; None: it has no cable."""
        self._state = state
        self._number = number
        self._tx = tx
        self._rx = rx
        self._congestion = congestion
        self._icrc = icrc
        self._lend = lend
        self._becn_due: set[int] = set()
        self._stalled = False
        self._waiting: deque[tuple[bytes, Space | None, int]] = deque()
        self._waiting_bytes = 0
        self.config = PortConfig()

    # --- sending -------------------------------------------------------------------------------------------

    def send(self, now: int, data: bytes, way: Leaving | None = None) -> Drop | None:
        """Send bytes as `inject` does, if they are a packet; SLID, DLID and P_Key are read from them."""
        drop = self._malformation(data)
        if drop is not None:
            self._tx.in_packets += 1
            self._tx.in_bytes += len(data)
            self._tx.drop(drop)
            return drop
        dlid = dlid_of(data) if way is None else LID_PERMISSIVE  # a directed route needs none
        return self.inject(now, data, slid_of(data), dlid, pkey_of(data), way)

    def _malformation(self, data: bytes) -> Drop | None:
        """Return why bytes cannot be sent as a packet, or None."""
        size = len(data)
        if self.config.state is PortState.DOWN:
            return Drop.TX_PORT_DOWN
        if size > MAX_PACKET:
            return Drop.TX_MTU
        if size < MIN_PACKET:
            return Drop.TX_MALFORMED
        if is_9b(data):
            return Drop.TX_MALFORMED if check_packet(data, None) else None
        is_whole = is_16b(data) and length_qw_of(data) * QUAD_WORD == size
        return None if is_whole else Drop.TX_MALFORMED

    def inject(
        self, now: int, packet: bytes, slid: int, dlid: int, pkey: int, way: Leaving | None = None
    ) -> Drop | None:
        """Send a complete packet; return why the port refused it, or None. Args: way: takes it in place of the link."""
        self._tx.in_packets += 1
        self._tx.in_bytes += len(packet)
        leaving = way or self.leaving
        if leaving is None:
            return self._refuse(packet, Drop.TX_PORT_DOWN)
        drop = self._refusal_to_send(packet, slid, dlid, pkey, leaving)
        if drop is not None:
            return self._refuse(packet, drop)
        self._tx.out_packets += 1
        self._tx.out_bytes += len(packet)
        if self._becn_due:
            packet = self._answer_congestion(packet)
        leaving.enter(now, packet, 0, None)
        return None

    def _refuse(self, packet: bytes, drop: Drop) -> Drop:
        self._tx.drop(drop)
        self.errors.note(drop, packet)
        return drop

    def _refusal_to_send(
        self, packet: bytes, slid: int, dlid: int, pkey: int, leaving: Leaving
    ) -> Drop | None:
        if not lets_pass(self.config.state, packet):
            return Drop.TX_PORT_DOWN
        # a port without a LID is managed by directed-route MADs from the permissive LID
        if not self.config.has_lid(slid) and not (slid == LID_PERMISSIVE and is_management(packet)):
            return Drop.TX_SLID
        if dlid == LID_NONE:
            return Drop.TX_DLID
        if not self.config.pkeys.may_send(pkey):
            return Drop.TX_PKEY
        if self.config.egress.vl_mtus and leaving.discards(self.config.egress, packet):
            return Drop.TX_MTU
        return None

    def _answer_congestion(self, packet: bytes) -> bytes:
        """Return a packet as it goes onto the link: with BECN set if one is due to its destination."""
        if dlid_of(packet) not in self._becn_due:
            return packet
        self._becn_due.discard(dlid_of(packet))
        self._congestion.becn_sent += 1
        return with_becn(packet)

    def stop(self, now: int, stopped: bool) -> None:
        """Report that the link stops this port for lack of credits, or lets it send again."""
        self._congestion.tx_stops += stopped
        self._state.stopped += 1 if stopped else -1
        self._state.outputs.append(FlowChanged(now, self._number, stopped))

    # --- receiving -----------------------------------------------------------------------------------------

    def receive(self, now: int, packet: bytes, _hops: int, space: Space | None, in_port: int = 0, /) -> None:
        """Receive a packet: check it, then pass it to the host. Args: in_port: as in `Delivered`."""
        self._rx.in_packets += 1
        self._rx.in_bytes += len(packet)
        if self._stalled:
            self._wait(packet, space, in_port)
        else:
            self._take(now, packet, space, in_port)

    def _take(self, now: int, packet: bytes, space: Space | None, in_port: int) -> None:
        drop = self._refusal(packet)
        if drop is not None:
            self._rx.drop(drop)
            self.errors.note(drop, packet)
            return
        if packet[7] & FECN_BYTE7 or packet[3] & BECN_BYTE3:
            self._note_congestion(packet)
        self._rx.in_flight += 1
        token = None
        if space is not None:
            space.keep()
            token = self._lend(space)
        self._state.outputs.append(Delivered(now, self._number, packet, token, in_port))

    def _refusal(self, packet: bytes) -> Drop | None:
        if not lets_pass(self.config.state, packet):
            return Drop.RX_PORT_DOWN
        drop = check_packet(packet, self._icrc)
        if drop is not None:
            return drop
        if not self.config.accepts(dlid_of(packet)):
            return Drop.RX_DLID
        return None if self.config.pkeys.admits(pkey_of(packet)) else Drop.RX_PKEY

    def _note_congestion(self, packet: bytes) -> None:
        if packet[7] & FECN_BYTE7:
            self._congestion.fecn_received += 1
            if not is_multicast_lid(dlid_of(packet)):
                self._becn_due.add(slid_of(packet))
        if packet[3] & BECN_BYTE3:
            self._congestion.becn_received += 1

    # # --- a busy host ---------------------------------------------------------------------------------------

    def stall(self) -> None:
        """Pass nothing to the host until `resume`. Credits then stop the senders."""
        self._stalled = True

    def resume(self, now: int) -> None:
        """Deliver the waiting packets in order, and go on."""
        self._stalled = False
        while self._waiting:
            packet, space, in_port = self._waiting.popleft()
            self._waiting_bytes -= len(packet)
            self._rx.in_flight -= 1
            self._take(now, packet, space, in_port)
            if space is not None:
                space.release()

    def _wait(self, packet: bytes, space: Space | None, in_port: int) -> None:
        if space is not None:
            space.keep()
        elif self._waiting_bytes + len(packet) > RX_BUFFER_BYTES:
            self._rx.drop(Drop.RX_OVERFLOW)
            self.errors.note(Drop.RX_OVERFLOW, packet)
            return
        self._waiting.append((packet, space, in_port))
        self._waiting_bytes += len(packet)
        self._rx.in_flight += 1
