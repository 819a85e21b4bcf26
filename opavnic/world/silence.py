"""The limit of what takes long: silence. What has shown progress a moment ago may go on for as long as it likes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

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
