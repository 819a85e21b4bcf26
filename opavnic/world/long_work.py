"""What takes long: its limit is silence, and it goes in steps between which the event loop serves others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterator
from typing import Final, TypeVar

SILENCE_S: Final = 30.0
"""Silence after which a lab gives an operation up."""
LOOK_S: Final = 0.25
"""Interval of looks."""


class Silence:
    """How long nothing has happened while this process could have noticed.

    On a busy machine a process may not run for seconds. What others have done meanwhile it has not heard yet, so a look
    that comes late counts as one that comes in time.
    """

    def __init__(self, time: Callable[[], float], look_s: float = LOOK_S) -> None:
        """Start. Args:  time: the clock, in seconds. look_s: `look` is called this often."""
        self._time = time
        self._longest_s = 2 * look_s
        self._looked_at = time()
        self._sign: object = None
        self.seconds = 0.0
        """Silence so far."""

    def look(self, sign: object) -> float:
        """Return `seconds`. Args: sign: what has been seen so far; another one than before ends the silence."""
        now = self._time()
        passed, self._looked_at = now - self._looked_at, now
        self.seconds = 0.0 if sign != self._sign else self.seconds + min(passed, self._longest_s)
        self._sign = sign
        return self.seconds


Result = TypeVar("Result")
Steps = Generator[None, None, Result]
"""A generator that yields after a few milliseconds of work and returns the result."""


def at_once(steps: Steps[Result]) -> Result:
    """Take all steps and return the result."""
    result: list[Result] = []
    for _ in _keeping(steps, result):
        pass
    return result[0]


async def in_turns(steps: Steps[Result]) -> Result:
    """Take all steps, yielding to the event loop after each, and return the result."""
    result: list[Result] = []
    for _ in _keeping(steps, result):
        await asyncio.sleep(0)
    return result[0]


def _keeping(steps: Steps[Result], result: list[Result]) -> Iterator[None]:
    result.append((yield from steps))
