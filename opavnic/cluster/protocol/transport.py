"""What is said of the machines of a fabric."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, NewType

NodeName = NewType("NodeName", str)
"""The name of one machine of a fabric: the host name unless `--name` says otherwise."""
MANAGEMENT_SC: Final = 15
"""The service channel of SMPs, whose packets go ahead of all others."""


class Presence(Enum):
    """Whether a node is part of the fabric."""

    JOINED = "joined"
    GONE = "gone"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class NodeState:
    """The state of a node."""

    presence: Presence
    reason: str = ""
    """Why it was refused, one line for a person; empty otherwise."""
    is_coordinator: bool = False
    epoch: int = 0
    """A random number that the node draws when it starts: another number means another process."""
