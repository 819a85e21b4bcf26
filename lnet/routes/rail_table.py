"""The messages of a node with Multi-Rail: each attempt takes a pair of interfaces, and may be repeated. Sans-IO.

    send -> (discovery) -> attempt -> done
               ^              | failed with a HealthStatus: the health of one end or of both sinks
               |              v
            waiting        resend, up to retry_count times within transaction_timeout; else reported as failed

What differs from channel bonding (`lnet.routes.tx_table`): a message that may have arrived fails when its connection
does not answer in time, instead of being kept until the peer settles it. Lustre sends its RPC again in that case.
Source: the public lnet_health_check(), lnet_attempt_msg_resend(), kiblnd_abort_txs(), kiblnd_peer_connect_failed().
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from hfi_sim.base.deadlines import Deadlines
from lnet.base.nid import Net, Nid
from lnet.o2iblnd.conns import ConnTable, LossCause
from lnet.objects.objects import KibDev, KibNet, KibRoute, KibRoutes, LnetNi
from lnet.objects.stats import Traffic
from lnet.objects.tx import PeerQueue, Report, SendDone, SendFailed, TxKind
from lnet.routes.rails import LocalNi, PeerNi, PeerState, RailPeer, RailTx, choose
from lnet.settings.config import LndConfig
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

Simulation = Callable[[RailTx, KibRoute], HealthStatus | None]
"""Returns how an attempt is to fail before anything is sent (net_drop_add -e), or None."""


class RailTable:
    """All messages of the networks with Multi-Rail, and the interfaces of both ends."""

    def __init__(
        self,
        config: LndConfig,
        nis: Mapping[Net, LnetNi],
        conns: ConnTable,
        *,
        new_id: Callable[[], int],
        report: Callable[[Report], None],
        discover: Callable[[RailPeer], None],
        health_changed: Callable[[LocalNi | PeerNi], None],
        traffic: Traffic,
    ) -> None:
        """Make an empty table.

        Args:  nis, conns: those of the node. new_id: numbers the messages. discover: starts the discovery of a peer.
               health_changed: called with each interface whose health has changed.
        """
        self.now = 0.0
        """Time of the input being handled, in seconds; set by the caller."""
        self.config = config
        self.peers: dict[Nid, RailPeer] = {}
        """By each of their NIDs."""
        self.locals: dict[KibDev, LocalNi] = {}
        self.simulate: Simulation | None = None
        self._nis = nis
        self._conns = conns
        self._new_id = new_id
        self._report = report
        self._discover = discover
        self._health_changed = health_changed
        self._traffic = traffic
        self._txs: dict[int, RailTx] = {}
        self._deadlines: Deadlines[int] = Deadlines(self._due_of)

    def __len__(self) -> int:
        return len(self._txs)

    def __iter__(self) -> Iterator[RailTx]:
        return iter(list(self._txs.values()))

    def known_peers(self) -> list[RailPeer]:
        """Return each peer once."""
        return list(dict.fromkeys(self.peers.values()))

    def remote_peers(self) -> list[RailPeer]:
        """Return each peer once, without those that are interfaces of this node."""
        own = {ni.nid for ni in self.locals.values()}
        return [peer for peer in self.known_peers() if not own & peer.nis.keys()]

    def peer_of(self, nid: Nid) -> RailPeer:
        """Return the peer with a NID; make it if it is unknown."""
        peer = self.peers.get(nid)
        if peer is None:
            queue = PeerQueue(KibRoutes(nid, []))
            peer = self.peers[nid] = RailPeer(nid, {nid: PeerNi(nid)}, queue)
        return peer

    def sender_of(self, nid: Nid) -> Nid:
        """Return the primary NID of a peer: all its messages are numbered together."""
        peer = self.peers.get(nid)
        return peer.primary if peer is not None else nid

    # --- interfaces of this node ---------------------------------------------------------------------------

    def add_device(self, net: KibNet, dev: KibDev) -> None:
        """Add an interface."""
        self.locals[dev] = LocalNi(net.nid_of(dev), net, dev)

    def remove_device(self, dev: KibDev) -> None:
        """Remove an interface, after its connections have been closed, with the pairs it is in."""
        self.locals.pop(dev, None)
        for peer in self.known_peers():
            for key in [key for key in peer.routes if key[0] is dev]:
                self._drop_route(peer, peer.routes.pop(key))

    def drop_ni(self, peer: RailPeer, nid: Nid) -> None:
        """Remove an interface that a peer no longer has."""
        del peer.nis[nid]
        self._traffic.forget(nid)
        if self.peers.get(nid) is peer:
            del self.peers[nid]
        for key in [key for key in peer.routes if key[1] == nid]:
            route = peer.routes.pop(key)
            conn = self._conns.on_route(route)
            if conn is not None:
                self._conns.fail(conn.key, "the peer has no such interface any more", self.now)
            self._drop_route(peer, route)

    def drop_peer(self, peer: RailPeer) -> None:
        """Remove a peer; messages to it fail."""
        peer.configured = False
        for tx in [tx for tx in self if tx.to is peer]:
            self.fail(tx, errno.EHOSTUNREACH, f"the peer {peer.primary} was removed")
        for nid in list(peer.nis):
            if nid in peer.nis:
                self.drop_ni(peer, nid)
        for ni in self._nis.values():
            ni.ni_data.ibn_routes.pop(peer.primary, None)

    def _drop_route(self, peer: RailPeer, route: KibRoute) -> None:
        ni = self._nis.get(route.rt_nid.net)
        routes = ni.ni_data.ibn_routes.get(peer.primary) if ni is not None else None
        if routes is not None and route in routes.routes:
            routes.routes.remove(route)

    # --- sending -------------------------------------------------------------------------------------------

    def send(self, tx: RailTx, length: int) -> int:
        """Send a message; return its number."""
        self._txs[tx.msg_id] = tx
        if tx.net.closing:
            self.fail(tx, errno.ENETDOWN, f"network {tx.net.net} is being removed")
        elif length > self.config.max_message:
            self.fail(tx, errno.EMSGSIZE, f"{length} bytes; {self.config.max_message} are allowed")
        else:
            tx.to = peer = self.peer_of(tx.nid)
            tx.deadline = self.now + tx.timeout_s
            self._deadlines.touch(tx.msg_id)
            own = tx.then is not None or any(tx.nid == ni.nid for ni in self.locals.values())
            if own or peer.state is PeerState.KNOWN or not self.config.discovery:
                self._enter(tx, peer)
            else:
                peer.waiting.append(tx)
                self._discover(peer)
        return tx.msg_id

    def internal(
        self,
        kind: TxKind,
        nid: Nid,
        then: Callable[[SendDone | SendFailed], None],
        *,
        data: bytes = b"",
        length: int = 0,
        match_bits: int,
        ptl_index: int,
        recovery: bool = False,
        only: Nid | None = None,
    ) -> None:
        """Send a message of LNet itself: a ping or a push."""
        timeout_s = self.config.transaction_timeout_s / (2 if recovery else 1)
        net = self._nis[nid.net].ni_data
        tx = RailTx(self._new_id(), kind, net, nid, 0.0, timeout_s, data=data, length=length)
        tx.match_bits, tx.ptl_index, tx.then, tx.recovery, tx.only = (
            match_bits,
            ptl_index,
            then,
            recovery,
            only,
        )
        self.send(tx, len(data) or length)

    def discovered(self, peer: RailPeer, failed: SendFailed | None) -> None:
        """Send the messages that waited for a discovery, or fail them with its error."""
        waiting, peer.waiting = peer.waiting, []
        for tx in waiting:
            if failed is None:
                self._enter(tx, peer)
            else:
                self.fail(tx, -failed.errno, f"peer {peer.primary} was not discovered: {failed.reason}")

    def _enter(self, tx: RailTx, peer: RailPeer) -> None:
        tx.to = peer
        if peer.queue.backlog or not peer.queue.admit(tx):
            peer.queue.backlog.append(tx)
        else:
            self._attempt(tx, peer)

    def _attempt(self, tx: RailTx, peer: RailPeer) -> None:
        if tx.doubt_stamp and self._conns.stamp_of(tx.nid) not in (0, tx.doubt_stamp):
            self.fail(tx, errno.ECONNRESET, "the peer restarted and may have had the message", in_doubt=True)
            return
        pair = choose(peer, tx, self.locals.values())
        if pair is None:
            self.fail(tx, errno.EHOSTUNREACH, f"no interface here or there on a network of {peer.primary}")
            return
        tx.local, tx.remote = local, remote = pair
        for end in pair:
            end.seq += 1
            end.in_flight += 1
        remote.most_in_flight = max(remote.most_in_flight, remote.in_flight)
        if not peer.multi_rail and peer.preferred is None and tx.only is None:
            peer.preferred = local
        tx.net = local.net
        tx.attempt_deadline = self.now + self.config.attempt_s
        self._deadlines.touch(tx.msg_id)
        route = peer.route(local, remote)
        status = self.simulate(tx, route) if self.simulate is not None else None
        if status is not None:
            tx.attempts += 1
            tx.route = route
            self.ended(tx, status, "simulated")
            return
        conn = self._conns.on_route(route) or self._conns.open(local.net, route)
        self._conns.submit(conn, tx)

    # --- the end of an attempt -----------------------------------------------------------------------------

    def route_lost(self, route: KibRoute, left: Iterable[RailTx], reason: str, cause: LossCause) -> None:
        """Handle a connection that was lost or could not be made, with the messages on it."""
        for tx in left:
            if cause is LossCause.RENEGOTIATE and tx.to is not None and route in tx.to.routes.values():
                conn = self._conns.on_route(route) or self._conns.open(tx.net, route)
                self._conns.submit(conn, tx)
            elif tx.handed:
                timed_out = cause is LossCause.TIMED_OUT
                self.ended(
                    tx, HealthStatus.NETWORK_TIMEOUT if timed_out else HealthStatus.REMOTE_DROPPED, reason
                )
            else:
                self.ended(tx, _QUEUED.get(cause, HealthStatus.LOCAL_DROPPED), reason)

    def ended(self, tx: RailTx, status: HealthStatus, reason: str) -> None:
        """Handle an attempt that failed: blame the ends, then send the message again or report it."""
        peer, local, remote = tx.to, tx.local, tx.remote
        assert peer is not None and local is not None and remote is not None  # noqa: S101, PT018 - an attempt has all
        self._leave(tx)
        tx.last = (status, reason)
        self._traffic.ended(status)
        many = len(peer.nis) > 1
        if status.blames_local:
            self._blame(local, status)
        if status.blames_remote and many and remote.nid not in {ni.nid for ni in self.locals.values()}:
            self._blame(remote, status)
        again = (
            status.resends and not tx.recovery and (many if status.blames_remote else len(self.locals) > 1)
        )
        if again and tx.retries < self.config.retry_count and self.now < tx.deadline:
            tx.retries += 1
            self._traffic.counters.resend_count += 1
            if tx.route is not None:
                tx.route.counters.retries += 1
            self._attempt(tx, peer)
            return
        if again and self.config.retry_count:
            self._traffic.counters.failed_resends += 1
        self.fail(
            tx, _ERRNO.get(status, errno.EIO), f"{status.value}: {reason}", in_doubt=bool(tx.doubt_stamp)
        )

    def _blame(self, end: LocalNi | PeerNi, status: HealthStatus) -> None:
        end.health.failures[status] += 1
        end.health.worse(self.config)
        end.health.queue(self.now, self.config)
        self._health_changed(end)

    def done(self, tx: RailTx, data: bytes) -> None:
        """Report a message as done; for a GET, `data` is the fetched data."""
        route = tx.route
        assert route is not None  # noqa: S101 - a message that is done has taken a route
        nob = len(tx.data) if tx.kind is TxKind.PUT else len(data)
        self._traffic.counters.successful_resends += bool(tx.retries)
        route.counters.messages += 1
        route.counters.bytes += nob
        for end in (tx.local, tx.remote):
            if end is not None:
                self.praise(end)
        self._settle(tx, SendDone(tx.msg_id, tx.nid, route, nob, tx.attempts, data))

    def praise(self, end: LocalNi | PeerNi) -> None:
        """Raise the health of an interface after a success."""
        end.health.better(self.now, self.config)
        end.health.queue(self.now, self.config)
        self._health_changed(end)

    def fail(self, tx: RailTx, code: int, reason: str, *, in_doubt: bool = False) -> None:
        """Report a message as failed with an errno and take it off its connection."""
        self._conns.cancel(tx)
        self._settle(tx, SendFailed(tx.msg_id, tx.nid, -code, reason, in_doubt))

    def _leave(self, tx: RailTx) -> None:
        for end in (tx.local, tx.remote):
            if end is not None:
                end.in_flight -= 1
        tx.local = tx.remote = tx.peer = None
        tx.attempt_deadline = 0.0

    def _settle(self, tx: RailTx, report: SendDone | SendFailed) -> None:
        del self._txs[tx.msg_id]
        self._leave(tx)
        peer = tx.to
        if peer is not None:
            peer.queue.in_flight.pop(tx.object_cookie, None)
            if tx in peer.waiting:
                peer.waiting.remove(tx)
            if not tx.object_cookie and tx in peer.queue.backlog:
                peer.queue.backlog.remove(tx)
            while peer.queue.backlog and peer.queue.admit(peer.queue.backlog[0]):
                self._attempt(peer.queue.backlog.popleft(), peer)  # type: ignore[arg-type]
        if tx.then is not None:
            tx.then(report)
        else:
            self._report(report)
        if peer is not None:
            self._forget_unknown(peer)

    def _forget_unknown(self, peer: RailPeer) -> None:
        """Forget a peer that never answered and has no more messages."""
        answered = any(ni.health.last_alive is not None for ni in peer.nis.values())
        if (
            peer.state is not PeerState.NEW
            or answered
            or peer.waiting
            or peer.queue.in_flight
            or peer.configured
        ):
            return
        for route in peer.routes.values():
            conn = self._conns.on_route(route)
            if conn is not None:
                self._conns.close_idle(conn)
        for nid in peer.nis:
            self._traffic.forget(nid)
            if self.peers.get(nid) is peer:
                del self.peers[nid]
        for ni in self._nis.values():
            ni.ni_data.ibn_routes.pop(peer.primary, None)

    # --- time ----------------------------------------------------------------------------------------------

    def _due_of(self, msg_id: int) -> float | None:
        tx = self._txs.get(msg_id)
        if tx is None:
            return None
        return min(tx.deadline, tx.attempt_deadline) if tx.attempt_deadline else tx.deadline

    def deadline(self) -> float | None:
        """Return when `expire` is due, or None."""
        return self._deadlines.next()

    def expire(self, now: float) -> None:
        """Fail overdue messages, and close the connections on which an attempt has taken too long."""
        for msg_id in self._deadlines.take_due(now):
            tx = self._txs.get(msg_id)
            if tx is None:
                continue
            if tx.deadline <= now:
                doubt = bool(tx.doubt_stamp) or (tx.peer is not None and tx.peer.in_doubt(tx))
                self._traffic.counters.response_timeout_count += 1
                last = f"; last {tx.last[0].value}: {tx.last[1]}" if tx.last else ""
                self.fail(tx, errno.ETIMEDOUT, f"not done within {tx.timeout_s:g} s{last}", in_doubt=doubt)
                continue
            if tx.peer is not None:
                reason = f"no answer within {self.config.attempt_s:.3g} s"
                self._conns.fail(tx.peer.key, reason, now, LossCause.TIMED_OUT)
            self._deadlines.touch(msg_id)


def is_multi_rail(ni: LnetNi | None) -> bool:
    """Return whether a network has a NID for each device."""
    return ni is not None and ni.ni_data.bonding is Bonding.MULTI_RAIL
