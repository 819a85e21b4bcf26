"""What the cores of two machines need from the transport that carries their packets and requests.

A link between two machines has two directions, 0 and 1. `bind` says which of them leaves from here; the other one ends
here. Packets of one direction and one service channel arrive in order and at most once; exactly once as long as both
machines live.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NewType, Protocol

from opavnic.cluster.protocol.messages import Body, Take

NodeName = NewType("NodeName", str)
"""The name of one machine of a fabric: the host name unless `--name` says otherwise."""
MANAGEMENT_SC: Final = 15
"""The service channel of SMPs: its trains go ahead of all others."""


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


class Transport(Protocol):
    """Carries trains of packets for links, and requests with replies, between the nodes of one fabric.

    All methods and callbacks run in the event loop that called `start`, unless `is_threaded` says otherwise.
    """

    is_threaded: bool
    """Whether `send_train` is called in one thread for each peer, and `on_train` and `on_room` may be called in any."""
    on_train: Callable[[str, int, Body], None]
    """(link, direction, packets that arrived for it). A receiver without room for more calls `pause`."""
    on_room: Callable[[str, int], None]
    """(link, direction): it has room again after `send_train` took less than it was offered."""
    on_lost: Callable[[str, int, int], None]
    """(link, direction, packets in transit to a machine that left): whether they arrived is unknown."""
    on_node: Callable[[NodeName, NodeState], None]
    serve: Callable[[NodeName, str, dict[str, Any]], Awaitable[dict[str, Any]]]
    """(requester, verb, body) -> reply. An OpavnicError it raises reaches the requester as AskError with that line."""

    @property
    def name(self) -> NodeName:
        """The node that this is."""

    @property
    def fabric(self) -> int:
        """The fabric's id; the coordinator's if this node was given none."""

    async def start(self) -> None:
        """Join the fabric.

        Raises:  JoinRefusedError: this node may not be in it. ClusterInputError: an address or credentials that cannot
                 be used. ClusterError: no coordinator answers.
        """

    async def stop(self) -> None:
        """Leave the fabric. Packets in transit are lost and counted."""

    def bind(self, link: str, direction: int, peer: NodeName) -> None:
        """Bind a link: `direction` (0 or 1) goes from here to `peer`, the other direction comes from it.

        Trains flow once the peer has bound the other end.
        """

    def unbind(self, link: str) -> None:
        """Take a link out of service; packets in transit are lost and counted."""

    def send_train(self, link: str, direction: int, sc: int, take: Take) -> int:
        """Send 16B packets of one service channel (0 to 31), taken with `take`; return the number of packets sent.

        If `take` has more, that is back pressure: `on_room` tells when to offer the rest. Nothing is taken while the
        peer is absent.
        """

    def pause(self, link: str, direction: int) -> None:
        """Stop acknowledging packets of a direction that ends here: its sender stops after one window."""

    def resume(self, link: str, direction: int) -> None:
        """Acknowledge what `pause` held back, and go on."""

    async def ask(
        self, node: NodeName, verb: str, body: dict[str, Any], *, timeout_s: float = 10.0
    ) -> dict[str, Any]:
        """Send a request to a node and return the reply of its `serve`.

        Args:    verb: letters, digits and hyphens. body: JSON data, at most MAX_QUESTION bytes.
        Raises:  AskError: no reply in time, no such node, or the node's refusal.
        """

    def links(self) -> Mapping[str, LinkReport]:
        """Return the counters of each bound link."""

    def counters(self) -> Mapping[str, int]:
        """Return the number of refused messages, by reason."""


@dataclass(frozen=True, slots=True)
class LinkReport:
    """One bound link, as this end sees it. Packets, unless a name says otherwise."""

    is_open: bool
    """Whether the peer has granted room for the outgoing direction."""
    sent: int
    """Taken by `send_train`."""
    acknowledged: int
    under_way: int
    """Sent, neither acknowledged nor lost."""
    lost: int
    """In transit when the peer left."""
    found: int
    """Lost ones that the peer turned out to have received, as it reported when it returned."""
    received: int
    """Passed to `on_train`."""
    missing: int
    """Expected between two trains and never arrived."""
