"""What the cores of two machines need of whatever carries packets and questions between them.

A link between two machines has two directions, 0 and 1. `bind` says which of them leaves from here; the other one ends
here. Packets of one direction and one service channel arrive in order, each at most once, and as long as both machines
live, exactly once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NewType, Protocol

from opavnic.cluster.messages import Body, Take

NodeName = NewType("NodeName", str)
"""The name of one machine's part of a fabric: the host name unless `--name` says otherwise."""
MANAGEMENT_SC: Final = 15
"""The service channel of SMPs: its trains go ahead of all others."""


class Presence(Enum):
    """Whether a node is part of the fabric."""

    JOINED = "joined"
    GONE = "gone"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class NodeState:
    """What became of a node."""

    presence: Presence
    reason: str = ""
    """Why it was refused, a line for a person; empty otherwise."""
    is_coordinator: bool = False
    life: int = 0
    """A number that the node drew when it started: another one is another process."""


class Transport(Protocol):
    """Carries trains of packets for links, and questions with answers, between the nodes of one fabric.

    All methods and all callbacks run in the event loop that called `start`, unless `is_threaded` says otherwise.
    """

    is_threaded: bool
    """Whether `send_train` is called in one thread for each peer, and `on_train` and `on_room` may be in any."""
    on_train: Callable[[str, int, Body], None]
    """link, direction, packets that arrived for it. Whoever has no room for more calls `pause`."""
    on_room: Callable[[str, int], None]
    """link, direction that has room again after `send_train` took less than it was given."""
    on_lost: Callable[[str, int, int], None]
    """link, direction, number of packets under way to a machine that went: nobody knows whether they arrived."""
    on_node: Callable[[NodeName, NodeState], None]
    serve: Callable[[NodeName, str, dict[str, Any]], Awaitable[dict[str, Any]]]
    """asker, verb, body -> answer. What it raises as OpavnicError reaches the asker as AskError with that line."""

    @property
    def name(self) -> NodeName:
        """The node that this is."""

    @property
    def fabric(self) -> int:
        """The fabric's id; that of the coordinator where this node was given none."""

    async def start(self) -> None:
        """Join the fabric.

        Raises:  RefusedError: this node may not be in it. ClusterInputError: an address or credentials that cannot be
                 used. ClusterError: nobody answers there.
        """

    async def stop(self) -> None:
        """Leave the fabric. What is under way is lost and counted."""

    def bind(self, link: str, direction: int, peer: NodeName) -> None:
        """Say that `direction` (0 or 1) of a link goes from here to `peer`, and the other comes from it.

        Trains flow once the peer has bound the other end.
        """

    def unbind(self, link: str) -> None:
        """Take a link out of service; what is under way is lost and counted."""

    def send_train(self, link: str, direction: int, sc: int, take: Take) -> int:
        """Send 16B packets of one service channel (0 to 31), those that `take` has; return how many were taken.

        If it has more, that is back pressure: `on_room` tells when to offer the rest. None are taken while the peer is
        gone.
        """

    def pause(self, link: str, direction: int) -> None:
        """Acknowledge no more packets of a direction that ends here: its sender stops after one window."""

    def resume(self, link: str, direction: int) -> None:
        """Acknowledge again what `pause` held back."""

    async def ask(
        self, node: NodeName, verb: str, body: dict[str, Any], *, timeout_s: float = 10.0
    ) -> dict[str, Any]:
        """Ask a node and return what its `serve` answers.

        Args:    verb: letters, digits and hyphens. body: what JSON can say, at most MAX_QUESTION bytes of it.
        Raises:  AskError: no answer in time, no such node, or its refusal.
        """

    def links(self) -> Mapping[str, LinkReport]:
        """Return each bound link's peer and counters."""

    def counters(self) -> Mapping[str, int]:
        """Return what arrived here and was refused, by reason."""


@dataclass(frozen=True, slots=True)
class LinkReport:
    """One bound link, as this end sees it. Packets, unless a name says otherwise."""

    peer: NodeName
    direction: int
    """The direction that leaves from here."""
    is_open: bool
    """The peer has granted room for what leaves from here."""
    sent: int
    """Taken by `send_train`."""
    acknowledged: int
    under_way: int
    """Sent, neither acknowledged nor lost."""
    lost: int
    """Under way when the peer went."""
    found: int
    """Of the lost ones, those that the peer had received, as it said when it was back."""
    received: int
    """Given to `on_train`."""
    missing: int
    """That should have come between two trains and did not."""
    round_trip_s: float | None
    """The last measured time from a train to its acknowledgement; None before the first."""
