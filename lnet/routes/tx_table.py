"""The messages of a node: each tries one route after another until it is done, refused or overdue. Sans-IO.

A message is assigned a route in round-robin order and waits on the connection of that route for a credit. If the
connection is lost, the message takes the next route. If no route is usable, it is parked until one comes back.

Every message is reported exactly once, as SendDone or SendFailed. If a message was handed to a connection that died
without an answer, the peer may have received it. Such a message does not fail at its deadline; it is sent again, and
the peer, which remembers the messages it has delivered, settles it. It is reported as failed in doubt only if this
takes longer than `LndConfig.doubt_after`, or if the peer has restarted.
"""

from __future__ import annotations

import errno
import heapq
from collections import deque
from collections.abc import Callable, Iterable, Mapping

from lnet.base.nid import Net, Nid
from lnet.o2iblnd.conns import ConnTable
from lnet.o2iblnd.peer import KibPeer
from lnet.objects.objects import KibNet, KibRoute, KibRoutes, LnetNi, make_mesh
from lnet.objects.stats import Traffic
from lnet.objects.tx import KibTx, PeerQueue, Report, SendDone, SendFailed, TxKind
from lnet.routes.bonding import next_route
from lnet.routes.recovery import Connd
from lnet.settings.config import LndConfig
from lnet.settings.targets import TargetTable


