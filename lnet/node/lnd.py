"""The LND: one NID over several devices. Events and `now` in; actions, reports and a deadline out. Sans-IO.

This module has the events of routes and devices. `nets` has what is configured: networks, devices and targets;
`messages` has the messages that this node sends and its peers, `deliveries` the messages that peers send.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence

from lnet.base.nid import Net, Nid
from lnet.node.deliveries import Deliveries, GetHandler, nothing_to_get
from lnet.o2iblnd.actions import Action
from lnet.o2iblnd.conns import ConnTable, LossCause
from lnet.objects.objects import DevEvent, KibRoute, LnetNi
from lnet.objects.stats import Traffic
from lnet.objects.tx import KibTx, Report, SendFailed, TxKind
from lnet.routes.bonding import ChannelBonding
from lnet.routes.messages import MessageTable
from lnet.routes.multi_rail import MultiRail
from lnet.routes.nets import NetTable
from lnet.routes.rails import is_multi_rail
from lnet.routes.recovery import Connd
from lnet.settings.config import LndConfig
from lnet.settings.networks import Bonding
from lnet.settings.targets import TargetTable

log = logging.getLogger("lnet.node.lnd")


class Lnd:
    """One node. After each call, perform `actions`, take `reports`, and call `on_timer` at `deadline`."""

    def __init__(
        self,
        stamp: int,
        config: LndConfig | None = None,
        get_handler: GetHandler = nothing_to_get,
        *,
        cookie: int | None = None,
    ) -> None:
        """Make a node without networks.

        Args:  stamp: its incarnation: above 0, and higher after each restart. cookie: what no other node, and no other
               incarnation, has: its messages are known by it; None: the incarnation.
        """
        self.stamp = stamp
        self.nis: dict[Net, LnetNi] = {}
        self.targets = TargetTable()
        self.traffic = Traffic()
        config = config or LndConfig()
        cookie = stamp if cookie is None else cookie
        self.conns = ConnTable(stamp, cookie, config, self.nis, self, self._emit, self.traffic)
        self.connd = Connd(config.reconnect_min_s, config.reconnect_max_s)
        self._actions: deque[Action] = deque()
        self._reports: list[Report] = []
        self.messages = MessageTable(
            config, self.nis, self.conns, self.traffic, report=self._report, settled=self._settled
        )
        self._bonded = ChannelBonding(
            config, self.nis, self.targets, self.conns, self.connd, self.messages, self.traffic
        )
        self.rails = MultiRail(self.nis, self.conns, self.messages, self.traffic)
        self.messages.ways = {Bonding.O2IBS: self._bonded, Bonding.MULTI_RAIL: self.rails.way}
        self._nets = NetTable(
            self.nis,
            self.targets,
            self.conns,
            self.connd,
            self.messages,
            self._bonded,
            self.rails,
            at=self.at,
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
            get_handler, self._report, answer_ping=self.rails.read, pushed=self.rails.pushed
        )
        self.has = self._deliveries.has
        self.deliver = self._deliveries.deliver
        self.read = self._deliveries.read

    @property
    def config(self) -> LndConfig:
        """The settings of the node."""
        return self.messages.config

    def _emit(self, action: Action) -> None:
        self._actions.append(action)

    def _report(self, report: Report) -> None:
        self._reports.append(report)

    def _settled(self) -> None:
        self._nets.settled()

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
        return len(self.messages)

    @property
    def duplicates(self) -> int:
        """Repeated messages, which were not delivered again."""
        return self._deliveries.duplicates

    def at(self, now: float) -> None:
        """Take the time of the input that is handled next."""
        self.messages.now = max(self.messages.now, now)

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
        tx = self.messages.make(TxKind.PUT, nid, timeout_s)
        tx.data, tx.match_bits, tx.hdr_data, tx.ptl_index = data, match_bits, hdr_data, ptl_index
        return self._send(tx, now)

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
        tx = self.messages.make(TxKind.GET, nid, timeout_s)
        tx.length, tx.match_bits, tx.ptl_index, tx.source = length, match_bits, ptl_index, source
        return self._send(tx, now)

    def _send(self, tx: KibTx, now: float) -> int:
        self.at(now)
        self.traffic.in_flight(self.unreported + 1)
        return self.messages.send(tx)

    def tx_done(self, tx: KibTx, data: bytes) -> None:
        """Report a message as done; for a GET, `data` is the fetched data."""
        self.messages.done(tx, data)

    def tx_failed(self, tx: KibTx, status: int, reason: str) -> None:
        """Report a message as failed with a negative errno."""
        self.messages.fail(tx, -status, reason)

    def give_up(self, reason: str) -> list[SendFailed]:
        """Return the report of each message of a node that does not work any more."""
        return self.messages.give_up(reason)

    def reconfigure(self, config: LndConfig) -> None:
        """Replace the settings of Multi-Rail (lnetctl set); the others are those of the start."""
        self.rails.reconfigure(config)

    # --- routes and devices --------------------------------------------------------------------------------

    def route_up(self, route: KibRoute) -> None:
        """Handle a route that has connected."""
        self.messages.route_up(route)

    def route_lost(self, route: KibRoute, left: Sequence[KibTx], reason: str, cause: LossCause) -> None:
        """Handle a lost route: its messages take others."""
        log.info("[%s] route to %s lost: %s", route, route.rt_nid, reason)
        self.messages.route_lost(route, left, reason, cause)

    def on_device(self, name: str, event: DevEvent, speed_gbps: float, now: float) -> None:
        """Handle an event of an HFI port, for every network that uses it."""
        self.at(now)
        for ni in list(self.nis.values()):
            dev = ni.ni_data.device(name)
            if dev is None:
                continue
            before, after = dev.state, dev.apply(event, speed_gbps, self.config.expected_gbps)
            if before is not after:
                log.info("[%s %s] %s -> %s", ni.ni_nid, name, before, after)
            if event is DevEvent.SPEED_CHANGE:
                continue
            if event is not DevEvent.PORT_ACTIVE:
                self._nets.drop_device(dev, event.value, now)
            if is_multi_rail(ni):
                self.rails.device_changed(dev)
            elif after.usable:
                self._bonded.recover(dev)

    # --- time ----------------------------------------------------------------------------------------------

    def deadline(self) -> float | None:
        """Return when `on_timer` is due, or None."""
        cores = (self.messages, self.connd, self.conns, self.rails)
        return min((time for core in cores if (time := core.deadline()) is not None), default=None)

    def on_timer(self, now: float) -> None:
        """Fail overdue messages, reconnect the routes that are due, probe silent peers and close idle connections."""
        self.at(now)
        self.messages.expire(now)
        self._bonded.on_timer(now)
        self.conns.on_timer(now)
        self.rails.on_timer(now)
