"""Wait until an Ethernet Manager has done what it was told: for as long as it makes progress."""

from __future__ import annotations

import asyncio

from opavnic.world.jobs import current_job
from opavnic.world.silence import LOOK_S, SILENCE_S, Silence
from vema.em.service.service import EthernetService


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
