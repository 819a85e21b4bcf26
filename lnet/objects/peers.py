"""The interfaces of this node and of its peers (lnet_ni, lnet_peer_ni), a message in flight (kib_tx), and a peer with
its messages (lnet_peer).

A network with channel bonding knows a peer by one NID and reaches it over a mesh of routes. With Multi-Rail, a peer has
a NID for each of its interfaces, and a message takes a pair of interfaces. What waits for a peer and what is in flight
to it is held in the same way for both.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final

from lnet.base.nid import Nid
from lnet.objects.objects import KibDev, KibNet, KibRoute, KibRoutes
from lnet.objects.stats import SendDone, SendFailed, TxKind
from lnet.settings.health import Health, HealthStatus
from lnet.settings.networks import LNET_MAX_INTERFACES, Bonding

if TYPE_CHECKING:
    from lnet.o2iblnd.peer import KibPeer

MESSAGE_WINDOW: Final = 1024
"""How many messages enter the window of a peer before its oldest one has ended."""
DELIVERIES_KEPT: Final = LNET_MAX_INTERFACES * MESSAGE_WINDOW
"""How many delivered messages of one node a receiver remembers: a sender that does not know yet which NIDs are one node
has a window for each of them."""


@dataclass(slots=True, eq=False)
class LocalNi:
    """One interface of this node with Multi-Rail (lnet_ni): a device with a NID."""

    nid: Nid
    net: KibNet
    dev: KibDev
    health: Health = field(default_factory=Health)
    seq: int = 0
    """Position in the round robin: the messages sent so far."""
    in_flight: int = 0
    told_up: bool = True
    """Its status as peers were told last."""

    @property
    def up(self) -> bool:
        """Its status as peers are told: the device works, and the health has not sunk to 0."""
        return self.dev.state.usable and not self.health.down


@dataclass(slots=True, eq=False)
class PeerNi:
    """One interface of a peer (lnet_peer_ni)."""

    nid: Nid
    health: Health = field(default_factory=Health)
    up: bool = True
    """Its status as the peer told it last."""
    seq: int = 0
    in_flight: int = 0
    most_in_flight: int = 0
    """The highest value of `in_flight` so far."""


@dataclass(slots=True, eq=False)
class KibTx:
    """A message, from the call that sends it until its report."""

    msg_id: int
    """Its number among all messages of this node; the receiver knows the message by it."""
    kind: TxKind
    nid: Nid
    timeout_s: float
    data: bytes = b""
    """PUT: the payload."""
    length: int = 0
    """GET: bytes requested."""
    match_bits: int = 0
    hdr_data: int = 0
    ptl_index: int = 0
    deadline: float = 0.0
    to: Peer | None = None
    """None: it has failed before it was sent."""
    place: int = 0
    """Its place in the window of the peer; 0 until it enters the window."""
    peer: KibPeer | None = None
    """The connection on which it is queued or in flight."""
    route: KibRoute | None = None
    """The last route it took."""
    attempts: int = 0
    handed: bool = False
    """Whether its connection has begun to send it."""
    doubt_stamp: int = 0
    """Incarnation of the peer that may have received the message without acknowledging it; 0: none."""
    overdue: bool = False
    """Past its deadline; kept only because it is in doubt."""

    # Multi-Rail
    local: LocalNi | None = None
    """The pair of interfaces of the attempt in progress: here, ..."""
    remote: PeerNi | None = None
    """... and there; both None between attempts."""
    source: Nid | None = None
    """The only local interface it may take; None: any."""
    only: Nid | None = None
    """The only interface of the peer it may take; None: any."""
    retries: int = 0
    recovery: bool = False
    """A recovery ping: it is not sent again."""
    attempt_deadline: float = 0.0
    """Until when the attempt in progress may last, in seconds; 0: as long as the message."""
    then: Callable[[SendDone | SendFailed], None] | None = None
    """Gets the report of a message of LNet itself, in place of the user."""
    last: tuple[HealthStatus, str] | None = None
    """How the last attempt failed."""

    @property
    def may_be_there(self) -> bool:
        """Whether the peer may have received the message."""
        return bool(self.doubt_stamp) or (self.peer is not None and self.peer.in_doubt(self))

    @property
    def nob(self) -> int:
        """Bytes of the payload that it sends or asks for."""
        return len(self.data) or self.length


class PeerState(Enum):
    """What is known of a peer with Multi-Rail."""

    NEW = "new"
    """A NID; its other interfaces are not known, or not ours to it."""
    DISCOVERING = "discovering"
    KNOWN = "known"


@dataclass(slots=True, eq=False)
class Peer:
    """One peer with all its interfaces and all messages to it."""

    primary: Nid
    bonding: Bonding
    """That of the network here on which it was met."""
    nis: dict[Nid, PeerNi]
    in_flight: dict[int, KibTx] = field(default_factory=dict)
    """The messages in the window, by their place, oldest first."""
    next_place: int = 1
    backlog: deque[KibTx] = field(default_factory=deque)
    """Messages that wait to enter the window."""
    entering: bool = False
    """Messages of the backlog are entering the window."""
    waiting: list[KibTx] = field(default_factory=list)
    """Messages that wait for the discovery."""
    answered: bool = False
    """A route to it has been up."""

    mesh: KibRoutes | None = None
    """Channel bonding: its routes, ..."""
    parked: deque[KibTx] = field(default_factory=deque)
    """... and the messages without a usable route."""

    state: PeerState = PeerState.NEW
    multi_rail: bool = False
    configured: bool = False
    """Made by `lnetctl peer add`: it stays known although it was never discovered."""
    stamp: int = 0
    """Incarnation that was discovered."""
    sequence: int = 0
    """Number of the last configuration that it told."""
    preferred: LocalNi | None = None
    """The only source of messages to a peer without Multi-Rail."""
    discovery: object = None
    """Identifies the discovery that is under way."""
    asked: list[Callable[[SendFailed | None], None]] = field(default_factory=list)
    """Called with how the discovery ends."""
    pairs: dict[tuple[KibDev, Nid], KibRoute] = field(default_factory=dict)
    """Multi-Rail: the pairs that messages have taken."""

    @property
    def routes(self) -> list[KibRoute]:
        """All routes to it."""
        return [*self.pairs.values(), *(self.mesh or ())]

    @property
    def kept(self) -> bool:
        """Whether it stays known without messages."""
        known = self.answered or self.configured or self.state is not PeerState.NEW
        return known or bool(self.in_flight or self.backlog or self.waiting)

    def admit(self, tx: KibTx) -> bool:
        """Let a message into the window and return True if there is room."""
        oldest = next(iter(self.in_flight), self.next_place)
        if self.next_place - oldest >= MESSAGE_WINDOW:
            return False
        self._place(tx)
        return True

    def _place(self, tx: KibTx) -> None:
        tx.place = self.next_place
        self.in_flight[tx.place] = tx
        self.next_place += 1

    def remove(self, tx: KibTx) -> None:
        """Take out a message that has ended."""
        if self.in_flight.pop(tx.place, None) is None:
            for queue in (self.waiting, self.backlog):
                if tx in queue:
                    queue.remove(tx)
        elif tx.peer is None and tx in self.parked:
            self.parked.remove(tx)

    def absorb(self, other: Peer) -> None:
        """Take over the interfaces, routes and messages of what has turned out to be the same node."""
        for nid, ni in other.nis.items():
            self.nis.setdefault(nid, ni)
        self.pairs.update(other.pairs)
        for tx in [*other.in_flight.values(), *other.backlog, *other.waiting]:
            tx.to = self
        for tx in other.in_flight.values():
            self._place(tx)
        self.backlog += other.backlog
        self.waiting += other.waiting
        self.asked += other.asked
        self.answered |= other.answered
        self.configured |= other.configured
        if self.state is PeerState.NEW:
            self.state, self.discovery = other.state, other.discovery
            self.multi_rail, self.stamp, self.sequence = other.multi_rail, other.stamp, other.sequence
        other.in_flight, other.waiting, other.asked = {}, [], []
        other.backlog.clear()
