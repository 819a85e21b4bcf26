"""The life of a port as an EM sees it: states, events and the table of steps between them.

The EM sends requests to SERVED ports only. A port whose agent does not answer (SILENT) or gives invalid answers
(ISOLATED) is left alone for a while, and then served again to find out whether it has recovered. A port that has left
the fabric is AWAY: most ports return soon, so its addresses stay in the MAC tables of the others for `leave_hold`. Then
it is FORGOTTEN; its vports stay known in case it returns.

Each state except FORGOTTEN has a time limit, `Port.wake_at`. When it is reached, DUE happens; in SERVED that is a poll.
When a port ceases to be SERVED, or its dialogue restarts, its epoch is incremented, and responses of earlier epochs are
ignored. So TIMEOUT and FAULT happen in SERVED only.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from hfi_sim.base.state_table import StateTable


class Life(Enum):
    """What the EM does about a port."""

    SERVED = "served"
    """It is configured and polled."""
    SILENT = "silent"
    """It has not answered; nothing is sent until `wake_at`."""
    ISOLATED = "isolated"
    """Its agent is faulty; nothing is sent until `wake_at`."""
    AWAY = "away"
    """It has left; until `wake_at`, its addresses stay in the tables of the others."""
    FORGOTTEN = "forgotten"
    """It has been away for too long."""


class LifeEvent(Enum):
    """The events in the life of a port."""

    RESTART = "dialogue restarts"
    TIMEOUT = "no answer"
    FAULT = "invalid answer"
    LEAVE = "leaves"
    RETURN = "returns"
    DUE = "time is up"


SERVED: Final = Life.SERVED
IN_SERVICE: Final = (Life.SERVED, Life.SILENT, Life.ISOLATED)

LIFE: Final = StateTable(
    (IN_SERVICE, LifeEvent.RESTART, Life.SERVED),
    ((Life.SERVED,), LifeEvent.TIMEOUT, Life.SILENT),
    ((Life.SERVED,), LifeEvent.FAULT, Life.ISOLATED),
    (IN_SERVICE, LifeEvent.DUE, Life.SERVED),
    (IN_SERVICE, LifeEvent.LEAVE, Life.AWAY),
    ((Life.AWAY,), LifeEvent.DUE, Life.FORGOTTEN),
    ((Life.AWAY, Life.FORGOTTEN), LifeEvent.RETURN, Life.SERVED),
)
