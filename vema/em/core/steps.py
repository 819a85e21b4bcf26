"""The dialogue with an agent, as a table of steps. It is level-triggered: the EM keeps no list of next steps.

Each time, what is known of a port or vport is compared with what is desired, and the first step of the table that is
due determines the request. So lost responses, restarted agents and changed configurations need no code of their own:
they only make known state unknown, or different. When no step of a port is due, the port is ready, and its vports get
their turns; when none of a vport is due, the vport is done. For a vport that no virtual switch wants, only READ and
DELETE are considered.

`next_of_port` and `next_of_vport` of `dialogue` find the step that is due; `take_port_answer` and `take_vport_answer`
evaluate a response by the step of its request. The life of a port, which its dialogue is a part of, is a table, too.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from hfi_sim.base.state_table import StateTable
from vema.attributes.attr_id import AttrId

GET, SET = False, True


class Step(Enum):
    """The steps, in the order in which they are considered."""

    IDENTIFY = GET, AttrId.CLASS_PORT_INFO, "its ClassPortInfo is unknown"
    SUBSCRIBE = SET, AttrId.CLASS_PORT_INFO, "it sends traps to another LID, or with another SL, than desired"
    SCAN = GET, AttrId.VESW_PORT_INFO, "it is searched for vports that the EM does not know"

    READ = GET, AttrId.VESW_PORT_INFO, "its VeswPortInfo is unknown, or may have changed"
    DELETE = SET, AttrId.DELETE_VESW, "no virtual switch wants it, and it is configured"
    CONFIGURE = SET, AttrId.VESW_PORT_INFO, "its VeswPortInfo differs from the desired one"
    UNICAST = GET, AttrId.IFACE_UCAST_MACS, "its switch learns, and its unicast addresses may have changed"
    MULTICAST = (
        GET,
        AttrId.IFACE_MCAST_MACS,
        "its switch learns, and its multicast addresses may have changed",
    )
    TABLE = SET, AttrId.MAC_ENTRIES, "its MAC table differs from the desired one, and that one is computed"
    SUMMARY = GET, AttrId.SUMMARY_COUNTERS, "its counters are due"
    ERRORS = GET, AttrId.ERROR_COUNTERS, "its error counters are due"
    AUDIT = GET, AttrId.MAC_ENTRIES, "the audit has come to its MAC table"

    def __init__(self, is_set: bool, attr_id: AttrId, due_while: str) -> None:
        self.is_set = is_set
        self.attr_id = attr_id
        self.due_while = due_while

    @property
    def about_port(self) -> bool:
        """Whether it is about the port itself, even if it reads one of its vports."""
        return self in (Step.IDENTIFY, Step.SUBSCRIBE, Step.SCAN)


class Life(Enum):
    """What the EM does about a port.

    The EM sends requests to SERVED ports only. A port whose agent does not answer (SILENT) or gives invalid answers
    (ISOLATED) is left alone for a while, and then served again to find out whether it has recovered. A port that has
    left the fabric is AWAY: most ports return soon, so its addresses stay in the MAC tables of the others for
    `leave_hold`. Then it is FORGOTTEN; its vports stay known in case it returns.

    Each state except FORGOTTEN has a time limit, `Port.wake_at`. When it is reached, DUE happens; in SERVED that is a
    poll. When a port ceases to be SERVED, or its dialogue restarts, its epoch is incremented, and responses of earlier
    epochs are ignored. So TIMEOUT and FAULT happen in SERVED only.
    """

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
