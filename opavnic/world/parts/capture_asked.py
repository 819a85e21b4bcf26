"""The settings of a capture, as a query gives them."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from hfi_sim.base.errors import InputError
from hfi_sim.base.quantities import parse_size, size_text
from hfi_sim.engine.link.capture import MAX_SNAP
from hfi_sim.fabric.faults import Match, parse_match
from hfi_sim.nodes.cable import LinkDirection
from opavnic.observe.capture import DEFAULT_BUFFER, MAX_BUFFER, MIN_BUFFER, Capture, begins_here, ways_of
from opavnic.world.json_body import FLAGS
from opavnic.world.world import World

_MAX_DIGITS: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedCapture:
    """The settings of a capture that is to be started."""

    place: str
    match: Match
    snap: int
    limit: int | None
    """Packets after which it is complete."""
    once: bool
    buffer_bytes: int
    here: bool
    """Only of what begins on this machine."""
    ahead_s: float
    """Seconds by which this machine's clock is ahead of the clock of the timestamps."""

    @classmethod
    def parse(cls, query: Mapping[str, str]) -> Self:
        """Read a query. Raises InputError: an invalid value."""
        rest = dict(query)
        place, limit = rest.pop("on", "*"), _count(rest.pop("count", ""))
        snap = _size(rest, "snap", 1, MAX_SNAP, MAX_SNAP)
        buffer_bytes = _size(rest, "buffer", MIN_BUFFER, MAX_BUFFER, DEFAULT_BUFFER)
        once, here = _flag(rest, "once"), _flag(rest, "here")
        ahead_s = _seconds(rest.pop("ahead", "0"))
        match = parse_match(f"{key}={value}" for key, value in rest.items())
        return cls(
            place=place,
            match=match,
            snap=snap,
            limit=limit,
            once=once,
            buffer_bytes=buffer_bytes,
            here=here,
            ahead_s=ahead_s,
        )

    def ways(self, world: World) -> list[LinkDirection]:
        """Return the link directions to capture, on all machines. Raises FaultError: there are none."""
        return ways_of(world.fabric, self.place, self.match, once=self.once)

    def begins_here(self, world: World) -> bool:
        """Return whether one of these directions begins on this machine."""
        return any(map(begins_here, self.ways(world)))

    def start(self, world: World) -> Capture:
        """Start the capture. Raises InputError, FaultError: none is possible with these settings."""
        return Capture(
            world.fabric,
            self.place,
            self.match,
            epoch_s=time.time() - asyncio.get_running_loop().time() - self.ahead_s,
            snap=self.snap,
            limit=self.limit,
            once=self.once,
            buffer_bytes=self.buffer_bytes,
        )


def _size(query: dict[str, str], name: str, low: int, high: int, default: int) -> int:
    text = query.pop(name, None)
    if text is None:
        return default
    size = parse_size(text)
    if not low <= size <= high:
        raise InputError(f"{name} is {text:.40}; it is {size_text(low)} to {size_text(high)} bytes")
    return size


def _flag(query: dict[str, str], name: str) -> bool:
    text = query.pop(name, "0").lower()
    if text not in FLAGS:
        raise InputError(f"{name}={text!r:.40} is neither true nor false: {name}=1 or {name}=0")
    return FLAGS[text]


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not math.isfinite(seconds):
        raise InputError(f"ahead={text!r:.40} is not a number of seconds")
    return seconds


def _count(text: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS and int(text) > 0):
        raise InputError(f"count={text!r} is not a number of packets, 1 or more")
    return int(text)
