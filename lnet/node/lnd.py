"""The LND: one NID over several devices. Events and `now` in; actions, reports and a deadline out. Sans-IO.

This module has the networks with their devices and targets, and the events of routes and devices. `lnet.routes` has the
messages that this node sends, `deliveries` the messages that peers send.
"""

from __future__ import annotations

import errno
import logging
from collections import deque
from collections.abc import Sequence
from ipaddress import IPv4Address
from typing import TypedDict, Unpack

from hfi_sim.base.types import PortEvent
from lnet.base.errors import CommandError
from lnet.base.nid import Net, Nid
from lnet.node.deliveries import Deliveries, GetHandler, nothing_to_get
from lnet.o2iblnd.actions import Action
from lnet.o2iblnd.conns import ConnTable
from lnet.o2iblnd.peer import LossCause
from lnet.objects.objects import DevState, KibDev, KibNet, KibRoute, is_multi_rail
from lnet.objects.peers import KibTx
from lnet.objects.stats import NetRemoved, Report, Traffic, TxKind
from lnet.routes.bonding import ChannelBonding, Connd
from lnet.routes.messages import MessageTable
from lnet.routes.multi_rail import MultiRail
from lnet.settings.config import LndConfig, NetTunables
from lnet.settings.networks import Bonding
from lnet.settings.targets import KibTarget

log = logging.getLogger("lnet.node.lnd")


