"""Multi-Rail: the interfaces of this node and of its peers, each with a NID of its own, and which pair a message takes.

Source: the public lnet_get_best_ni() and lnet_select_peer_ni(): health, then free credits, then round robin.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from lnet.base.nid import Net, Nid
from lnet.objects.objects import KibDev, KibNet, KibRoute, KibRoutes
from lnet.objects.tx import KibTx, PeerQueue, SendDone, SendFailed
from lnet.settings.health import Health, HealthStatus

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(slots=True, eq=False)
class LocalNi:
    """One interface of this node (lnet_ni): a device with a NID."""

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


class PeerState(Enum):
    """What is known of a peer."""

    NEW = "new"
    """A NID; its other interfaces are not known, or not ours to it."""
    DISCOVERING = "discovering"
    KNOWN = "known"


@dataclass(slots=True, eq=False)
class RailPeer:
    """One peer (lnet_peer) with all its interfaces."""

    primary: Nid
    nis: dict[Nid, PeerNi]
    queue: PeerQueue
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
    waiting: list[RailTx] = field(default_factory=list)
    """Messages that wait for the discovery."""
    asked: list[Callable[[SendFailed | None], None]] = field(default_factory=list)
    """Called with how the discovery ends."""
    routes: dict[tuple[KibDev, Nid], KibRoute] = field(default_factory=dict)

    def route(self, local: LocalNi, remote: PeerNi) -> KibRoute:
        """Return the pair as a route."""
        key = (local.dev, remote.nid)
        if key not in self.routes:
            route = self.routes[key] = KibRoute(remote.nid, remote.nid.addr, local.dev)
            mine = local.net.ibn_routes.setdefault(self.primary, KibRoutes(self.primary, []))
            mine.routes.append(route)
        return self.routes[key]


@dataclass(slots=True, eq=False)
class RailTx(KibTx):
    """A message that takes one pair of interfaces after another."""

    to: RailPeer | None = None
    local: LocalNi | None = None
    """The pair of the attempt in progress: here, ..."""
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
    """Until when the attempt in progress may last, in seconds."""
    then: Callable[[SendDone | SendFailed], None] | None = None
    """Gets the report of a message of LNet itself, in place of the user."""
    last: tuple[HealthStatus, str] | None = None
    """How the last attempt failed."""


def choose(peer: RailPeer, tx: RailTx, locals_: Iterable[LocalNi]) -> tuple[LocalNi, PeerNi] | None:
    """Return the pair of interfaces for an attempt; None if the peer has none on a network of this node."""
    remotes = [remote for remote in peer.nis.values() if tx.only in (None, remote.nid)]
    healthiest: dict[Net, int] = {}
    for remote in remotes:
        net = remote.nid.net
        healthiest[net] = max(healthiest.get(net, 0), remote.health.value)
    here = [local for local in locals_ if local.nid.net in healthiest and tx.source in (None, local.nid)]
    if not here:
        return None
    if not peer.multi_rail and tx.source is None and peer.preferred in here and tx.only is None:
        here = [peer.preferred]
    local = max(
        here,
        key=lambda ni: (
            ni.dev.state.usable,
            healthiest[ni.nid.net],
            ni.health.value,
            ni.net.tunables.credits - ni.in_flight,
            -ni.seq,
        ),
    )
    remote = max(
        (remote for remote in remotes if remote.nid.net == local.nid.net),
        key=lambda ni: (ni.health.value, -ni.in_flight, -ni.seq),
    )
    return local, remote
