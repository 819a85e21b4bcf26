"""Measures how busy this machine is, for people who look for the slowest one of a cluster."""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from pathlib import Path
from typing import Final

from opavnic.state.lab import MachineLoad

INTERVAL_S: Final = 0.5
KEPT: Final = 20
"""Looks that are kept: a measure is about the last ten seconds."""
_STAT: Final = Path("/proc/stat")


class LoadMeter:
    """Looks at the clock and at the processors again and again."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._samples: deque[tuple[float, float, int, int, float]] = deque(maxlen=KEPT)
        """Time, seconds of processors used by this process, ticks of all with work, all ticks, lateness."""
        self._sample(loop.time())

    def _sample(self, due: float) -> None:
        self._samples.append((time.monotonic(), time.process_time(), *_ticks(), self._loop.time() - due))
        due = self._loop.time() + INTERVAL_S
        self._timer = self._loop.call_at(due, self._sample, due)

    def load(self) -> MachineLoad:
        """Return what was measured."""
        then, used_before, busy_before, ticks_before, _ = self._samples[0]
        now, used_s, (busy, ticks) = time.monotonic(), time.process_time(), _ticks()
        return MachineLoad(
            processors=len(os.sched_getaffinity(0)),
            used=round((used_s - used_before) / max(now - then, 1e-3), 2),
            busy=round((busy - busy_before) / max(ticks - ticks_before, 1), 2),
            late_ms=round(1000 * max(late_s for *_, late_s in self._samples), 1),
        )

    async def close(self) -> None:
        """Look no more."""
        self._timer.cancel()


def _ticks() -> tuple[int, int]:
    """Return the ticks that all processors have worked, and all ticks."""
    try:
        words = _STAT.read_text().splitlines()[0].split()[1:]
        user, nice, system, idle, waiting, *rest = map(int, words[:8])
    except (OSError, ValueError, IndexError):
        return 0, 0
    return user + nice + system + sum(rest), user + nice + system + sum(rest) + idle + waiting
