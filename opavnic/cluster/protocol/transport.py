"""What is said of the machines of a fabric, and a connection between two of them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, NewType, Protocol

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
    life: int = 0
    """A random number that the node draws when it starts: another number means another process."""


class CallStream(Protocol):
    """A connection between two machines. Its methods raise OSError or EOFError once it has ended."""

    @property
    def certificate(self) -> bytes | None:
        """The certificate of the other machine, in DER; None: there is no TLS."""

    async def read(self, count: int) -> bytes:
        """Return the next bytes, so many."""

    async def write(self, data: bytes) -> None:
        """Write all bytes; waits while the other machine takes none."""

    def close(self) -> None:
        """End it."""
