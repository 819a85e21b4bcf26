"""The LND: one NID over several devices. Events and `now` in; actions, reports and a deadline out.

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
import logging
from collections import deque
from collections.abc import Callable, Iterable
from ipaddress import IPv4Address

from lnet.actions import Action
from lnet.bonding import next_route
from lnet.config import LndConfig
from lnet.conns import ConnTable
from lnet.duplicate_filter import DeliveredIds
from lnet.errors import CommandError
from lnet.lnet_hdr import LnetHdr
from lnet.nid import Net, Nid
from lnet.objects import (
    DevEvent,
    DevState,
    KibDev,
    KibNet,
    KibRoute,
    KibRoutes,
    LnetNi,
    RouteState,
    make_mesh,
)
from lnet.peer import KibPeer
from lnet.recovery import Connd
from lnet.targets import KibTarget, TargetTable
from lnet.tx import KibTx, NetRemoved, PeerQueue, Received, Report, SendDone, SendFailed, TxKind

log = logging.getLogger("lnet.lnd")

GetHandler = Callable[[Nid, LnetHdr], bytes | int]
"""Returns the data that a GET of a peer asks for, or a negative errno."""


def nothing_to_get(nid: Nid, hdr: LnetHdr) -> int:
    """Refuse every GET."""
    return -errno.ENOENT


class Lnd:
    """One node. After any call take `actions` and `reports`, and ask `deadline` when `on_timer` is due."""

    def __init__(
        self, stamp: int, config: LndConfig | None = None, get_handler: GetHandler = nothing_to_get
    ) -> None:
        """Make a node without networks; `stamp` is its incarnation, above 0 and rising with every restart."""
        self.config = config or LndConfig()
        self.stamp = stamp
        self.nis: dict[Net, LnetNi] = {}
        self.targets = TargetTable()
        self.conns = ConnTable(stamp, self.config, self.nis, self, self._emit)
        self.connd = Connd(self.config.reconnect_min_s, self.config.reconnect_max_s)
        self.duplicates = 0
        """Messages that came again and were not delivered again."""
        self._get_handler = get_handler
        self._actions: deque[Action] = deque()
        self._reports: list[Report] = []
        self._queues: dict[Nid, PeerQueue] = {}
        self._txs: dict[int, KibTx] = {}
        self._last_msg_id = 0
        self._deadlines: list[tuple[float, int]] = []
        self._delivered: dict[tuple[Nid, Nid], DeliveredIds] = {}
        self._now = 0.0

    def _emit(self, action: Action) -> None:
        self._actions.append(action)

    @property
    def actions(self) -> deque[Action]:
        """What is to be done, oldest first; the caller takes each out before doing it."""
        return self._actions

    def reports(self) -> list[Report]:
        """Return what happened since the last call."""
        reports, self._reports = self._reports, []
        return reports

    @property
    def outstanding(self) -> int:
        """Messages without a report."""
        return len(self._txs)

    # --- configuration -------------------------------------------------------------------------------------

    def add_net(self, net: Net, devs: list[KibDev]) -> LnetNi:
        """Add a network over `devs`; its NID is the address of the first.

        Raises:  CommandError: the network exists already (EEXIST).
        """
        if net in self.nis:
            raise CommandError(errno.EEXIST, f"network {net} exists already")
        nid = Nid(net, devs[0].addr)
        ni = self.nis[net] = LnetNi(nid, KibNet(net, nid, devs))
        return ni

    def add_device(self, net: Net, dev: KibDev, now: float) -> None:
        """Add a device to a network; the routes are made anew."""
        self._now = now
        kib_net = self.nis[net].ni_data
        kib_net.ibn_devs.append(dev)
        self._remesh(kib_net)

    def remove_device(self, net: Net, name: str, now: float) -> None:
        """Take a device out of a network; messages on it take the others. The last one takes the network along."""
        self._now = now
        kib_net = self.nis[net].ni_data
        dev = kib_net.device(name)
        if dev is None:
            raise CommandError(errno.ENODEV, f"{net} has no interface {name}")
        if kib_net.ibn_nifaces == 1:
            self.remove_net(net, now)
            return
        kib_net.ibn_devs.remove(dev)
        dev.state = DevState.PORT_DOWN
        self.connd.remove_device(dev)
        self._drop_device(dev, "device removed", now)
        self._remesh(kib_net)

    def remove_net(self, net: Net, now: float) -> None:
        """Remove a network: what was not sent fails now, what is in doubt is settled, then NetRemoved follows."""
        self._now = now
        kib_net = self.nis[net].ni_data
        kib_net.closing = True
        for tx in [tx for tx in self._txs.values() if tx.net is kib_net]:
            if not self._may_be_there(tx):
                self._fail(tx, errno.ENETDOWN, f"network {net} was removed")
        self._finish_removals(now)

    def _finish_removals(self, now: float) -> None:
        for ni in [ni for ni in self.nis.values() if ni.ni_data.closing]:
            kib_net = ni.ni_data
            if any(tx.net is kib_net for tx in self._txs.values()):
                continue
            for peer in self.conns:
                if peer.net is kib_net:
                    self.conns.fail(peer.key, "network removed", now)
            for routes in kib_net.ibn_routes.values():
                for route in routes:
                    self.connd.remove(route)
                routes.routes = []
            del self.nis[kib_net.net]
            self._reports.append(NetRemoved(ni.ni_nid))

    def set_target(self, target: KibTarget, now: float) -> None:
        """Add or replace a target; routes to its NID that exist are made anew."""
        self._now = now
        self.targets.put(target)
        self._remesh_nid(target.tg_nid)

    def remove_target(self, nid: Nid, now: float) -> bool:
        """Remove a target; return whether there was one."""
        self._now = now
        removed = self.targets.remove(nid) is not None
        self._remesh_nid(nid)
        return removed

    def _mesh(self, kib_net: KibNet, nid: Nid) -> list[KibRoute]:
        target = self.targets.get(nid)
        return make_mesh(nid, target.tg_addr if target is not None else (), kib_net.ibn_devs)

    def _remesh(self, kib_net: KibNet) -> None:
        for nid in list(kib_net.ibn_routes):
            self._remesh_nid(nid)

    def _remesh_nid(self, nid: Nid) -> None:
        queue = self._queues.get(nid)
        if queue is None or nid.net not in self.nis:
            return
        gone = queue.routes.replace(self._mesh(self.nis[nid.net].ni_data, nid))
        for route in gone:
            peer = self.conns.on_route(route)
            if peer is not None:
                self.conns.fail(peer.key, "route removed", self._now)
            self.connd.remove(route)
        self._unpark(queue)

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
        self._now = now
        timeout_s = self.config.timeout_s if timeout_s is None else timeout_s
        self._last_msg_id += 1
        ni = self.nis.get(nid.net)
        # without a network of ours the message never leaves _send; the placeholder names what was asked for
        kib_net = ni.ni_data if ni is not None else KibNet(nid.net, nid, [])
        tx = KibTx(self._last_msg_id, kind, kib_net, nid, now + timeout_s, timeout_s)
        self._txs[tx.msg_id] = tx
        return tx

    def _send(self, tx: KibTx, length: int) -> int:
        if tx.nid.net not in self.nis:
            self._fail(tx, errno.ENETUNREACH, f"this node has no network {tx.nid.net}")
        elif tx.net.closing:
            self._fail(tx, errno.ENETDOWN, f"network {tx.net.net} is being removed")
        elif length > self.config.max_message:
            self._fail(tx, errno.EMSGSIZE, f"{length} bytes; {self.config.max_message} are allowed")
        else:
            heapq.heappush(self._deadlines, (tx.deadline, tx.msg_id))
            queue = self._queue_of(tx.net, tx.nid)
            if queue.backlog or not queue.admit(tx):
                queue.backlog.append(tx)
            else:
                self._route(tx, queue)
        return tx.msg_id

    def _queue_of(self, kib_net: KibNet, nid: Nid) -> PeerQueue:
        routes = kib_net.ibn_routes.get(nid)
        if routes is None:
            routes = kib_net.ibn_routes[nid] = KibRoutes(nid, self._mesh(kib_net, nid))
        queue = self._queues.setdefault(nid, PeerQueue(routes))
        queue.routes = routes  # the numbers go on where a network was removed and added again
        return queue

    def _route(self, tx: KibTx, queue: PeerQueue) -> None:
        """Give a message the next route (kiblnd_send)."""
        if tx.doubt_stamp and self.conns.stamp_of(tx.nid) != tx.doubt_stamp:
            self._fail(tx, errno.ECONNRESET, "the peer restarted and may have had the message", in_doubt=True)
            return
        route, disconnected = next_route(queue.routes, weighted=self.config.weighted)
        for met in disconnected:
            self.connd.add(met, self._now)
        if route is None:
            queue.parked.append(tx)
            return
        peer = self.conns.on_route(route) or self.conns.open(tx.net, route)
        peer.submit(tx)
        peer.pump()

    def _unpark(self, queue: PeerQueue) -> None:
        parked, queue.parked = queue.parked, deque()
        for tx in parked:
            self._route(tx, queue)

    # --- the end of a message ------------------------------------------------------------------------------

    def tx_done(self, tx: KibTx, data: bytes) -> None:
        """The peer has the PUT, or `data` are what the GET asked for."""
        route = tx.route
        assert route is not None  # noqa: S101 - nothing is done without having taken a route
        nob = len(tx.data) if tx.kind is TxKind.PUT else len(data)
        route.counters.messages += 1
        route.counters.bytes += nob
        self._reports.append(SendDone(tx.msg_id, tx.nid, route, nob, tx.attempts, data))
        self._settle(tx)

    def tx_refused(self, tx: KibTx, status: int) -> None:
        """The peer refused the message."""
        self._fail(tx, -status, "refused by the peer")

    def _fail(self, tx: KibTx, code: int, reason: str, *, in_doubt: bool = False) -> None:
        if tx.peer is not None:
            tx.peer.cancel(tx)
        self._reports.append(SendFailed(tx.msg_id, tx.nid, -code, reason, in_doubt))
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
                self._route(queue.backlog.popleft(), queue)
            self._forget_unreachable(tx.nid, queue)
        if tx.net.closing:
            self._finish_removals(self._now)

    def _forget_unreachable(self, nid: Nid, queue: PeerQueue) -> None:
        """Do not keep trying to reach a NID that never answered and that nobody sends to any more."""
        if queue.connected or queue.outstanding or queue.backlog:
            return
        for route in queue.routes:
            self.connd.remove(route)
            peer = self.conns.on_route(route)
            if peer is not None:
                self.conns.close_idle(peer)
            route.forget(self._now)

    def _may_be_there(self, tx: KibTx) -> bool:
        return bool(tx.doubt_stamp) or (tx.peer is not None and tx.peer.in_doubt(tx))

    # --- what peers send -----------------------------------------------------------------------------------

    def _memory(self, peer: KibPeer) -> DeliveredIds:
        return self._delivered.setdefault((peer.net.nid, peer.nid), DeliveredIds())

    def has(self, peer: KibPeer, hdr: LnetHdr) -> bool:
        """Return whether a message has been delivered already."""
        known = self._memory(peer).has(hdr.interface_cookie, hdr.object_cookie)
        self.duplicates += known
        return known

    def deliver(self, peer: KibPeer, hdr: LnetHdr, data: bytes) -> None:
        """Deliver a PUT, unless it has been."""
        if not self._memory(peer).add(hdr.interface_cookie, hdr.object_cookie):
            self.duplicates += 1
            return
        self._reports.append(Received(peer.nid, peer.net.nid, peer.dev, hdr.match_bits, hdr.hdr_data, data))

    def read(self, peer: KibPeer, hdr: LnetHdr) -> bytes | int:
        """Answer a GET."""
        return self._get_handler(peer.nid, hdr)

    def peer_announces(self, nid: Nid, addresses: tuple[IPv4Address, ...], now: float) -> None:
        """Use the addresses a peer announced, unless a person said otherwise."""
        known = self.targets.get(nid)
        if known is None or (known.learned and known.tg_addr != addresses):
            self.set_target(KibTarget(nid, addresses, learned=True), now)

    # --- routes and devices --------------------------------------------------------------------------------

    def route_up(self, route: KibRoute, now: float) -> None:
        """A route is connected: messages that waited for one may go."""
        self._now = now
        self.connd.remove(route)
        queue = self._queues.get(route.rt_nid)
        if queue is not None:
            queue.connected = True
            self._unpark(queue)

    def route_lost(self, route: KibRoute, left: list[KibTx], reason: str, now: float) -> None:
        """A route is disconnected: its messages take the next one, the connection daemon takes the route."""
        self._now = now
        log.info("[%s] route to %s lost: %s", route, route.rt_nid, reason)
        queue = self._queues.get(route.rt_nid)
        if queue is None:
            return
        if route.rt_dev.state.usable and route in queue.routes.routes:
            self.connd.add(route, now)
        route.counters.retries += len(left)
        for tx in left:
            self._retry(tx, queue)

    def _retry(self, tx: KibTx, queue: PeerQueue) -> None:
        if tx.net.closing and not tx.doubt_stamp:
            self._fail(tx, errno.ENETDOWN, f"network {tx.net.net} was removed")
        else:
            self._route(tx, queue)

    def on_device(self, name: str, event: DevEvent, speed_gbps: float, now: float) -> None:
        """Take an event of an HFI port, for every network that uses it."""
        self._now = now
        for ni in list(self.nis.values()):
            dev = ni.ni_data.device(name)
            if dev is None:
                continue
            before, after = dev.state, dev.apply(event, speed_gbps, self.config.expected_gbps)
            if before is not after:
                log.info("[%s %s] %s -> %s", ni.ni_nid, name, before, after)
            if event is not DevEvent.PORT_ACTIVE:
                self._drop_device(dev, event.value, now)
            if after.usable:
                self._recover_device(ni.ni_data, dev, now)

    def _drop_device(self, dev: KibDev, reason: str, now: float) -> None:
        if not dev.state.usable:
            self.connd.remove_device(dev)
        for peer in self.conns:
            if peer.dev is dev:
                self.conns.fail(peer.key, f"{dev.name}: {reason}", now)

    def _recover_device(self, kib_net: KibNet, dev: KibDev, now: float) -> None:
        for routes in kib_net.ibn_routes.values():
            for route in routes:
                if route.rt_dev is dev and route.state is RouteState.DISCONNECTED:
                    self.connd.remove(route)
                    self.connd.add(route, now, at_once=True)
            self._unpark(self._queues[routes.nid])

    # --- time ----------------------------------------------------------------------------------------------

    def deadline(self) -> float | None:
        """Return when `on_timer` is due, or None."""
        while self._deadlines and self._deadlines[0][1] not in self._txs:
            heapq.heappop(self._deadlines)
        times = [self._deadlines[0][0]] if self._deadlines else []
        connd = self.connd.deadline()
        if connd is not None:
            times.append(connd)
        idle = self.config.idle_timeout_s
        for peer in self.conns:
            if peer.up:
                times.append(peer.deadline)
                if idle is not None and peer.route is not None and not peer.busy:
                    times.append(peer.last_used + idle)
        return min(times, default=None)

    def on_timer(self, now: float) -> None:
        """Fail what is overdue, reconnect what the connection daemon has on its list, close what is idle."""
        self._now = now
        self._expire_overdue(now)
        for route in self.connd.due(now):
            ni = self.nis.get(route.rt_nid.net)
            if ni is None or route.state is not RouteState.DISCONNECTED or not route.rt_dev.state.usable:
                self.connd.remove(route)
            else:
                self.conns.open(ni.ni_data, route)
        idle = self.config.idle_timeout_s
        for peer in self.conns:
            if not peer.up:
                continue
            if peer.route is None:
                if peer.deadline <= now:
                    self.conns.fail(peer.key, "silent for too long", now)
            elif idle is not None and not peer.busy and peer.last_used + idle <= now:
                self.conns.close_idle(peer)
            elif peer.deadline <= now:
                peer.keep_alive(now)

    def _expire_overdue(self, now: float) -> None:
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
            self.conns.fail(peer.key, "no answer within the timeout of a message", now)

    def _expire(self, tx: KibTx, now: float) -> None:
        if self._may_be_there(tx):
            if tx.overdue:
                self._fail(tx, errno.ETIMEDOUT, "no answer; the peer may have the message", in_doubt=True)
                return
            tx.overdue = True
            heapq.heappush(self._deadlines, (now + self.config.doubt_after(tx.timeout_s), tx.msg_id))
            return
        error = next((route.last_error for route in self._routes_of(tx) if route.last_error), "")
        self._fail(tx, errno.EHOSTUNREACH, f"no route within {tx.timeout_s:g} s{error and f': {error}'}")

    def _routes_of(self, tx: KibTx) -> Iterable[KibRoute]:
        queue = self._queues.get(tx.nid)
        return queue.routes if queue is not None else ()
