"""A round of a campaign, whatever it is played with: what is told of it, and how its actions follow each other."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar


class Told:
    """What was done, and what should not be."""

    def __init__(self, last_notes: int) -> None:
        """Begin. Args: last_notes: what is done is kept up to this many."""
        self.findings: list[str] = []
        self.notes: deque[str] = deque(maxlen=last_notes)
        self.began = time.monotonic()

    def found(self, what: str) -> None:
        """Enter something that should not be."""
        if what not in self.findings:
            self.findings.append(what)

    def note(self, what: str) -> None:
        """Enter what is done, for the report of a failure."""
        self.notes.append(f"{time.monotonic() - self.began:7.2f} s  {what}")


W = TypeVar("W", bound=Any)


def play_round(
    world: W,
    hand: Iterable[tuple[str, object]],
    actions: Mapping[str, Callable[..., None]],
    check: Callable[[W], Iterable[str]],
) -> None:
    """Play one round, settle, check: `world.findings` has what was found."""
    world.findings.clear()
    for name, rng in hand:
        world.note(f"-- {name}")
        world.figures.actions[name] += 1
        try:
            actions[name](world, rng)
        except Exception as error:  # the lab may be broken by now: that is a finding, and the checks say more
            world.found(f"{name}: {type(error).__name__}: {error}")
    world.note("-- settle")
    try:
        world.settle()
    except Exception as error:
        world.found(f"settling: {type(error).__name__}: {error}")
    for wrong in check(world):
        world.found(wrong)
