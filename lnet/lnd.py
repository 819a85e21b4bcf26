"""The LND: one NID over several devices. Events and `now` in; actions, reports and a deadline out. Sans-IO.

This module has the networks with their devices, targets and routes, and the events that change them. `tx_table` has
the messages that this node sends, `deliveries` those that peers send.
"""

from __future__ import annotations

import errno
import itertools
import logging
from collections import deque
from collections.abc import Hashable, Sequence
from functools import partial
from ipaddress import IPv4Address

from lnet.actions import Action
from lnet.config import LndConfig
from lnet.conns import ConnTable, LossCause
from lnet.deliveries import Deliveries, GetHandler, nothing_to_get
from lnet.errors import CommandError
from lnet.multi_rail import MultiRail
from lnet.networks import Bonding
from lnet.nid import Net, Nid
from lnet.objects import DevEvent, DevState, KibDev, KibNet, KibRoute, LnetNi, RouteState
from lnet.peer import KibPeer
from lnet.rail_table import is_multi_rail
from lnet.rails import RailTx
from lnet.recovery import Connd
from lnet.targets import KibTarget, TargetTable
from lnet.tx import KibTx, NetRemoved, Report, TxKind
from lnet.tx_table import TxTable

log = logging.getLogger("lnet.lnd")


class Lnd:
    """One node. After each call, perform `actions`, take `reports`, and call `on_timer` at `deadline`."""

    def __init__(
        self, stamp: int, config: LndConfig | None = None, get_handler: GetHandler = nothing_to_get
    ) -> None:
        """Make a node without networks. `stamp` is its incarnation: above 0, and higher after each restart."""
        self.config = config or LndConfig()
        self.stamp = stamp
        self.nis: dict[Net, LnetNi] = {}
        self.targets = TargetTable()
        self.conns = ConnTable(stamp, self.config, self.nis, self, self._emit)
        self.connd = Connd(self.config.reconnect_min_s, self.config.reconnect_max_s)
        self._actions: deque[Action] = deque()
        self._reports: list[Report] = []
        ids = itertools.count(1)
        self._txs = TxTable(
            self.config,
            self.nis,
            self.targets,
            self.conns,
            self.connd,
            new_id=partial(next, ids),
            report=self._report,
            settled=self._settled,
        )
        self.rails = MultiRail(
            self.config, self.nis, self.conns, new_id=partial(next, ids), report=self._report
        )
        self._deliveries = Deliveries(
            get_handler,
            self._report,
            sender_of=self._sender_of,
            answer_ping=self.rails.read,
            pushed=self.rails.pushed,
        )
        self.has = self._deliveries.has
        self.deliver = self._deliveries.deliver
        self.read = self._deliveries.read

    def _emit(self, action: Action) -> None:
        self._actions.append(action)

    def _report(self, report: Report) -> None:
        self._reports.append(report)

    @property
    def actions(self) -> deque[Action]:
        """Actions to perform, oldest first; the caller removes each before performing it."""
        return self._actions

    def reports(self) -> list[Report]:
        """Return the reports since the last call."""
        reports, self._reports = self._reports, []
        return reports

    @property
    def unreported(self) -> int:
        """Number of messages not yet reported."""
        return len(self._txs) + len(self.rails.table)

    @property
    def peers_known(self) -> int:
        """Number of NIDs to which messages were sent and that have answered or may still answer."""
        return self._txs.peers + len(self.rails.table.remote_peers())

    @property
    def duplicates(self) -> int:
        """Repeated messages, which were not delivered again."""
        return self._deliveries.duplicates

    def _at(self, now: float) -> None:
        """Tell both senders the time of the input being handled."""
        self._txs.now = now
        self.rails.table.now = now

    def _is_rail(self, net: Net) -> bool:
        return is_multi_rail(self.nis.get(net))

    def _sender_of(self, peer: KibPeer) -> Hashable:
        if peer.net.bonding is Bonding.MULTI_RAIL:
            return self.rails.table.sender_of(peer.nid)
        return peer.net.nid, peer.nid

    # --- messages ------------------------------------------------------------------------------------------

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
        source: Nid | None = None,
    ) -> int:
        """Send `data` to `nid`; return the message number used in its report.

        Args:    timeout_s: overrides that of the configuration. source: the only NID of this node to send from, on a
                 network with Multi-Rail.
        """
        self._at(now)
        if not self._is_rail(nid.net):
            return self._txs.put(
                nid,
                data,
                now,
                match_bits=match_bits,
                hdr_data=hdr_data,
                ptl_index=ptl_index,
                timeout_s=timeout_s,
            )
        tx = self._rail_tx(TxKind.PUT, nid, timeout_s, source)
        tx.data, tx.match_bits, tx.hdr_data, tx.ptl_index = data, match_bits, hdr_data, ptl_index
        return self.rails.table.send(tx, len(data))

    def get(
        self,
        nid: Nid,
        length: int,
        now: float,
        *,
        match_bits: int = 0,
        ptl_index: int = 0,
        timeout_s: float | None = None,
        source: Nid | None = None,
    ) -> int:
        """Fetch up to `length` bytes from `nid`; return the message number used in its report. Args: as for `put`."""
        self._at(now)
        if not self._is_rail(nid.net):
            return self._txs.get(
                nid, length, now, match_bits=match_bits, ptl_index=ptl_index, timeout_s=timeout_s
            )
        tx = self._rail_tx(TxKind.GET, nid, timeout_s, source)
        tx.length, tx.match_bits, tx.ptl_index = length, match_bits, ptl_index
        return self.rails.table.send(tx, length)

    def _rail_tx(self, kind: TxKind, nid: Nid, timeout_s: float | None, source: Nid | None) -> RailTx:
        timeout_s = self.config.transaction_timeout_s if timeout_s is None else timeout_s
        return RailTx(
            self.rails.new_id(), kind, self.nis[nid.net].ni_data, nid, 0.0, timeout_s, source=source
        )

    def tx_done(self, tx: KibTx, data: bytes) -> None:
        """Report a message as done; for a GET, `data` is the fetched data."""
        if isinstance(tx, RailTx):
            if tx.peer is not None:
                self._at(tx.peer.last_heard)
            self.rails.table.done(tx, data)
        else:
            self._txs.done(tx, data)

    def tx_refused(self, tx: KibTx, status: int) -> None:
        """Report a message that the peer refused with a negative errno as failed."""
        table = self.rails.table if isinstance(tx, RailTx) else self._txs
        table.fail(tx, -status, "refused by the peer")  # type: ignore[arg-type]

    # --- configuration -------------------------------------------------------------------------------------

    def add_net(self, net: Net, devs: list[KibDev], bonding: Bonding = Bonding.O2IBS) -> LnetNi:
        """Add a network over `devs`; its NID has the address of the first.

        Raises:  CommandError: the network exists already (EEXIST).
        """
        if net in self.nis:
            raise CommandError(errno.EEXIST, f"network {net} exists already")
        nid = Nid(net, devs[0].addr)
        ni = self.nis[net] = LnetNi(nid, KibNet(net, nid, devs, bonding=bonding))
        if bonding is Bonding.MULTI_RAIL:
            for dev in devs:
                self.rails.add_device(ni.ni_data, dev)
        return ni

    def add_device(self, net: Net, dev: KibDev, now: float) -> None:
        """Add a device to a network and recompute its routes."""
        self._at(now)
        kib_net = self.nis[net].ni_data
        kib_net.ibn_devs.append(dev)
        if self._is_rail(net):
            self.rails.add_device(kib_net, dev)
        else:
            self._remesh(kib_net)

    def remove_device(self, net: Net, name: str, now: float) -> None:
        """Remove a device from a network; its messages take other routes. Removing the last device removes the network.

        Raises:  CommandError: ENODEV: the network has no such device.
        """
        self._at(now)
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
        if self._is_rail(net):
            self.rails.remove_device(dev)
        else:
            self._remesh(kib_net)

    def remove_net(self, net: Net, now: float) -> None:
        """Remove a network: fail unsent messages now, settle those in doubt, then report NetRemoved."""
        self._at(now)
        kib_net = self.nis[net].ni_data
        kib_net.closing = True
        for rail_tx in self.rails.table:
            if rail_tx.net is kib_net:
                self.rails.table.fail(rail_tx, errno.ENETDOWN, f"network {net} was removed")
        for tx in self._txs.on_net(kib_net):
            if not self._txs.may_be_there(tx):
                self._txs.fail(tx, errno.ENETDOWN, f"network {net} was removed")
        self._finish_removals(now)

    def _finish_removals(self, now: float) -> None:
        for ni in [ni for ni in self.nis.values() if ni.ni_data.closing]:
            kib_net = ni.ni_data
            if self._txs.on_net(kib_net):
                continue
            for peer in self.conns:
                if peer.net is kib_net:
                    self.conns.fail(peer.key, "network removed", now)
            for routes in list(kib_net.ibn_routes.values()):
                for route in routes:
                    self.connd.remove(route)
                routes.routes = []
            del self.nis[kib_net.net]
            if kib_net.bonding is Bonding.MULTI_RAIL:
                for dev in kib_net.ibn_devs:
                    self.rails.remove_device(dev)
            self._reports.append(NetRemoved(ni.ni_nid))

    def _settled(self, tx: KibTx) -> None:
        if tx.net.closing:
            self._finish_removals(self._txs.now)

    def set_target(self, target: KibTarget, now: float) -> None:
        """Add or replace a target and recompute the existing routes to its NID."""
        self._at(now)
        self.targets.put(target)
        self._remesh_nid(target.tg_nid)

    def remove_target(self, nid: Nid, now: float) -> bool:
        """Remove a target; return whether there was one."""
        self._at(now)
        removed = self.targets.remove(nid) is not None
        self._remesh_nid(nid)
        return removed

    def _remesh(self, kib_net: KibNet) -> None:
        for nid in list(kib_net.ibn_routes):
            self._remesh_nid(nid)

    def _remesh_nid(self, nid: Nid) -> None:
        queue = self._txs.queue_to(nid)
        if queue is None or nid.net not in self.nis:
            return
        gone = queue.routes.replace(self._txs.mesh(self.nis[nid.net].ni_data, nid))
        for route in gone:
            peer = self.conns.on_route(route)
            if peer is not None:
                self.conns.fail(peer.key, "route removed", self._txs.now)
            self.connd.remove(route)
        self._txs.unpark(queue)

    def peer_announces(self, nid: Nid, addresses: tuple[IPv4Address, ...], now: float) -> None:
        """Use the addresses that a peer announced, unless its target is configured."""
        known = self.targets.get(nid)
        if known is None or (known.learned and known.tg_addr != addresses):
            self.set_target(KibTarget(nid, addresses, learned=True), now)

    # --- routes and devices --------------------------------------------------------------------------------

    def route_up(self, route: KibRoute, now: float) -> None:
        """Handle a route that has connected: retry the messages that waited for a route."""
        self._at(now)
        if self._is_rail(route.rt_nid.net):
            self.rails.route_up(route)
            return
        self.connd.remove(route)
        queue = self._txs.queue_to(route.rt_nid)
        if queue is not None:
            queue.connected = True
            self._txs.unpark(queue)

    def route_lost(
        self, route: KibRoute, left: Sequence[KibTx], reason: str, cause: LossCause, now: float
    ) -> None:
        """Handle a lost route: send its messages over the next one and leave the route to the connection daemon."""
        self._at(now)
        log.info("[%s] route to %s lost: %s", route, route.rt_nid, reason)
        if self._is_rail(route.rt_nid.net):
            self.rails.table.route_lost(route, [tx for tx in left if isinstance(tx, RailTx)], reason, cause)
            return
        queue = self._txs.queue_to(route.rt_nid)
        if queue is None:
            return
        if route.rt_dev.state.usable and route in queue.routes.routes:
            self.connd.add(route, now)
        route.counters.retries += len(left)
        for tx in left:
            self._txs.retry(tx, queue)

    def on_device(self, name: str, event: DevEvent, speed_gbps: float, now: float) -> None:
        """Handle an event of an HFI port, for every network that uses it."""
        self._at(now)
        for ni in list(self.nis.values()):
            dev = ni.ni_data.device(name)
            if dev is None:
                continue
            before, after = dev.state, dev.apply(event, speed_gbps, self.config.expected_gbps)
            if before is not after:
                log.info("[%s %s] %s -> %s", ni.ni_nid, name, before, after)
            if event is DevEvent.SPEED_CHANGE:
                continue
            if self._is_rail(ni.ni_data.net):
                if event is not DevEvent.PORT_ACTIVE:
                    self._drop_device(dev, event.value, now)
                self.rails.device_changed(dev)
                continue
            if event is not DevEvent.PORT_ACTIVE:
                self._drop_device(dev, event.value, now)
            if after.usable:
                self._recover_device(ni.ni_data, dev, now)

    def _drop_device(self, dev: KibDev, reason: str, now: float) -> None:
        if not dev.state.usable:
            self.connd.remove_device(dev)
        for peer in self.conns:
            if peer.dev is dev:
                self.conns.fail(peer.key, f"{dev.name}: {reason}", now, LossCause.DEVICE)

    def _recover_device(self, kib_net: KibNet, dev: KibDev, now: float) -> None:
        for routes in list(kib_net.ibn_routes.values()):
            for route in routes:
                if route.rt_dev is dev and route.state is RouteState.DISCONNECTED:
                    self.connd.remove(route)
                    self.connd.add(route, now, at_once=True)
            queue = self._txs.queue_to(routes.nid)
            if queue is not None:
                self._txs.unpark(queue)

    # --- time ----------------------------------------------------------------------------------------------

    def deadline(self) -> float | None:
        """Return when `on_timer` is due, or None."""
        times = (
            self._txs.next_deadline(),
            self.connd.deadline(),
            self.conns.deadline(),
            self.rails.deadline(),
        )
        return min((time for time in times if time is not None), default=None)

    def on_timer(self, now: float) -> None:
        """Fail overdue messages, reconnect the routes that are due, probe silent peers and close idle connections."""
        self._at(now)
        self._txs.expire_overdue(now)
        for route in self.connd.due(now):
            ni = self.nis.get(route.rt_nid.net)
            if ni is None or route.state is not RouteState.DISCONNECTED or not route.rt_dev.state.usable:
                self.connd.remove(route)
            else:
                self.conns.open(ni.ni_data, route)
        self.conns.on_timer(now)
        self.rails.on_timer(now)
