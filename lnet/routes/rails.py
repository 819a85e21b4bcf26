"""Multi-Rail: each attempt at a message takes a pair of interfaces, and may be repeated. Sans-IO.

    attempt -> done: the health of both interfaces rises
       ^  | failed with a HealthStatus: the health of one end or of both sinks
       |  v
     resend, up to retry_count times within transaction_timeout; else the message fails

What differs from channel bonding (`lnet.routes.bonding`): a message that may have arrived fails when its connection
does not answer in time, instead of being kept until the peer settles it. Lustre sends its RPC again in that case.
Source: the public lnet_health_check(), lnet_attempt_msg_resend(), kiblnd_abort_txs(), kiblnd_peer_connect_failed();
lnet_get_best_ni() and lnet_select_peer_ni() for the choice: health, then free credits, then round robin.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable
from typing import Final

from lnet.base.nid import Net
from lnet.o2iblnd.peer import LossCause
from lnet.objects.objects import KibDev, KibNet, KibRoute
from lnet.objects.peers import KibTx, LocalNi, Peer, PeerNi, PeerState
from lnet.objects.stats import Traffic
from lnet.routes.messages import MessageTable, Stuck, Way
from lnet.settings.health import HealthStatus
from lnet.settings.networks import Bonding

_QUEUED: Final = {
    LossCause.DEVICE: HealthStatus.LOCAL_ERROR,
    LossCause.BROKEN: HealthStatus.LOCAL_ERROR,
    LossCause.TIMED_OUT: HealthStatus.LOCAL_TIMEOUT,
    LossCause.UNREACHABLE: HealthStatus.NETWORK_TIMEOUT,
    LossCause.REFUSED: HealthStatus.REMOTE_DROPPED,
}
"""How a message ends that its connection had not begun to send."""
_ERRNO: Final = {
    HealthStatus.NETWORK_TIMEOUT: errno.EHOSTUNREACH,
    HealthStatus.LOCAL_TIMEOUT: errno.ETIMEDOUT,
    HealthStatus.REMOTE_TIMEOUT: errno.ETIMEDOUT,
}

Simulation = Callable[[KibTx, KibRoute], HealthStatus | None]
"""Returns how an attempt is to fail before anything is sent (net_drop_add -e), or None."""


class Rails(Way):
    """The way of messages on networks with a NID for each device."""

    def __init__(
        self,
        table: MessageTable,
        traffic: Traffic,
        *,
        discover: Callable[[Peer], None],
        restarted: Callable[[Peer, KibRoute], None],
        health_changed: Callable[[LocalNi | PeerNi], None],
    ) -> None:
        """Make it without interfaces.

        Args:  discover: starts the discovery of a peer. restarted: called with each route that has connected.
               health_changed: called with each interface whose health has changed.
        """
        self.simulate: Simulation | None = None
        self._table = table
        self._traffic = traffic
        self._discover = discover
        self._restarted = restarted
        self._health_changed = health_changed

    def timeout_s(self) -> float:
        return self._table.config.transaction_timeout_s

    # --- interfaces of this node ---------------------------------------------------------------------------

    def add_device(self, net: KibNet, dev: KibDev) -> None:
        """Add an interface."""
        self._table.locals[dev] = LocalNi(net.nid_of(dev), net, dev)

    def remove_device(self, dev: KibDev, reason: str) -> None:
        """Remove an interface with the pairs it is in; their messages take others."""
        self._table.locals.pop(dev, None)
        for peer in self._table.known_peers(Bonding.MULTI_RAIL):
            for key in [key for key in peer.pairs if key[0] is dev]:
                self._table.drop_pair(peer, key, reason)

    # --- sending -------------------------------------------------------------------------------------------

    def ready(self, tx: KibTx, peer: Peer) -> bool:
        own = tx.then is not None or any(tx.nid == ni.nid for ni in self._table.locals.values())
        return own or peer.state is PeerState.KNOWN or not self._table.config.discovery

    def prepare(self, peer: Peer) -> None:
        self._discover(peer)

    def attempt(self, tx: KibTx, peer: Peer) -> None:
        pair = choose(peer, tx, self._table.locals.values())
        if pair is None:
            reason = f"no interface here or there on a network of {peer.primary}"
            self._table.fail(tx, errno.EHOSTUNREACH, reason)
            return
        tx.local, tx.remote = local, remote = pair
        for end in pair:
            end.seq += 1
            end.in_flight += 1
        remote.most_in_flight = max(remote.most_in_flight, remote.in_flight)
        if not peer.multi_rail and tx.only is None and peer.preferred not in self._table.locals.values():
            peer.preferred = local
        tx.attempt_deadline = self._table.now + self._table.config.attempt_s
        self._table.watch(tx)
        route = self._route(peer, local, remote)
        status = self.simulate(tx, route) if self.simulate is not None else None
        if status is None:
            self._table.submit(tx, route)
        else:
            tx.attempts += 1
            tx.route = route
            self._ended(tx, status, "simulated")

    def _route(self, peer: Peer, local: LocalNi, remote: PeerNi) -> KibRoute:
        """Return a pair as a route."""
        key = (local.dev, remote.nid)
        if key not in peer.pairs:
            peer.pairs[key] = KibRoute(remote.nid, remote.nid.addr, local.dev)
        return peer.pairs[key]

    # --- routes --------------------------------------------------------------------------------------------

    def up(self, route: KibRoute, peer: Peer) -> None:
        self._restarted(peer, route)

    def again(self, tx: KibTx, route: KibRoute, reason: str, cause: LossCause) -> None:
        if cause is LossCause.RENEGOTIATE and tx.to is not None and route in tx.to.routes:
            self._table.submit(tx, route)
        elif tx.handed:
            timed_out = cause is LossCause.TIMED_OUT
            status = HealthStatus.NETWORK_TIMEOUT if timed_out else HealthStatus.REMOTE_DROPPED
            self._ended(tx, status, reason)
        else:
            self._ended(tx, _QUEUED.get(cause, HealthStatus.LOCAL_DROPPED), reason)

    # --- the end of an attempt -----------------------------------------------------------------------------

    def _ended(self, tx: KibTx, status: HealthStatus, reason: str) -> None:
        """Handle an attempt that failed: blame the ends, then send the message again or report it."""
        table, peer, local, remote = self._table, tx.to, tx.local, tx.remote
        assert peer is not None and local is not None and remote is not None  # noqa: S101, PT018 - an attempt has all
        self.leave(tx)
        tx.last = (status, reason)
        self._traffic.counters[f"{status.value}_count"] += 1
        many = len(peer.nis) > 1
        if status.blames_local:
            self._blame(local, status)
        if status.blames_remote and many and remote.nid not in {ni.nid for ni in table.locals.values()}:
            self._blame(remote, status)
        again = (
            status.resends and not tx.recovery and (many if status.blames_remote else len(table.locals) > 1)
        )
        retry_count = table.config.retry_count
        if again and tx.retries < retry_count and table.now < tx.deadline:
            tx.retries += 1
            self._traffic.counters["resend_count"] += 1
            if tx.route is not None:
                tx.route.counters.retries += 1
            self.attempt(tx, peer)
            return
        if again and retry_count:
            self._traffic.counters["failed_resends"] += 1
        table.fail(tx, _ERRNO.get(status, errno.EIO), f"{status.value}: {reason}")

    def leave(self, tx: KibTx) -> None:
        for end in (tx.local, tx.remote):
            if end is not None:
                end.in_flight -= 1
        tx.local = tx.remote = None
        tx.attempt_deadline = 0.0

    def _blame(self, end: LocalNi | PeerNi, status: HealthStatus) -> None:
        end.health.failures[status] += 1
        end.health.worse(self._table.config)
        end.health.queue(self._table.now, self._table.config)
        self._health_changed(end)

    def done(self, tx: KibTx) -> None:
        self._traffic.counters["successful_resends"] += bool(tx.retries)
        for end in (tx.local, tx.remote):
            if end is not None:
                self.praise(end)

    def praise(self, end: LocalNi | PeerNi) -> None:
        """Raise the health of an interface after a success."""
        end.health.better(self._table.now, self._table.config)
        end.health.queue(self._table.now, self._table.config)
        self._health_changed(end)

    def due(self, tx: KibTx, now: float) -> Stuck | None:
        """Fail a message that is overdue; close the connection on which an attempt has taken too long."""
        if tx.deadline <= now:
            self._traffic.counters["response_timeout_count"] += 1
            last = f"; last {tx.last[0].value}: {tx.last[1]}" if tx.last else ""
            self._table.fail(tx, errno.ETIMEDOUT, f"not done within {tx.timeout_s:g} s{last}")
        elif tx.peer is not None:
            return tx.peer, f"no answer within {self._table.config.attempt_s:.3g} s", LossCause.TIMED_OUT
        return None


def choose(peer: Peer, tx: KibTx, locals_: Iterable[LocalNi]) -> tuple[LocalNi, PeerNi] | None:
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
