"""The wire of one direction: packets leave one after the other at a rate, and arrive in order one latency later."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Final

from hfi_sim.base.clock import FOREVER, NS_PER_S
from hfi_sim.base.counters import Drop
from hfi_sim.base.random_stream import CHANCE_BITS, RandomStream
from hfi_sim.engine.events.queue import EventQueue, Space
from hfi_sim.engine.link.config import LinkConfig
from hfi_sim.wire.lrh16b import L4, L4_BYTE

_BIT_NS: Final = 8 * NS_PER_S
"""Bits of a byte times nanoseconds of a second: divided by the rate in bit/s, the nanoseconds of one byte."""


class Visibility(Enum):
    """Which arrivals at the far end may be outputs of the engine at once."""

    NOTHING = "nothing"
    MADS = "MADs"
    """It ends at a switch whose port 0 is not DOWN. Other packets for port 0 have no receiver."""
    EVERYTHING = "everything"
    """It ends at an HFI port."""


_FM: Final = bytes([L4.FM])

Arrive = Callable[[int, bytes, int], None]
"""Takes the time of arrival, a packet, and its hops."""


class Wire:
    """Serialization, latency and jitter. It has no limit; the layer before it has one."""

    def __init__(
        self,
        events: EventQueue,
        arrive: Arrive,
        config: LinkConfig,
        jitter: RandomStream,
        *,
        visibility: Visibility = Visibility.NOTHING,
    ) -> None:
        """Make an empty wire.

        Args:  arrive: receives arriving packets. jitter: the random stream of its delays. visibility: as in
               `Direction`.
        """
        self._events = events
        self._arrive = arrive
        self._jitter = jitter
        self._on_wire: deque[tuple[int, int, bytes, int, int]] = deque()
        """(arrival, sequence number of its event, packet, hops, latency with jitter and the delay of faults).

        Only the first has an event in the queue.
        """
        self._last_arrival = 0
        self.free_at = 0
        """When everything sent so far has left the near end, rounded down to a nanosecond."""
        self.visibility = visibility
        self._remainder = 0
        """What the last packet takes beyond `free_at`, in nanoseconds times the rate."""
        self._rate_bps = config.whole_rate_bps
        self._latency_ns = config.latency_ns
        self._jitter_ns = config.jitter_ns

    def configure(self, now: int, config: LinkConfig) -> None:
        """Apply a new rate, latency and jitter.

        Packets that have left the near end arrive as scheduled; the others, and the rest of the packet being sent,
        continue at the new rate. Otherwise a brief slow-down would last until the old queue drained.
        """
        self._latency_ns = config.latency_ns
        self._jitter_ns = config.jitter_ns
        if config.whole_rate_bps != self._rate_bps:
            self._change_rate(now, config.whole_rate_bps)

    def _change_rate(self, now: int, rate_bps: int) -> None:
        left = (self.free_at - now) * self._rate_bps + self._remainder
        self._rate_bps = rate_bps
        if left <= 0:
            return
        first = self._on_wire[0][1] if self._on_wire else 0
        leaving = []
        while self._on_wire and left > 0:
            leaving.append(self._on_wire.pop())
            left -= len(leaving[-1][2]) * _BIT_NS
        if leaving and not self._on_wire:
            self._events.cancel(first)
        self._last_arrival = self._on_wire[-1][0] if self._on_wire else now
        # more than that is left only of packets sent ahead of their time, because the timer is coarse
        taken, self._remainder = divmod(max(left, 0), rate_bps)
        self.free_at = now + taken
        done = max(-left, 0)
        for _, _, packet, hops, after_ns in reversed(leaving):
            self._put(now, packet, hops, after_ns, done)
            done = 0

    def set_visibility(self, visibility: Visibility) -> None:
        """Set which arrivals may be outputs, including those of packets on the wire."""
        self.visibility = visibility
        if visibility is not Visibility.NOTHING and self._on_wire:
            arrival, number, *_ = self._on_wire[0]
            self._events.make_outward(arrival, number, self._arrives)

    @property
    def free_from(self) -> int:
        """The first whole nanosecond at which everything sent so far has left the near end."""
        return self.free_at + (self._remainder > 0)

    def has_left_but(self, now: int, size: int) -> bool:
        """Return, for a busy wire, whether at most `size` bytes have not left the near end."""
        return (self.free_at - now) * self._rate_bps + self._remainder <= size * _BIT_NS

    def enter(
        self, now: int, packet: bytes, hops: int, delay_ns: int = 0, _space: Space | None = None
    ) -> None:
        """Send a packet behind those on the wire, with extra latency. Later packets do not overtake it."""
        after_ns = self._latency_ns + delay_ns
        if self._jitter_ns:
            after_ns += (self._jitter.word() >> 64 - CHANCE_BITS) * self._jitter_ns >> CHANCE_BITS
        self._put(now, packet, hops, after_ns)

    def _put(self, now: int, packet: bytes, hops: int, after_ns: int, done: int = 0) -> None:
        """Put a packet behind those on the wire.

        Args:  after_ns: its time on the wire after it has left the near end. done: how much of it has left, in
               nanoseconds times the rate.
        """
        if self.free_at < now:  # it has been idle
            self.free_at = now
            self._remainder = 0
        work = self._remainder + len(packet) * _BIT_NS - done
        self.free_at += work // self._rate_bps
        self._remainder = work % self._rate_bps
        arrival = self.free_at + (self._remainder > 0) + after_ns
        if arrival < self._last_arrival:
            arrival = self._last_arrival  # packets stay in order
        if arrival > FOREVER:
            arrival = FOREVER
        self._last_arrival = arrival
        self._on_wire.append((arrival, self._events.number(), packet, hops, after_ns))
        if len(self._on_wire) == 1:
            self._schedule_first()

    def _schedule_first(self) -> None:
        arrival, number, packet, _, _ = self._on_wire[0]
        if self.visibility is Visibility.MADS:
            is_outward = packet[L4_BYTE : L4_BYTE + 1] == _FM
        else:
            is_outward = self.visibility is Visibility.EVERYTHING
        self._events.push(arrival, number, self._arrives, is_outward)

    def _arrives(self, now: int, _number: int) -> None:
        """Let the first packet arrive."""
        _, _, packet, hops, _ = self._on_wire.popleft()
        if self._on_wire:
            self._schedule_first()
        self._arrive(now, packet, hops)

    def cut(self) -> list[bytes]:
        """Remove everything on the wire and return its packets in order."""
        packets = [entry[2] for entry in self._on_wire]
        if packets:
            self._events.cancel(self._on_wire[0][1])
        self._on_wire.clear()
        self.free_at = self._last_arrival = self._remainder = 0
        return packets


class Queue:
    """Limits what may wait for the wire. Waiting packets are kept by the wire, as their times are known on entry."""

    def __init__(self, wire: Wire, limit: int) -> None:
        """Make an empty queue. Args: limit: bytes that may wait, including the rest of the packet being sent."""
        self._wire = wire
        self.limit = limit

    def refusal(self, now: int, size: int, _space: Space | None) -> Drop | None:
        """Return why a packet cannot enter now, or None. An idle wire accepts any packet."""
        if self._wire.free_at <= now or self._wire.has_left_but(now, self.limit - size):
            return None
        return Drop.LINK_OVERFLOW
