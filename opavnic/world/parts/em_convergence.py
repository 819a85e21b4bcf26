"""Wait until an Ethernet Manager has done what it was told: for as long as it makes progress."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from opavnic.world.jobs import current_job
from vema.em.service.service import EthernetService

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


async def converged_unless_silent(em: EthernetService, silence_s: float = SILENCE_S) -> bool:
    """Wait until a manager has converged. The job that waits shows the Sets.

    Returns: False: it has sent no Set for `silence_s`, has failed, or was restarted.
    """
    job, core = current_job(), em.core
    if core is None:
        return False
    before = core.sets
    job.doing("Sets of the Ethernet Manager")
    silence = Silence(asyncio.get_running_loop().time)
    while not await em.wait_for(lambda: em.converged, LOOK_S):
        if em.core is not core or em.failure is not None:
            return False
        job.count(core.sets - before)
        if silence.look(core.sets) > silence_s:
            return False
    return True
