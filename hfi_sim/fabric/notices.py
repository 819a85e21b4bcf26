"""What is told of a fabric: changes of its wiring, and packets that enter links."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from hfi_sim.base.counters import Drop


class FabricChange(Enum):
    """What changed in the wiring, or in what the subnet manager made of it."""

    LINK_UP = "link_up"
    LINK_DOWN = "link_down"
    CAPABILITY = "capability"
    DESCRIPTION = "description"
    """What the node of a port says of itself."""
    TABLES = "tables"
    """The forwarding tables of a switch."""


@dataclass(frozen=True, slots=True)
class FabricNotice:
    """One change, with the name of the link, node or port that it happened to."""

    change: FabricChange
    name: str
    more: bool = False
    """More changes with the same cause follow; a subscriber interested only in the outcome waits for the last."""


@dataclass(frozen=True, slots=True)
class TracedPacket:
    """A packet at the moment it entered a link."""

    time_s: float
    """On the fabric's clock."""
    direction: str
    """`h1:1->sw0:1`."""
    packet: bytes
    drop: Drop | None
    """Why it ended there; None: it went on its way."""


PacketObserver = Callable[[TracedPacket], None]
