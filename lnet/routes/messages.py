"""The messages of a node, on networks of either bonding: one table, one number space. Sans-IO.

    send -> (discovery) -> window of the peer -> attempt -> done
                                       ^           | its route is lost
                                       |           v
                                       +------ another attempt, or failed

How a message takes routes is a matter of the bonding (`Way`: `lnet.routes.bonding`, `lnet.routes.rails`). Every
message is reported exactly once, as SendDone or SendFailed, also where its peer or its network is removed. It is done
when the receiver has handed it on. It failed in doubt if it was given to a connection that died without an answer: the
receiver may have handed it on.
"""

from __future__ import annotations

import errno
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping

from hfi_sim.base.deadlines import Deadlines
from lnet.base.nid import Net, Nid
from lnet.o2iblnd.conns import ConnTable
from lnet.o2iblnd.peer import KibPeer, LossCause
from lnet.objects.objects import KibDev, KibNet, KibRoute
from lnet.objects.peers import KibTx, LocalNi, Peer, PeerNi
from lnet.objects.stats import Report, SendDone, SendFailed, Traffic, TxKind
from lnet.settings.config import LndConfig
from lnet.settings.networks import Bonding

Stuck = tuple[KibPeer, str, LossCause]
"""A connection to close, and why."""


class Way:
    """How the messages of a network take routes."""

    def timeout_s(self) -> float:
        """Return the timeout of a message for which none is given."""
        raise NotImplementedError

    def met(self, peer: Peer) -> None:
        """Handle a peer to which nothing was sent before."""

    def ready(self, tx: KibTx, peer: Peer) -> bool:
        """Return whether a message may be sent now; otherwise it waits until `MessageTable.discovered`."""
        return True

    def prepare(self, peer: Peer) -> None:
        """Do what messages of a peer wait for."""

    def attempt(self, tx: KibTx, peer: Peer) -> None:
        """Give a message to a connection, or keep it until there is one, or fail it."""
        raise NotImplementedError

    def up(self, route: KibRoute, peer: Peer) -> None:
        """Handle a route that has connected."""

    def lost(self, route: KibRoute, peer: Peer) -> None:
        """Handle a route that was lost, before `again` is called with each of its messages."""

    def again(self, tx: KibTx, route: KibRoute, reason: str, cause: LossCause) -> None:
        """Make another attempt at a message whose route was lost, or fail it."""
        raise NotImplementedError

    def due(self, tx: KibTx, now: float) -> Stuck | None:
        """Handle a message whose deadline has come; return the connection that is to be closed for it."""
        raise NotImplementedError

    def done(self, tx: KibTx) -> None:
        """Note that a message was done."""

    def leave(self, tx: KibTx) -> None:
        """Note that the attempt at a message is over."""


