"""The wire of one direction: packets leave one after the other at a rate, and arrive in order one latency later."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum
from functools import lru_cache
from typing import Final

from hfi_sim.base.instants import FOREVER, NS_PER_S
from hfi_sim.base.random_stream import CHANCE_BITS, RandomStream
from hfi_sim.engine.events.queue import EventQueue
from hfi_sim.engine.events.state import Space
from hfi_sim.engine.link.config import LinkConfig
from hfi_sim.wire.l4 import L4

_BIT_NS: Final = 8 * NS_PER_S
"""Bits of a byte times nanoseconds of a second: divided by the rate in bit/s, the nanoseconds of one byte."""


class _Times(dict[int, tuple[int, int]]):
    """Serialization time by packet size at one rate: whole nanoseconds, and the remainder times the rate."""

    def __init__(self, rate_bps: int) -> None:
        super().__init__()
        self._rate_bps = rate_bps

    def __missing__(self, size: int) -> tuple[int, int]:
        """Divide once for each size: these numbers are too large to divide for each packet."""
        times = self[size] = divmod(size * _BIT_NS, self._rate_bps)
        return times


_times_at: Final = lru_cache(maxsize=64)(_Times)
"""Wires of the same rate share one table."""


class Visibility(Enum):
    """Which arrivals at the far end may be outputs of the engine at once."""

    NOTHING = "nothing"
    MADS = "MADs"
    """It ends at a switch whose port 0 is not DOWN. Other packets for port 0 have no receiver."""
    EVERYTHING = "everything"
    """It ends at an HFI port."""


_NOTHING: Final = Visibility.NOTHING
_MADS: Final = Visibility.MADS
_EVERYTHING: Final = Visibility.EVERYTHING
_FM: Final = bytes([L4.FM])

Arrive = Callable[[int, bytes, int], None]
"""Takes the time of arrival, a packet, and its hops."""


class Wire:
    """Serialization, latency and jitter. It has no limit; the layer before it has one."""

    __slots__ = (
        "_events",
        "_happens",
        "_jitter",
        "_jitter_ns",
        "_last_arrival",
        "_latency_ns",
        "_on_wire",
        "_rate_bps",
        "_remainder",
        "_times",
        "arrive",
        "free_at",
        "visibility",
    )

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
        self._happens = self._due
        """The scheduled event: the arrival of the first packet."""
        self.arrive = arrive
        """Receives arriving packets."""
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
        self._times = _times_at(self._rate_bps)
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
        self._times = _times_at(rate_bps)
        if left <= 0:
            return
        on_wire = self._on_wire
        first = on_wire[0][1] if on_wire else 0
        leaving = []
        while on_wire and left > 0:
            leaving.append(on_wire.pop())
            left -= len(leaving[-1][2]) * _BIT_NS
        if leaving and not on_wire:
            self._events.cancel(first)
        self._last_arrival = on_wire[-1][0] if on_wire else now
        # more than that is left only of packets sent ahead of their time, because the timer is coarse
        taken, self._remainder = divmod(max(left, 0), rate_bps)
        self.free_at = now + taken
        done = max(-left, 0)
        for _, _, packet, hops, after_ns in reversed(leaving):
            self.enter(now, packet, hops, again=(after_ns, done))
            done = 0

    def set_visibility(self, visibility: Visibility) -> None:
        """Set which arrivals may be outputs, including those of packets on the wire."""
        self.visibility = visibility
        if visibility is not _NOTHING and self._on_wire:
            arrival, number, *_ = self._on_wire[0]
            self._events.make_outward(arrival, number, self._happens)

    @property
    def free_from(self) -> int:
        """The first whole nanosecond at which everything sent so far has left the near end."""
        return self.free_at + (self._remainder > 0)

    def has_left_but(self, now: int, size: int) -> bool:
        """Return, for a busy wire, whether at most `size` bytes have not left the near end."""
        return (self.free_at - now) * self._rate_bps + self._remainder <= size * _BIT_NS

    def enter(
        self,
        now: int,
        packet: bytes,
        hops: int,
        delay_ns: int = 0,
        _space: Space | None = None,
        again: tuple[int, int] | None = None,
    ) -> None:
        """Send a packet behind those on the wire.

        Args:  delay_ns: extra latency; later packets do not overtake it. again: for a packet that was on the wire:
               its time on the wire after it has left the near end, and how much of it has left, in nanoseconds
               times the rate.
        """
        taken, remainder = self._times[len(packet)]
        if again is None:
            after_ns = self._latency_ns + delay_ns
            if self._jitter_ns:
                after_ns += (self._jitter.word() >> 64 - CHANCE_BITS) * self._jitter_ns >> CHANCE_BITS
        else:
            after_ns = again[0]
            taken, remainder = divmod(len(packet) * _BIT_NS - again[1], self._rate_bps)
        free_at = self.free_at
        if free_at < now:
            free_at = now
        else:
            remainder += self._remainder
            if remainder >= self._rate_bps:
                remainder -= self._rate_bps
                taken += 1
        self.free_at = free_at = free_at + taken
        self._remainder = remainder
        arrival = free_at + after_ns
        if remainder:
            arrival += 1
        if arrival < self._last_arrival:
            arrival = self._last_arrival
        elif arrival > FOREVER:
            arrival = FOREVER
        self._last_arrival = arrival
        events = self._events
        next_number = events.number
        number = next_number()
        on_wire = self._on_wire
        is_first = not on_wire
        on_wire.append((arrival, number, packet, hops, after_ns))
        if is_first:
            visibility = self.visibility
            is_outward = visibility is _EVERYTHING or (visibility is _MADS and packet[8:9] == _FM)
            events.push(arrival, number, self._happens, is_outward)

    def _due(self, now: int, _number: int) -> None:
        on_wire = self._on_wire
        _, _, packet, hops, _ = on_wire.popleft()
        if on_wire:
            first, visibility = on_wire[0], self.visibility
            is_outward = visibility is _EVERYTHING or (visibility is _MADS and first[2][8:9] == _FM)
            self._events.push(first[0], first[1], self._happens, is_outward)
        arrive = self.arrive
        arrive(now, packet, hops)

    def cut(self) -> list[bytes]:
        """Remove everything on the wire and return its packets in order."""
        packets = [entry[2] for entry in self._on_wire]
        if packets:
            self._events.cancel(self._on_wire[0][1])
        self._on_wire.clear()
        self.free_at = self._last_arrival = self._remainder = 0
        return packets
