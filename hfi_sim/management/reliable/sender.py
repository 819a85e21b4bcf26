"""The sending half of a connection: cuts messages into packets, keeps what is not acknowledged, repeats it.

The path between two LIDs keeps packets in order, so a packet is lost as soon as one that was transmitted
after it is known to have arrived. Everything else is found by the retransmission timer, which follows the
measured round trip (as RFC 6298 does). After a timeout the window opens anew from one packet.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from hfi_sim.management.reliable.config import RcConfig
from hfi_sim.wire.reliable_header import RcFlags

PSN_MASK = 0xFFFFFFFF


@dataclass(slots=True)
class _Message:
    message_id: int
    tag: int
    data: memoryview
    offset: int = 0


@dataclass(slots=True)
class OutPacket:
    """One packet of a message, from its first transmission to its acknowledgement."""

    psn: int
    tag: int
    last: bool
    payload: memoryview
    message_id: int
    order: int = 0
    """Rises with every transmission of any packet of the connection."""
    sent_at: float = 0.0
    transmissions: int = 0
    arrived: bool = False
    lost: bool = False


class Sender:
    """Bytes in, numbered packets out; acknowledgements in, ids of finished messages out."""

    def __init__(self, config: RcConfig, first_psn: int) -> None:
        self._config = config
        self._queue: deque[_Message] = deque()
        self._waiting: dict[int, OutPacket] = {}  # by psn, oldest first
        self._lost: deque[OutPacket] = deque()
        self._next_psn = first_psn
        self._oldest = first_psn
        self._in_flight = 0
        self._window = config.window
        self._order = 0
        self._newest_arrived = 0
        self._srtt: float | None = None
        self._rttvar = 0.0
        self._retries = 0
        self.deadline: float | None = None

    def push(self, message_id: int, tag: int, data: bytes | memoryview) -> None:
        """Queue one message, which may be empty."""
        self._queue.append(_Message(message_id, tag, memoryview(data)))

    def pull(self, now: float) -> list[tuple[OutPacket, RcFlags]]:
        """Return the packets that may be transmitted now, with their flags, and start the timer."""
        packets: list[OutPacket] = []
        while self._in_flight < self._window:
            packet = self._next_packet()
            if packet is None:
                break
            packets.append(packet)
            self._order += 1
            packet.order = self._order
            packet.sent_at = now
            packet.transmissions += 1
            packet.lost = False
            self._in_flight += 1
        if packets and self.deadline is None:
            self.deadline = now + self._rto()
        marked = []
        for index, packet in enumerate(packets):
            flags = RcFlags.LAST if packet.last else RcFlags.NONE
            tail = index == len(packets) - 1
            if tail or packet.transmissions > 1 or packet.order % self._config.ack_every == 0:
                flags |= RcFlags.ACK_REQ
            marked.append((packet, flags))
        return marked

    def _next_packet(self) -> OutPacket | None:
        while self._lost:
            if not (packet := self._lost.popleft()).arrived:
                return packet
        if not self._queue or (self._next_psn - self._oldest) & PSN_MASK >= self._config.window:
            return None
        message = self._queue[0]
        end = message.offset + self._config.max_payload
        packet = OutPacket(
            self._next_psn,
            message.tag,
            end >= len(message.data),
            message.data[message.offset : end],
            message.message_id,
        )
        message.offset = end
        if packet.last:
            self._queue.popleft()
        self._waiting[packet.psn] = packet
        self._next_psn = (self._next_psn + 1) & PSN_MASK
        return packet

    def acknowledge(self, ack: int, sack: int, now: float) -> list[int]:
        """Take an acknowledgement; return the ids of messages that are now wholly acknowledged.

        An acknowledgement of something never sent is ignored, as is one older than the last.
        """
        advance = (ack - self._oldest) & PSN_MASK
        if advance > (self._next_psn - self._oldest) & PSN_MASK:
            return []
        done: list[int] = []
        progress = advance
        for _ in range(advance):
            packet = self._waiting.pop(self._oldest)
            self._oldest = (self._oldest + 1) & PSN_MASK
            self._arrived(packet, now)
            if packet.last:
                done.append(packet.message_id)
        while sack:
            bit = sack & -sack
            sack ^= bit
            ahead = self._waiting.get((ack + bit.bit_length()) & PSN_MASK)
            if ahead is not None and not ahead.arrived:
                self._arrived(ahead, now)
                progress += 1
        if progress:
            self._retries = 0
            self._window = min(self._window + progress, self._config.window)
            self._mark_lost(self._newest_arrived)
            self.deadline = now + self._rto() if self._waiting else None
        return done

    def _arrived(self, packet: OutPacket, now: float) -> None:
        if packet.arrived:
            return
        packet.arrived = True
        if not packet.lost:
            self._in_flight -= 1
        self._newest_arrived = max(self._newest_arrived, packet.order)
        if packet.transmissions == 1:  # a repeated packet does not say which copy was answered
            self._measure(now - packet.sent_at)

    def _mark_lost(self, before: int) -> None:
        for packet in self._waiting.values():
            if packet.order < before and not packet.arrived and not packet.lost:
                packet.lost = True
                self._in_flight -= 1
                self._lost.append(packet)

    def on_timeout(self) -> bool:
        """Take everything unacknowledged for lost; return False when the retries are used up."""
        self._retries += 1
        self.deadline = None
        if self._retries > self._config.max_retries:
            return False
        self._mark_lost(self._order + 1)
        self._window = 1
        return True

    def _measure(self, rtt: float) -> None:
        if self._srtt is None:
            self._srtt, self._rttvar = rtt, rtt / 2
            return
        self._rttvar += (abs(self._srtt - rtt) - self._rttvar) / 4
        self._srtt += (rtt - self._srtt) / 8

    def _rto(self) -> float:
        base = self._config.initial_rto_s if self._srtt is None else self._srtt + 4 * self._rttvar
        return max(base, self._config.min_rto_s) * min(1 << self._retries, self._config.backoff_limit)