class MessageTable:
    """All messages that are not reported yet, all peers, and the interfaces here that have a NID of their own."""

    def __init__(
        self,
        config: LndConfig,
        nis: Mapping[Net, KibNet],
        conns: ConnTable,
        traffic: Traffic,
        *,
        report: Callable[[Report], None],
        settled: Callable[[], None],
    ) -> None:
        """Make an empty table. The owner sets `ways`.

        Args:  nis, conns: those of the node. settled: called after each report.
        """
        self.now = 0.0
        """Time of the input being handled, in seconds; set by the caller."""
        self.config = config
        self.ways: Mapping[Bonding, Way] = {}
        self.peers: dict[Nid, Peer] = {}
        """By each of their NIDs."""
        self.locals: dict[KibDev, LocalNi] = {}
        self._nis = nis
        self._conns = conns
        self._traffic = traffic
        self._report = report
        self._settled = settled
        self._numbers = itertools.count(1)
        self._txs: dict[int, KibTx] = {}
        self._deadlines: Deadlines[int] = Deadlines(self._due_of)

    def __len__(self) -> int:
        return len(self._txs)

    def __iter__(self) -> Iterator[KibTx]:
        return iter(list(self._txs.values()))

    def on_net(self, net: Net) -> list[KibTx]:
        """Return the messages that go over a network now, or that are for a NID on it and wait."""
        return [tx for tx in self._txs.values() if (tx.nid if tx.local is None else tx.local.nid).net == net]

    # --- peers ---------------------------------------------------------------------------------------------

    def known_peers(self, bonding: Bonding | None = None) -> list[Peer]:
        """Return each peer once, or only those of one bonding."""
        peers = dict.fromkeys(self.peers.values())
        return [peer for peer in peers if bonding in (None, peer.bonding)]

    def remote_peers(self) -> list[Peer]:
        """Return each peer with Multi-Rail once, without those that are interfaces of this node."""
        own = {ni.nid for ni in self.locals.values()}
        return [peer for peer in self.known_peers(Bonding.MULTI_RAIL) if not own & peer.nis.keys()]

    def peer_of(self, nid: Nid) -> Peer:
        """Return the peer with a NID on a network of this node; make it if it is unknown."""
        peer = self.peers.get(nid)
        if peer is None:
            bonding = self._nis[nid.net].bonding
            peer = self.peers[nid] = Peer(nid, bonding, {nid: PeerNi(nid)})
            self.ways[bonding].met(peer)
        return peer

    def join(self, peer: Peer, nid: Nid) -> None:
        """Add a NID to a peer; a peer that was known by it is the same node, and goes on as a part of this one."""
        other = self.peers.get(nid)
        if other is None:
            peer.nis[nid] = PeerNi(nid)
            self.peers[nid] = peer
        elif other is not peer:
            peer.absorb(other)
            for known in other.nis:
                self.peers[known] = peer
            self._enter_backlog(peer)

    def routes_on(self, net: Net) -> list[KibRoute]:
        """Return the routes over a network, of all peers."""
        return [route for peer in self.known_peers() for route in peer.routes if route.rt_nid.net == net]

    def drop_ni(self, peer: Peer, nid: Nid) -> None:
        """Remove an interface that a peer no longer has; its messages take the others."""
        del peer.nis[nid]
        self._traffic.remotes.pop(nid, None)
        if self.peers.get(nid) is peer:
            del self.peers[nid]
        for key in [key for key in peer.pairs if key[1] == nid]:
            self.drop_pair(peer, key, "the peer has no such interface any more")
        if peer.primary == nid:
            peer.primary = next(iter(peer.nis), nid)

    def drop_peer(self, peer: Peer, code: int, reason: str) -> None:
        """Remove a peer; messages to it fail. The connections of a mesh end with their network."""
        peer.configured = False
        messages = [tx for tx in self if tx.to is peer]
        for tx in sorted(messages, key=lambda tx: bool(tx.place)):  # nothing is to move up into the window
            self.fail(tx, code, reason)
        for nid in list(peer.nis):
            self.drop_ni(peer, nid)

    def drop_pair(self, peer: Peer, key: tuple[KibDev, Nid], reason: str) -> None:
        """Remove a pair of interfaces; its messages take others."""
        route = peer.pairs.pop(key)
        conn = self._conns.on_route(route)
        if conn is not None:
            self._conns.fail(conn.key, reason, self.now)

    def _forget(self, peer: Peer) -> None:
        """Forget a peer that never answered and has no more messages, with its routes."""
        for route in peer.routes:
            conn = self._conns.on_route(route)
            if conn is not None:
                self._conns.close_idle(conn)
        for nid in peer.nis:
            if self.peers.get(nid) is peer:
                del self.peers[nid]

    # --- sending -------------------------------------------------------------------------------------------

    def make(self, kind: TxKind, nid: Nid, timeout_s: float | None = None) -> KibTx:
        """Return a new message with the next number. Args: timeout_s: overrides that of the configuration."""
        if timeout_s is None:
            ni = self._nis.get(nid.net)
            timeout_s = self.config.timeout_s
            if ni is not None:
                timeout_s = self.ways[ni.bonding].timeout_s()
        return KibTx(next(self._numbers), kind, nid, timeout_s)

    def send(self, tx: KibTx) -> int:
        """Send a message; return its number."""
        self._txs[tx.msg_id] = tx
        ni = self._nis.get(tx.nid.net)
        if ni is None:
            self.fail(tx, errno.ENETUNREACH, f"this node has no network {tx.nid.net}")
        elif ni.closing:
            self.fail(tx, errno.ENETDOWN, f"network {tx.nid.net} is being removed")
        elif tx.nob > self.config.max_message:
            self.fail(tx, errno.EMSGSIZE, f"{tx.nob} bytes; {self.config.max_message} are allowed")
        else:
            tx.to = peer = self.peer_of(tx.nid)
            tx.deadline = self.now + tx.timeout_s
            self._deadlines.touch(tx.msg_id)
            way = self.ways[peer.bonding]
            if way.ready(tx, peer):
                self._enter(tx, peer)
            else:
                peer.waiting.append(tx)
                way.prepare(peer)
        return tx.msg_id

    def discovered(self, peer: Peer, failed: SendFailed | None) -> None:
        """Send the messages that waited for a discovery, or fail them with its error."""
        waiting, peer.waiting = peer.waiting, []
        for tx in waiting:
            if failed is None:
                self._enter(tx, peer)
            else:
                self.fail(tx, -failed.errno, f"peer {peer.primary} was not discovered: {failed.reason}")

    def _enter(self, tx: KibTx, peer: Peer) -> None:
        peer.backlog.append(tx)
        self._enter_backlog(peer)

    def _enter_backlog(self, peer: Peer) -> None:
        if peer.entering:
            return  # an attempt has failed at once: the loop below goes on with the next message
        peer.entering = True
        while peer.backlog and peer.admit(peer.backlog[0]):
            self.attempt(peer.backlog.popleft())
        peer.entering = False

    def attempt(self, tx: KibTx) -> None:
        """Make an attempt at a message."""
        assert tx.to is not None  # noqa: S101 - a message without a peer has failed
        self.ways[tx.to.bonding].attempt(tx, tx.to)

    def submit(self, tx: KibTx, route: KibRoute) -> None:
        """Give a message to the connection of a route, which is made if there is none."""
        conn = self._conns.on_route(route) or self._conns.open(self._nis[route.rt_nid.net], route)
        self._conns.submit(conn, tx)

    def watch(self, tx: KibTx) -> None:
        """Note that a message may be due sooner than before."""
        self._deadlines.touch(tx.msg_id)

    # --- routes --------------------------------------------------------------------------------------------

    def route_up(self, route: KibRoute) -> None:
        """Handle a route that has connected."""
        peer = self.peers.get(route.rt_nid)
        if peer is not None:
            peer.answered = True
            self.ways[peer.bonding].up(route, peer)

    def route_lost(self, route: KibRoute, left: Iterable[KibTx], reason: str, cause: LossCause) -> None:
        """Handle a route that was lost or could not be connected, with the messages on it."""
        peer = self.peers.get(route.rt_nid)
        if peer is not None:
            self.ways[peer.bonding].lost(route, peer)
        for tx in left:
            if tx.msg_id in self._txs and tx.to is not None:
                self.ways[tx.to.bonding].again(tx, route, reason, cause)

    # --- the end of a message ------------------------------------------------------------------------------

    def done(self, tx: KibTx, data: bytes) -> None:
        """Report a message as done; for a GET, `data` is the fetched data."""
        route = tx.route
        assert route is not None and tx.to is not None  # noqa: S101, PT018 - it has taken a route to a peer
        nob = len(tx.data) if tx.kind is TxKind.PUT else len(data)
        route.counters.messages += 1
        route.counters.bytes += nob
        self.ways[tx.to.bonding].done(tx)
        self._settle(tx, SendDone(tx.msg_id, tx.nid, route, nob, tx.attempts, data))

    def fail(self, tx: KibTx, code: int, reason: str) -> None:
        """Report a message as failed with an errno and take it off its connection; nothing, if it has ended."""
        if tx.msg_id in self._txs:
            in_doubt = tx.may_be_there
            self._conns.cancel(tx)
            self._settle(tx, SendFailed(tx.msg_id, tx.nid, -code, reason, in_doubt))

    def _settle(self, tx: KibTx, report: SendDone | SendFailed) -> None:
        del self._txs[tx.msg_id]
        peer = tx.to
        if peer is not None:
            self.ways[peer.bonding].leave(tx)
            peer.remove(tx)
        tx.peer = None
        if tx.then is None:
            self._report(report)
        if peer is not None:
            self._enter_backlog(peer)
        if tx.then is not None:
            tx.then(report)
        if peer is not None and not peer.kept:
            self._forget(peer)
        self._settled()

    def give_up(self, reason: str) -> list[SendFailed]:
        """Return the report of each message of a node that does not work any more."""
        txs, self._txs = self._txs, {}
        return [
            SendFailed(tx.msg_id, tx.nid, -errno.EIO, reason, tx.may_be_there)
            for tx in txs.values()
            if tx.then is None
        ]

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
        """Handle the messages that are due, then close the connections on which they are stuck."""
        stuck: dict[KibPeer, Stuck] = {}
        due = self._deadlines.take_due(now)
        for msg_id in due:
            tx = self._txs.get(msg_id)
            found = self.ways[tx.to.bonding].due(tx, now) if tx is not None and tx.to is not None else None
            if found is not None:
                stuck.setdefault(found[0], found)
        for conn, reason, cause in stuck.values():
            self._conns.fail(conn.key, reason, now, cause)
        for msg_id in due:
            self._deadlines.touch(msg_id)
