"""The LND: one NID over several devices. Events and `now` in; actions, reports and a deadline out. Sans-IO.

This module has the messages, and the events of routes and devices. `nets` has what is configured: networks, devices and
targets; `tx_table` and `rail_table` have the messages that this node sends, `deliveries` those that peers send.
"""

from __future__ import annotations

import itertools
import logging
from collections import deque
from collections.abc import Hashable, Sequence
from functools import partial

from lnet.base.nid import Net, Nid
from lnet.node.deliveries import Deliveries, GetHandler, nothing_to_get
from lnet.o2iblnd.actions import Action
from lnet.o2iblnd.conns import ConnTable, LossCause
from lnet.o2iblnd.peer import KibPeer
from lnet.objects.objects import DevEvent, KibDev, KibNet, KibRoute, LnetNi, RouteState
from lnet.objects.stats import Traffic
from lnet.objects.tx import KibTx, PeerQueue, Report, TxKind
from lnet.routes.multi_rail import MultiRail
from lnet.routes.nets import NetTable
from lnet.routes.rail_table import is_multi_rail
from lnet.routes.rails import RailTx
from lnet.routes.recovery import Connd
from lnet.routes.tx_table import TxTable
from lnet.settings.config import LndConfig
from lnet.settings.networks import Bonding
from lnet.settings.targets import TargetTable

log = logging.getLogger("lnet.node.lnd")


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
        self.traffic = Traffic()
        self.conns = ConnTable(stamp, self.config, self.nis, self, self._emit, self.traffic)
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
            traffic=self.traffic,
        )
        self.rails = MultiRail(
            self.config,
            self.nis,
            self.conns,
            new_id=partial(next, ids),
            report=self._report,
            traffic=self.traffic,
        )
        self._nets = NetTable(
            self.nis,
            self.targets,
            self.conns,
            self.connd,
            self._txs,
            self.rails,
            at=self._at,
            removed=self._report,
        )
        self.add_net = self._nets.add_net
        self.add_device = self._nets.add_device
        self.remove_device = self._nets.remove_device
        self.remove_net = self._nets.remove_net
        self.set_target = self._nets.set_target
        self.remove_target = self._nets.remove_target
        self.peer_announces = self._nets.peer_announces
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

    def _settled(self, tx: KibTx) -> None:
        self._nets.settled(tx)

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

    def queues(self) -> list[PeerQueue]:
        """Return the queues of messages to NIDs of networks with channel bonding."""
        return self._txs.queues()

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
    ) -> int:
        """Send `data` to `nid`; return the message number used in its report.

        Args:    timeout_s: overrides that of the configuration.
        """
        self._at(now)
        self.traffic.in_flight(self.unreported + 1)
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
        tx = self._rail_tx(TxKind.PUT, nid, timeout_s)
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
        """Fetch up to `length` bytes from `nid`; return the message number used in its report.

        Args:    timeout_s: as for `put`. source: the only NID of this node to ask from, on a network with Multi-Rail.
        """
        self._at(now)
        self.traffic.in_flight(self.unreported + 1)
        if not self._is_rail(nid.net):
            return self._txs.get(
                nid, length, now, match_bits=match_bits, ptl_index=ptl_index, timeout_s=timeout_s
            )
        tx = self._rail_tx(TxKind.GET, nid, timeout_s, source)
        tx.length, tx.match_bits, tx.ptl_index = length, match_bits, ptl_index
        return self.rails.table.send(tx, length)

    def _rail_tx(self, kind: TxKind, nid: Nid, timeout_s: float | None, source: Nid | None = None) -> RailTx:
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

    def reconfigure(self, config: LndConfig) -> None:
        """Replace the settings of Multi-Rail (lnetctl set); the others are those of the start."""
        self.config = config
        self.rails.reconfigure(config)

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
                    self._nets.drop_device(dev, event.value, now)
                self.rails.device_changed(dev)
                continue
            if event is not DevEvent.PORT_ACTIVE:
                self._nets.drop_device(dev, event.value, now)
            if after.usable:
                self._recover_device(ni.ni_data, dev, now)

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
