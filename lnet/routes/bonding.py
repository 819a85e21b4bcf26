"""Channel bonding: messages take the routes to a NID in turn, until one of them brings the message there. Sans-IO.

A message waits on the connection of its route for a credit. If the connection is lost, it takes the next route; if no
route is usable, it is parked until one comes back. A message that the peer may have received does not fail at its
deadline: it is sent again, and the peer, which remembers what it has delivered, settles it.

Source: seed 004, "Run time Behavior" and "Route Recovery" (kiblnd_next_route_locked, kib_connd_recovery, kiblnd_connd).
"""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from hfi_sim.base.deadlines import Deadlines
from lnet.base.nid import Net, Nid
from lnet.o2iblnd.conns import ConnTable
from lnet.o2iblnd.peer import LossCause
from lnet.objects.objects import KibDev, KibNet, KibRoute, KibRoutes, RouteState, make_mesh
from lnet.objects.peers import KibTx, Peer
from lnet.objects.stats import Traffic
from lnet.routes.messages import MessageTable, Stuck, Way
from lnet.settings.config import LndConfig
from lnet.settings.networks import Bonding
from lnet.settings.targets import KibTarget


@dataclass(slots=True)
class _Entry:
    wait_s: float
    """The last wait."""
    due: float | None
    """None while an attempt is in progress."""


class Connd:
    """The connection daemon: disconnected routes whose device is up. The wait before each further attempt grows."""

    def __init__(self, min_wait_s: float, max_wait_s: float) -> None:
        self._min_wait_s = min_wait_s
        self._max_wait_s = max_wait_s
        self._list: dict[KibRoute, _Entry] = {}
        self._deadlines: Deadlines[KibRoute] = Deadlines(self._due_of)

    def _due_of(self, route: KibRoute) -> float | None:
        entry = self._list.get(route)
        return entry.due if entry is not None else None

    def add(self, route: KibRoute, now: float, *, at_once: bool = False) -> None:
        """Add a route, or schedule its next attempt after one that failed. A route that already waits is unchanged."""
        entry = self._list.get(route)
        if entry is None:
            self._list[route] = _Entry(self._min_wait_s, now if at_once else now + self._min_wait_s)
        elif entry.due is None:
            entry.wait_s = min(2 * entry.wait_s, self._max_wait_s)
            entry.due = now + entry.wait_s
        self._deadlines.touch(route)

    def remove(self, route: KibRoute) -> None:
        """Remove a route that is connected or whose device is down; its next failure starts from the first wait."""
        self._list.pop(route, None)

    def remove_device(self, dev: KibDev) -> None:
        """Remove all routes of a device."""
        for route in [route for route in self._list if route.rt_dev is dev]:
            del self._list[route]

    def due(self, now: float) -> list[KibRoute]:
        """Return the routes to reconnect now; call `remove` or `add` with the result of each attempt."""
        routes = self._deadlines.take_due(now)
        for route in routes:
            self._list[route].due = None
        return routes

    def deadline(self) -> float | None:
        """Return when the next route is due, or None."""
        return self._deadlines.next()


