"""The messages of a node: each takes one route after the other until it is done, refused or overdue. Sans-IO.

A message gets a route in round robin when it is sent. It waits on that route's connection for a credit; when
the connection is lost it takes the next route. With no usable route it is parked until one comes back.

Every message is reported exactly once, SendDone or SendFailed. A message that the peer may have, because
it was handed to a transport that died without an answer, is not failed at its deadline: it is sent again, and
the peer, which remembers what it has delivered, settles it. Only when that lasts beyond `doubt_after` its timeout, or
when the peer has restarted, is it reported as failed in doubt.
"""

from __future__ import annotations

import errno
import heapq
from collections import deque
from collections.abc import Callable, Iterable, Mapping

from lnet.bonding import next_route
from lnet.config import LndConfig
from lnet.conns import ConnTable
from lnet.nid import Net, Nid
from lnet.objects import KibNet, KibRoute, KibRoutes, LnetNi, make_mesh
from lnet.peer import KibPeer
from lnet.recovery import Connd
from lnet.targets import TargetTable
from lnet.tx import KibTx, PeerQueue, Report, SendDone, SendFailed, TxKind


class TxTable:
    """All messages without a report, by peer and by deadline."""

    def __init__(
        self,
        config: LndConfig,
        nis: Mapping[Net, LnetNi],
        targets: TargetTable,
        conns: ConnTable,
        connd: Connd,
        *,
        report: Callable[[Report], None],
        settled: Callable[[KibTx], None],
    ) -> None:
        """Begin with none.

        Args:  nis, targets, conns, connd: of the node; they belong to the caller. settled: gets each message after
               its report.
        """
        self.now = 0.0
        """The time of the input that is being worked on; its caller sets it."""
        self._config = config
        self._nis = nis
        self._targets = targets
        self._conns = conns
        self._connd = connd
        self._report = report
        self._settled = settled
        self._queues: dict[Nid, PeerQueue] = {}
        self._txs: dict[int, KibTx] = {}
        self._last_msg_id = 0
        self._deadlines: list[tuple[float, int]] = []

    def __len__(self) -> int:
        return len(self._txs)

    def on_net(self, kib_net: KibNet) -> list[KibTx]:
        """Return the messages of a network."""
        return [tx for tx in self._txs.values() if tx.net is kib_net]

    def queue_to(self, nid: Nid) -> PeerQueue | None:
        """Return the queue of a NID that was sent to, or None."""
        return self._queues.get(nid)

    # --- sending -------------------------------------------------------------------------------------------

    def put(
        self,
        nid: Nid,
        data: bytes,
        now: float,
        *,
        match_bits: int = 0,
        hdr_data: int = 0,
        ptl_index: int = 0,
        timeout_s: float | None = None,
    ) -> int:
        """Send `data` to `nid`; return the number under which it is reported, done or failed.

        Args:    timeout_s: in place of that of the configuration.
        """
        tx = self._new_tx(TxKind.PUT, nid, now, timeout_s)
        tx.data, tx.match_bits, tx.hdr_data, tx.ptl_index = data, match_bits, hdr_data, ptl_index
        return self._send(tx, len(data))

    def get(
        self,
        nid: Nid,
        length: int,
        now: float,
        *,
        match_bits: int = 0,
        ptl_index: int = 0,
        timeout_s: float | None = None,
    ) -> int:
        """Fetch up to `length` bytes from `nid`; return the number under which it is reported."""
        tx = self._new_tx(TxKind.GET, nid, now, timeout_s)
        tx.length, tx.match_bits, tx.ptl_index = length, match_bits, ptl_index
        return self._send(tx, length)

    def _new_tx(self, kind: TxKind, nid: Nid, now: float, timeout_s: float | None) -> KibTx:
        self.now = now
        timeout_s = self._config.timeout_s if timeout_s is None else timeout_s
        self._last_msg_id += 1
        ni = self._nis.get(nid.net)
        # without a network of ours the message never leaves _send; the placeholder names what was asked for
        kib_net = ni.ni_data if ni is not None else KibNet(nid.net, nid, [])
        tx = KibTx(self._last_msg_id, kind, kib_net, nid, now + timeout_s, timeout_s)
        self._txs[tx.msg_id] = tx
        return tx

    def _send(self, tx: KibTx, length: int) -> int:
        if tx.nid.net not in self._nis:
            self.fail(tx, errno.ENETUNREACH, f"this node has no network {tx.nid.net}")
        elif tx.net.closing:
            self.fail(tx, errno.ENETDOWN, f"network {tx.net.net} is being removed")
        elif length > self._config.max_message:
            self.fail(tx, errno.EMSGSIZE, f"{length} bytes; {self._config.max_message} are allowed")
        else:
            heapq.heappush(self._deadlines, (tx.deadline, tx.msg_id))
            queue = self._queue_of(tx.net, tx.nid)
            if queue.backlog or not queue.admit(tx):
                queue.backlog.append(tx)
            else:
                self.route(tx, queue)
        return tx.msg_id

    def _queue_of(self, kib_net: KibNet, nid: Nid) -> PeerQueue:
        routes = kib_net.ibn_routes.get(nid)
        if routes is None:
            routes = kib_net.ibn_routes[nid] = KibRoutes(nid, self.mesh(kib_net, nid))
        queue = self._queues.setdefault(nid, PeerQueue(routes))
        queue.routes = routes  # the numbers go on where a network was removed and added again
        return queue

    def route(self, tx: KibTx, queue: PeerQueue) -> None:
        """Give a message the next route (kiblnd_send)."""
        if tx.doubt_stamp and self._conns.stamp_of(tx.nid) != tx.doubt_stamp:
            self.fail(tx, errno.ECONNRESET, "the peer restarted and may have had the message", in_doubt=True)
            return
        route, disconnected = next_route(queue.routes, weighted=self._config.weighted)
        for met in disconnected:
            self._connd.add(met, self.now)
        if route is None:
            queue.parked.append(tx)
            return
        peer = self._conns.on_route(route) or self._conns.open(tx.net, route)
        peer.submit(tx)
        peer.pump()

    def unpark(self, queue: PeerQueue) -> None:
        """Let messages that waited for a route try again."""
        parked, queue.parked = queue.parked, deque()
        for tx in parked:
            self.route(tx, queue)

    def mesh(self, kib_net: KibNet, nid: Nid) -> list[KibRoute]:
        """Return the routes to a NID: each device to each address of its target."""
        target = self._targets.get(nid)
        return make_mesh(nid, target.tg_addr if target is not None else (), kib_net.ibn_devs)

    def retry(self, tx: KibTx, queue: PeerQueue) -> None:
        """Give a message whose route was lost the next one."""
        if tx.net.closing and not tx.doubt_stamp:
            self.fail(tx, errno.ENETDOWN, f"network {tx.net.net} was removed")
        else:
            self.route(tx, queue)

    # --- the end of a message ------------------------------------------------------------------------------

    def done(self, tx: KibTx, data: bytes) -> None:
        """The peer has the PUT, or `data` are what the GET asked for."""
        route = tx.route
        assert route is not None  # noqa: S101 - nothing is done without having taken a route
        nob = len(tx.data) if tx.kind is TxKind.PUT else len(data)
        route.counters.messages += 1
        route.counters.bytes += nob
        self._report(SendDone(tx.msg_id, tx.nid, route, nob, tx.attempts, data))
        self._settle(tx)

    def refused(self, tx: KibTx, status: int) -> None:
        """The peer refused the message."""
        self.fail(tx, -status, "refused by the peer")

    def fail(self, tx: KibTx, code: int, reason: str, *, in_doubt: bool = False) -> None:
        """Report a message as failed with an errno, and take it off its connection."""
        if tx.peer is not None:
            tx.peer.cancel(tx)
        self._report(SendFailed(tx.msg_id, tx.nid, -code, reason, in_doubt))
        self._settle(tx)

    def _settle(self, tx: KibTx) -> None:
        del self._txs[tx.msg_id]
        nowhere = tx.peer is None
        tx.peer = None
        queue = self._queues.get(tx.nid)
        if queue is not None:
            queue.outstanding.pop(tx.object_cookie, None)
            for waiting in (queue.parked, queue.backlog):
                if nowhere and tx in waiting:
                    waiting.remove(tx)
            while queue.backlog and queue.admit(queue.backlog[0]):
                self.route(queue.backlog.popleft(), queue)
            self._forget_unreachable(tx.nid, queue)
        self._settled(tx)

    def _forget_unreachable(self, nid: Nid, queue: PeerQueue) -> None:
        """Do not keep trying to reach a NID that never answered and that nobody sends to any more."""
        if queue.connected or queue.outstanding or queue.backlog:
            return
        for route in queue.routes:
            self._connd.remove(route)
            peer = self._conns.on_route(route)
            if peer is not None:
                self._conns.close_idle(peer)
            route.forget(self.now)

    @staticmethod
    def may_be_there(tx: KibTx) -> bool:
        """Return whether the peer may have a message."""
        return bool(tx.doubt_stamp) or (tx.peer is not None and tx.peer.in_doubt(tx))

    # --- time ----------------------------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        """Return when the next message is overdue, or None."""
        while self._deadlines and self._deadlines[0][1] not in self._txs:
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def expire_overdue(self, now: float) -> None:
        """Fail what is overdue, then close the connections that did not move it, as kiblnd_check_conns does.

        A connection that is only slow stays: closed, it would lose what is half done of all the others.
        """
        stalled: dict[KibPeer, None] = {}
        while self._deadlines and self._deadlines[0][0] <= now:
            _, msg_id = heapq.heappop(self._deadlines)
            tx = self._txs.get(msg_id)
            if tx is None:
                continue
            if tx.peer is not None and tx.peer.stalled(now):
                stalled[tx.peer] = None
            self._expire(tx, now)
        for peer in stalled:
            self._conns.fail(peer.key, "no answer within the timeout of a message", now)

    def _expire(self, tx: KibTx, now: float) -> None:
        if self.may_be_there(tx):
            if tx.overdue:
                self.fail(tx, errno.ETIMEDOUT, "no answer; the peer may have the message", in_doubt=True)
                return
            tx.overdue = True
            heapq.heappush(self._deadlines, (now + self._config.doubt_after(tx.timeout_s), tx.msg_id))
            return
        error = next((route.last_error for route in self._routes_of(tx) if route.last_error), "")
        self.fail(tx, errno.EHOSTUNREACH, f"no route within {tx.timeout_s:g} s{error and f': {error}'}")

    def _routes_of(self, tx: KibTx) -> Iterable[KibRoute]:
        queue = self._queues.get(tx.nid)
        return queue.routes if queue is not None else ()