class TxTable:
    """All messages not yet reported, by peer and by deadline."""

    def __init__(
        self,
        config: LndConfig,
        nis: Mapping[Net, LnetNi],
        targets: TargetTable,
        conns: ConnTable,
        connd: Connd,
        *,
        new_id: Callable[[], int],
        report: Callable[[Report], None],
        settled: Callable[[KibTx], None],
        traffic: Traffic,
    ) -> None:
        """Make an empty table.

        Args:  nis, targets, conns, connd: those of the node; the caller owns them. new_id: numbers the messages.
               settled: called with each message after its report.
        """
        self.now = 0.0
        """Time of the input being handled, in seconds; set by the caller."""
        self._config = config
        self._nis = nis
        self._targets = targets
        self._conns = conns
        self._connd = connd
        self._report = report
        self._settled = settled
        self._traffic = traffic
        self._queues: dict[Nid, PeerQueue] = {}
        self._txs: dict[int, KibTx] = {}
        self._new_id = new_id
        self._deadlines: list[tuple[float, int]] = []

    def __len__(self) -> int:
        return len(self._txs)

    def on_net(self, kib_net: KibNet) -> list[KibTx]:
        """Return the messages of a network."""
        return [tx for tx in self._txs.values() if tx.net is kib_net]

    def queue_to(self, nid: Nid) -> PeerQueue | None:
        """Return the queue of messages to a NID; None if nothing was ever sent to it."""
        return self._queues.get(nid)

    def queues(self) -> list[PeerQueue]:
        """Return the queues of messages, one for each NID to which messages were sent."""
        return list(self._queues.values())

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
        """Send `data` to `nid`; return the message number used in its report.

        Args:    timeout_s: overrides the timeout of the configuration.
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
        """Fetch up to `length` bytes from `nid`; return the message number used in its report."""
        tx = self._new_tx(TxKind.GET, nid, now, timeout_s)
        tx.length, tx.match_bits, tx.ptl_index = length, match_bits, ptl_index
        return self._send(tx, length)

    def _new_tx(self, kind: TxKind, nid: Nid, now: float, timeout_s: float | None) -> KibTx:
        self.now = now
        timeout_s = self._config.timeout_s if timeout_s is None else timeout_s
        ni = self._nis.get(nid.net)
        # without a local network the message fails in _send; the placeholder only holds the requested names
        kib_net = ni.ni_data if ni is not None else KibNet(nid.net, nid, [])
        tx = KibTx(self._new_id(), kind, kib_net, nid, now + timeout_s, timeout_s)
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
        queue.routes = routes  # message numbers continue even if the network was removed and added again
        return queue

    def route(self, tx: KibTx, queue: PeerQueue) -> None:
        """Assign a message to the next route (kiblnd_send)."""
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
        self._conns.submit(peer, tx)

    def unpark(self, queue: PeerQueue) -> None:
        """Retry the messages that waited for a route."""
        parked, queue.parked = queue.parked, deque()
        for tx in parked:
            self.route(tx, queue)

    def mesh(self, kib_net: KibNet, nid: Nid) -> list[KibRoute]:
        """Return the routes to a NID: each device to each address of its target."""
        target = self._targets.get(nid)
        return make_mesh(nid, target.tg_addr if target is not None else (), kib_net.ibn_devs)

    def retry(self, tx: KibTx, queue: PeerQueue) -> None:
        """Assign a message whose route was lost to the next one."""
        if tx.net.closing and not tx.doubt_stamp:
            self.fail(tx, errno.ENETDOWN, f"network {tx.net.net} was removed")
        else:
            self.route(tx, queue)

    # --- the end of a message ------------------------------------------------------------------------------

    def done(self, tx: KibTx, data: bytes) -> None:
        """Report a message as done; for a GET, `data` is the fetched data."""
        route = tx.route
        assert route is not None  # noqa: S101 - a message that is done has taken a route
        nob = len(tx.data) if tx.kind is TxKind.PUT else len(data)
        route.counters.messages += 1
        route.counters.bytes += nob
        self._report(SendDone(tx.msg_id, tx.nid, route, nob, tx.attempts, data))
        self._settle(tx)

    def refused(self, tx: KibTx, status: int) -> None:
        """Report a message that the peer refused with a negative errno as failed."""
        self.fail(tx, -status, "refused by the peer")

    def fail(self, tx: KibTx, code: int, reason: str, *, in_doubt: bool = False) -> None:
        """Report a message as failed with an errno and take it off its connection."""
        self._conns.cancel(tx)
        self._report(SendFailed(tx.msg_id, tx.nid, -code, reason, in_doubt))
        self._settle(tx)

    def _settle(self, tx: KibTx) -> None:
        del self._txs[tx.msg_id]
        nowhere = tx.peer is None
        tx.peer = None
        queue = self._queues.get(tx.nid)
        if queue is not None:
            queue.in_flight.pop(tx.object_cookie, None)
            for waiting in (queue.parked, queue.backlog):
                if nowhere and tx in waiting:
                    waiting.remove(tx)
            while queue.backlog and queue.admit(queue.backlog[0]):
                self.route(queue.backlog.popleft(), queue)
            self._forget_unreachable(queue)
        self._settled(tx)

    def _forget_unreachable(self, queue: PeerQueue) -> None:
        """Forget a NID that never answered and has no more messages: its routes, and the attempts to connect them."""
        if queue.connected or queue.in_flight or queue.backlog:
            return
        for route in queue.routes:
            self._connd.remove(route)
            peer = self._conns.on_route(route)
            if peer is not None:
                self._conns.close_idle(peer)
        nid = queue.routes.nid
        self._queues.pop(nid, None)
        self._traffic.forget(nid)
        ni = self._nis.get(nid.net)
        if ni is not None:
            ni.ni_data.ibn_routes.pop(nid, None)

    @staticmethod
    def may_be_there(tx: KibTx) -> bool:
        """Return whether the peer may have received a message."""
        return bool(tx.doubt_stamp) or (tx.peer is not None and tx.peer.in_doubt(tx))

    # --- time ----------------------------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        """Return when the next message is overdue, or None."""
        while self._deadlines and self._deadlines[0][1] not in self._txs:
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def expire_overdue(self, now: float) -> None:
        """Fail overdue messages, then close the connections on which they are stuck, as kiblnd_check_conns does.

        A connection that is merely slow stays open: closing it would discard the progress of all its other messages.
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
        self._traffic.counters.response_timeout_count += 1
        self.fail(tx, errno.EHOSTUNREACH, f"no route within {tx.timeout_s:g} s{error and f': {error}'}")

    def _routes_of(self, tx: KibTx) -> Iterable[KibRoute]:
        queue = self._queues.get(tx.nid)
        return queue.routes if queue is not None else ()