class ChannelBonding(Way):
    """The way of messages on networks with one NID for all devices."""

    def __init__(
        self,
        config: LndConfig,
        nis: Mapping[Net, KibNet],
        targets: Mapping[Nid, KibTarget],
        conns: ConnTable,
        connd: Connd,
        table: MessageTable,
        traffic: Traffic,
    ) -> None:
        """Make it. Args: those of the node."""
        self._config = config
        self._nis = nis
        self._targets = targets
        self._conns = conns
        self._connd = connd
        self._table = table
        self._traffic = traffic

    def timeout_s(self) -> float:
        return self._config.timeout_s

    # --- sending -------------------------------------------------------------------------------------------

    def met(self, peer: Peer) -> None:
        peer.mesh = KibRoutes(self._mesh(self._nis[peer.primary.net], peer))

    def _mesh(self, kib_net: KibNet, peer: Peer) -> list[KibRoute]:
        """Return the routes to a NID: each device to each address of its target."""
        target = self._targets.get(peer.primary)
        return make_mesh(peer.primary, target.tg_addr if target is not None else (), kib_net.ibn_devs)

    def attempt(self, tx: KibTx, peer: Peer) -> None:
        """Assign a message to the next route (kiblnd_send)."""
        assert peer.mesh is not None  # noqa: S101 - set by `met`
        route, disconnected = next_route(peer.mesh, weighted=self._config.weighted)
        for met in disconnected:
            self._connd.add(met, self._table.now)
        if route is None:
            peer.parked.append(tx)
        else:
            self._table.submit(tx, route)

    def again(self, tx: KibTx, route: KibRoute, reason: str, cause: LossCause) -> None:
        route.counters.retries += 1
        ni = self._nis.get(tx.nid.net)
        if not tx.doubt_stamp and (ni is None or ni.closing):
            self._table.fail(tx, errno.ENETDOWN, f"network {tx.nid.net} was removed")
        else:
            self._table.attempt(tx)

    def _unpark(self, peer: Peer) -> None:
        """Retry the messages that waited for a route."""
        parked, peer.parked = peer.parked, deque()
        for tx in parked:
            self._table.attempt(tx)

    # --- routes --------------------------------------------------------------------------------------------

    def up(self, route: KibRoute, peer: Peer) -> None:
        self._connd.remove(route)
        self._unpark(peer)

    def lost(self, route: KibRoute, peer: Peer) -> None:
        if route.rt_dev.state.usable and peer.mesh is not None and route in peer.mesh.routes:
            self._connd.add(route, self._table.now)

    def recover(self, dev: KibDev) -> None:
        """Reconnect the routes of a device that is usable again."""
        for peer in self._table.known_peers(Bonding.O2IBS):
            mine = [route for route in peer.routes if route.rt_dev is dev]
            for route in mine:
                if route.state is RouteState.DISCONNECTED:
                    self._connd.remove(route)
                    self._connd.add(route, self._table.now, at_once=True)
            if mine:
                self._unpark(peer)

    def remesh_all(self) -> None:
        """Compute the routes of all peers again."""
        for peer in self._table.known_peers(Bonding.O2IBS):
            self.remesh(peer)

    def remesh(self, peer: Peer) -> None:
        """Compute the routes of a peer again, after its target or the devices have changed."""
        ni = self._nis.get(peer.primary.net)
        if ni is None or peer.mesh is None:
            return
        for route in peer.mesh.replace(self._mesh(ni, peer)):
            conn = self._conns.on_route(route)
            if conn is not None:
                self._conns.fail(conn.key, "route removed", self._table.now)
            self._connd.remove(route)
        self._unpark(peer)

    def on_timer(self, now: float) -> None:
        """Reconnect the routes that are due."""
        for route in self._connd.due(now):
            ni, peer = self._nis.get(route.rt_nid.net), self._table.peers.get(route.rt_nid)
            if ni is None or peer is None or route not in peer.routes:
                self._connd.remove(route)
            else:
                self._conns.open(ni, route)

    # --- the end of a message ------------------------------------------------------------------------------

    def due(self, tx: KibTx, now: float) -> Stuck | None:
        """Fail an overdue message, and close the connection on which it is stuck, as kiblnd_check_conns does.

        A connection that is merely slow stays open: closing it would discard the progress of all its other messages.
        """
        conn = tx.peer
        if not tx.may_be_there:
            routes = tx.to.routes if tx.to is not None else ()
            error = next((route.last_error for route in routes if route.last_error), "")
            self._traffic.counters["response_timeout_count"] += 1
            reason = f"no route within {tx.timeout_s:g} s{error and f': {error}'}"
            self._table.fail(tx, errno.EHOSTUNREACH, reason)
        elif tx.overdue:
            self._table.fail(tx, errno.ETIMEDOUT, "no answer; the peer may have the message")
        else:
            tx.overdue = True
            tx.deadline = now + self._config.doubt_after(tx.timeout_s)
        if conn is None or not conn.stalled(now):
            return None
        return conn, "no answer within the timeout of a message", LossCause.BROKEN


def next_route(routes: KibRoutes, *, weighted: bool) -> tuple[KibRoute | None, list[KibRoute]]:
    """Return the route for the next message, and the disconnected routes that should be reconnected.

    Routes whose device is down or fatal are skipped. So are routes that are disconnected although their device is
    up (these are returned for recovery), and routes that are already being probed. A message therefore never waits
    for a route that has failed.

    Returns: the route, or None if no route is usable now; the disconnected routes whose device is usable.
    """
    met = [r for r in routes if r.state is RouteState.DISCONNECTED and r.rt_dev.state.usable]
    if weighted:
        return _by_speed(routes), met
    count = len(routes.routes)
    for step in range(count):
        index = (routes.next + step) % count
        route = routes.routes[index]
        if _usable(route):
            routes.next = (index + 1) % count
            return route, met
    return None, met


def _usable(route: KibRoute) -> bool:
    return route.rt_dev.state.usable and route.state.usable


def _by_speed(routes: KibRoutes) -> KibRoute | None:
    """Smooth weighted round robin: credit each route with its speed, and charge the highest balance with the total."""
    usable = [route for route in routes if _usable(route)]
    if not usable:
        return None
    for route in usable:
        route.share += route.rt_dev.speed_gbps
    chosen = max(usable, key=lambda route: route.share)
    chosen.share -= sum(route.rt_dev.speed_gbps for route in usable)
    return chosen