class MessageOptions(TypedDict, total=False):
    """What may be said of a message."""

    match_bits: int
    hdr_data: int
    ptl_index: int
    timeout_s: float | None
    """In place of that of the configuration."""
    source: Nid | None
    """The only NID of this node to send from, on a network with Multi-Rail."""


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
        self.actions: deque[Action] = deque()
        """Actions to perform, oldest first; the caller removes each before performing it."""
        self.nis: dict[Net, KibNet] = {}
        self.targets: dict[Nid, KibTarget] = {}
        """By their NID (kiblnd_data.kib_targets)."""
        self.traffic = Traffic()
        self._reports: list[Report] = []
        config = config or LndConfig()
        cookie = stamp if cookie is None else cookie
        self.conns = ConnTable(stamp, cookie, config, self.nis, self, self.actions.append, self.traffic)
        self._connd = Connd(config.reconnect_min_s, config.reconnect_max_s)
        self.messages = MessageTable(
            config, self.nis, self.conns, self.traffic, report=self._report, settled=self._settled
        )
        self._bonded = ChannelBonding(
            config, self.nis, self.targets, self.conns, self._connd, self.messages, self.traffic
        )
        self.rails = MultiRail(self.nis, self.conns, self.messages, self.traffic)
        self.messages.ways = {Bonding.O2IBS: self._bonded, Bonding.MULTI_RAIL: self.rails.way}
        self._deliveries = Deliveries(
            get_handler, self._report, answer_ping=self.rails.read, pushed=self.rails.pushed
        )
        self.has, self.deliver, self.read = (
            self._deliveries.has,
            self._deliveries.deliver,
            self._deliveries.read,
        )
        self.tx_done, self.tx_failed = self.messages.done, self.messages.fail
        self.route_up = self.messages.route_up

    @property
    def config(self) -> LndConfig:
        """The settings of the node."""
        return self.messages.config

    def _report(self, report: Report) -> None:
        self._reports.append(report)

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

    def put(self, nid: Nid, data: bytes, now: float, **options: Unpack[MessageOptions]) -> int:
        """Send `data` to `nid`; return the message number used in its report."""
        return self._send(TxKind.PUT, nid, now, options, data=data)

    def get(self, nid: Nid, length: int, now: float, **options: Unpack[MessageOptions]) -> int:
        """Fetch up to `length` bytes from `nid`; return the message number used in its report."""
        return self._send(TxKind.GET, nid, now, options, length=length)

    def _send(
        self, kind: TxKind, nid: Nid, now: float, options: MessageOptions, data: bytes = b"", length: int = 0
    ) -> int:
        tx = self.messages.make(kind, nid, options.pop("timeout_s", None))
        tx.data, tx.length = data, length
        for name, value in options.items():
            setattr(tx, name, value)
        self.at(now)
        self.traffic.in_flight(self.unreported + 1)
        return self.messages.send(tx)

    # --- networks and their devices ------------------------------------------------------------------------

    def add_net(
        self,
        net: Net,
        devs: list[KibDev],
        bonding: Bonding = Bonding.O2IBS,
        tunables: NetTunables | None = None,
        *,
        now: float = 0.0,
    ) -> KibNet:
        """Add a network over `devs`; its NID has the address of the first.

        Raises:  CommandError: the network exists already (EEXIST).
        """
        self.at(now)
        if net in self.nis:
            raise CommandError(errno.EEXIST, f"network {net} exists already")
        tunables = tunables or self.config.tunables
        kib_net = KibNet(net, Nid(net, devs[0].addr), devs, bonding=bonding, tunables=tunables)
        self.nis[net] = kib_net
        if is_multi_rail(kib_net):
            for dev in devs:
                self.rails.add_device(kib_net, dev)
        return kib_net

    def add_device(self, net: Net, dev: KibDev, now: float) -> None:
        """Add a device to a network and recompute its routes."""
        self.at(now)
        kib_net = self.nis[net]
        kib_net.ibn_devs.append(dev)
        if is_multi_rail(kib_net):
            self.rails.add_device(kib_net, dev)
        else:
            self._bonded.remesh_all()

    def remove_device(self, net: Net, name: str, now: float) -> None:
        """Remove a device from a network; its messages take other routes. Removing the last device removes the network.

        Raises:  CommandError: ENODEV: the network has no such device.
        """
        self.at(now)
        kib_net = self.nis[net]
        dev = kib_net.device(name)
        if dev is None:
            raise CommandError(errno.ENODEV, f"{net} has no interface {name}")
        if len(kib_net.ibn_devs) == 1:
            self.remove_net(net, now)
            return
        kib_net.ibn_devs.remove(dev)
        dev.state = DevState.PORT_DOWN
        if is_multi_rail(kib_net):
            self.rails.remove_device(dev, f"{name}: device removed")
        self._drop_device(dev, "device removed", now)
        if not is_multi_rail(kib_net):
            self._bonded.remesh_all()

    def _drop_device(self, dev: KibDev, reason: str, now: float) -> None:
        """Close all connections over a device that is down or removed."""
        if not dev.state.usable:
            self._connd.remove_device(dev)
        for peer in self.conns:
            if peer.dev is dev:
                self.conns.fail(peer.key, f"{dev.name}: {reason}", now, LossCause.DEVICE)

    def remove_net(self, net: Net, now: float) -> None:
        """Remove a network and report NetRemoved; with channel bonding, messages in doubt are settled before."""
        self.at(now)
        kib_net = self.nis[net]
        kib_net.closing = True
        for tx in self.messages.on_net(net):
            if is_multi_rail(kib_net) or not tx.may_be_there:
                self.messages.fail(tx, errno.ENETDOWN, f"network {net} was removed")
        self._settled()

    def _settled(self) -> None:
        """Complete the removal of each network that has no message any more."""
        for net in [net for net, kib_net in self.nis.items() if kib_net.closing]:
            if not self.messages.on_net(net):
                self._finish_removal(net)

    def _finish_removal(self, net: Net) -> None:
        kib_net = self.nis.pop(net, None)
        if kib_net is None:
            return  # a message that ended with the network has led here again
        reason = f"network {net} was removed"
        for peer in self.messages.known_peers():
            gone = [nid for nid in peer.nis if nid.net == net]
            if len(gone) == len(peer.nis):
                self.messages.drop_peer(peer, errno.ENETDOWN, reason)
            else:
                for nid in gone:
                    self.messages.drop_ni(peer, nid)
        for conn in self.conns:
            if conn.net is kib_net:
                self.conns.fail(conn.key, reason, self.messages.now)
        if is_multi_rail(kib_net):
            for dev in kib_net.ibn_devs:
                self.rails.remove_device(dev, reason)
        self._report(NetRemoved(kib_net.nid))

    # --- targets -------------------------------------------------------------------------------------------

    def set_target(self, target: KibTarget, now: float) -> None:
        """Add or replace a target and recompute the existing routes to its NID."""
        self.at(now)
        self.targets[target.tg_nid] = target
        self._remesh_nid(target.tg_nid)

    def remove_target(self, nid: Nid, now: float) -> bool:
        """Remove a target; return whether there was one."""
        self.at(now)
        removed = self.targets.pop(nid, None) is not None
        self._remesh_nid(nid)
        return removed

    def peer_announces(self, nid: Nid, addresses: tuple[IPv4Address, ...], now: float) -> None:
        """Use the addresses that a peer announced, unless its target is configured."""
        known = self.targets.get(nid)
        if known is None or (known.learned and known.tg_addr != addresses):
            self.set_target(KibTarget(nid, addresses, learned=True), now)

    def _remesh_nid(self, nid: Nid) -> None:
        peer = self.messages.peers.get(nid)
        if peer is not None:
            self._bonded.remesh(peer)

    # --- routes and devices --------------------------------------------------------------------------------

    def route_lost(self, route: KibRoute, left: Sequence[KibTx], reason: str, cause: LossCause) -> None:
        """Handle a lost route: its messages take others."""
        log.info("[%s] route to %s lost: %s", route, route.rt_nid, reason)
        self.messages.route_lost(route, left, reason, cause)

    def on_device(self, name: str, event: PortEvent, speed_gbps: float, now: float) -> None:
        """Handle an event of an HFI port, for every network that uses it."""
        self.at(now)
        for kib_net in list(self.nis.values()):
            dev = kib_net.device(name)
            if dev is None:
                continue
            before, after = dev.state, dev.apply(event, speed_gbps, self.config.expected_gbps)
            if before is not after:
                log.info("[%s %s] %s -> %s", kib_net.nid, name, before, after)
            if event in (PortEvent.PORT_ERR, PortEvent.LID_CHANGE, PortEvent.DEVICE_FATAL):
                self._drop_device(dev, event.value, now)
            elif event is not PortEvent.PORT_ACTIVE:
                continue
            if is_multi_rail(kib_net):
                self.rails.tell()
            elif after.usable:
                self._bonded.recover(dev)

    # --- time ----------------------------------------------------------------------------------------------

    def deadline(self) -> float | None:
        """Return when `on_timer` is due, or None."""
        cores = (self.messages, self._connd, self.conns, self.rails)
        return min((time for core in cores if (time := core.deadline()) is not None), default=None)

    def on_timer(self, now: float) -> None:
        """Fail overdue messages, reconnect the routes that are due, probe silent peers and close idle connections."""
        self.at(now)
        self.messages.expire(now)
        self._bonded.on_timer(now)
        self.conns.on_timer(now)
        self.rails.on_timer(now)
