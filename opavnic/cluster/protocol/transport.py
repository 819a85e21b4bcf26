"""What the cores of two machines need from the transport: membership, requests, and calls that carry packets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NewType, Protocol

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


class Call(Protocol):
    """A connection that has just been made, before anything is said over it."""

    async def stream(self) -> CallStream:
        """Return it for reading and writing, after the handshake of TLS. Raises OSError, EOFError."""

    def close(self) -> None:
        """End it."""


class Transport(Protocol):
    """Membership of the fabric, requests with replies, and connections between its nodes.

    All methods and callbacks run in the event loop that called `start`.
    """

    on_node: Callable[[NodeName, NodeState], None]
    on_call: Callable[[Call], None]
    """A node has called this one; which one is said over the connection."""
    serve: Callable[[NodeName, str, dict[str, Any]], Awaitable[dict[str, Any]]]
    """(requester, verb, body) -> reply. An OpavnicError it raises reaches the requester as AskError with that line."""

    @property
    def name(self) -> NodeName:
        """The node that this is."""

    @property
    def fabric(self) -> int:
        """The fabric's id; the coordinator's if this node was given none."""

    @property
    def life(self) -> int:
        """The number that this process has drawn; see NodeState."""

    async def start(self) -> None:
        """Join the fabric.

        Raises:  JoinRefusedError: this node may not be in it. ClusterInputError: an address or credentials that cannot
                 be used. ClusterError: no coordinator answers.
        """

    async def stop(self) -> None:
        """Leave the fabric."""

    async def call(self, node: NodeName) -> Call:
        """Connect to a node. Raises AskError or OSError: it cannot be reached."""

    async def ask(
        self, node: NodeName, verb: str, body: dict[str, Any], *, timeout_s: float = 10.0
    ) -> dict[str, Any]:
        """Send a request to a node and return the reply of its `serve`.

        Args:    verb: letters, digits and hyphens. body: JSON data, at most MAX_QUESTION bytes.
        Raises:  AskError: no reply in time, no such node, or the node's refusal.
        """

    def counters(self) -> Mapping[str, int]:
        """Return the number of refused messages, by reason."""
