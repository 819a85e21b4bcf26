"""The networks of a node with their devices, and its targets: adding, removing, what routes become then. Sans-IO."""

from __future__ import annotations

import errno
from collections.abc import Callable
from ipaddress import IPv4Address

from lnet.base.errors import CommandError
from lnet.base.nid import Net, Nid
from lnet.o2iblnd.conns import ConnTable, LossCause
from lnet.objects.objects import DevState, KibDev, KibNet, LnetNi
from lnet.objects.tx import KibTx, NetRemoved
from lnet.routes.multi_rail import MultiRail
from lnet.routes.rail_table import is_multi_rail
from lnet.routes.recovery import Connd
from lnet.routes.tx_table import TxTable
from lnet.settings.networks import Bonding
from lnet.settings.targets import KibTarget, TargetTable
from lnet.settings.tunables import NetTunables


class NetTable:
    """Changes to the configuration of a node."""

    def __init__(
        self,
        nis: dict[Net, LnetNi],
        targets: TargetTable,
        conns: ConnTable,
        connd: Connd,
        txs: TxTable,
        rails: MultiRail,
        *,
        at: Callable[[float], None],
        removed: Callable[[NetRemoved], None],
    ) -> None:
        """Make it.

        Args:  nis ... rails: those of the node. at: called with the time of each change. removed: called when the
               removal of a network is complete.
        """
        self._nis = nis
        self._targets = targets
        self._conns = conns
        self._connd = connd
        self._txs = txs
        self._rails = rails
        self._at = at
        self._removed = removed

    # --- networks and their devices ------------------------------------------------------------------------

    def add_net(
        self,
        net: Net,
        devs: list[KibDev],
        bonding: Bonding = Bonding.O2IBS,
        tunables: NetTunables | None = None,
    ) -> LnetNi:
        """Add a network over `devs`; its NID has the address of the first.

        Raises:  CommandError: the network exists already (EEXIST).
        """
        if net in self._nis:
            raise CommandError(errno.EEXIST, f"network {net} exists already")
        nid = Nid(net, devs[0].addr)
        tunables = tunables or self._rails.config.tunables
        ni = self._nis[net] = LnetNi(nid, KibNet(net, nid, devs, bonding=bonding, tunables=tunables))
        if bonding is Bonding.MULTI_RAIL:
            for dev in devs:
                self._rails.add_device(ni.ni_data, dev)
        return ni

    def add_device(self, net: Net, dev: KibDev, now: float) -> None:
        """Add a device to a network and recompute its routes."""
        self._at(now)
        kib_net = self._nis[net].ni_data
        kib_net.ibn_devs.append(dev)
        if is_multi_rail(self._nis[net]):
            self._rails.add_device(kib_net, dev)
        else:
            self._remesh(kib_net)

    def remove_device(self, net: Net, name: str, now: float) -> None:
        """Remove a device from a network; its messages take other routes. Removing the last device removes the network.

        Raises:  CommandError: ENODEV: the network has no such device.
        """
        self._at(now)
        kib_net = self._nis[net].ni_data
        dev = kib_net.device(name)
        if dev is None:
            raise CommandError(errno.ENODEV, f"{net} has no interface {name}")
        if kib_net.ibn_nifaces == 1:
            self.remove_net(net, now)
            return
        kib_net.ibn_devs.remove(dev)
        dev.state = DevState.PORT_DOWN
        self.drop_device(dev, "device removed", now)
        if is_multi_rail(self._nis[net]):
            self._rails.remove_device(dev)
        else:
            self._remesh(kib_net)

    def drop_device(self, dev: KibDev, reason: str, now: float) -> None:
        """Close all connections over a device that is down or removed."""
        if not dev.state.usable:
            self._connd.remove_device(dev)
        for peer in self._conns:
            if peer.dev is dev:
                self._conns.fail(peer.key, f"{dev.name}: {reason}", now, LossCause.DEVICE)

    def remove_net(self, net: Net, now: float) -> None:
        """Remove a network: fail unsent messages now, settle those in doubt, then report NetRemoved."""
        self._at(now)
        kib_net = self._nis[net].ni_data
        kib_net.closing = True
        for rail_tx in self._rails.table:
            if rail_tx.net is kib_net:
                self._rails.table.fail(rail_tx, errno.ENETDOWN, f"network {net} was removed")
        for tx in self._txs.on_net(kib_net):
            if not self._txs.may_be_there(tx):
                self._txs.fail(tx, errno.ENETDOWN, f"network {net} was removed")
        self._finish_removals(now)

    def settled(self, tx: KibTx) -> None:
        """Note that a message has been reported: it may have been the last one of a network that is being removed."""
        if tx.net.closing:
            self._finish_removals(self._txs.now)

    def _finish_removals(self, now: float) -> None:
        for ni in [ni for ni in self._nis.values() if ni.ni_data.closing]:
            kib_net = ni.ni_data
            if self._txs.on_net(kib_net):
                continue
            for peer in self._conns:
                if peer.net is kib_net:
                    self._conns.fail(peer.key, "network removed", now)
            for routes in list(kib_net.ibn_routes.values()):
                for route in routes:
                    self._connd.remove(route)
                routes.routes = []
            del self._nis[kib_net.net]
            if kib_net.bonding is Bonding.MULTI_RAIL:
                for dev in kib_net.ibn_devs:
                    self._rails.remove_device(dev)
            self._removed(NetRemoved(ni.ni_nid))

    # --- targets -------------------------------------------------------------------------------------------

    def set_target(self, target: KibTarget, now: float) -> None:
        """Add or replace a target and recompute the existing routes to its NID."""
        self._at(now)
        self._targets.put(target)
        self._remesh_nid(target.tg_nid)

    def remove_target(self, nid: Nid, now: float) -> bool:
        """Remove a target; return whether there was one."""
        self._at(now)
        removed = self._targets.remove(nid) is not None
        self._remesh_nid(nid)
        return removed

    def peer_announces(self, nid: Nid, addresses: tuple[IPv4Address, ...], now: float) -> None:
        """Use the addresses that a peer announced, unless its target is configured."""
        known = self._targets.get(nid)
        if known is None or (known.learned and known.tg_addr != addresses):
            self.set_target(KibTarget(nid, addresses, learned=True), now)

    def _remesh(self, kib_net: KibNet) -> None:
        for nid in list(kib_net.ibn_routes):
            self._remesh_nid(nid)

    def _remesh_nid(self, nid: Nid) -> None:
        queue = self._txs.queue_to(nid)
        if queue is None or nid.net not in self._nis:
            return
        gone = queue.routes.replace(self._txs.mesh(self._nis[nid.net].ni_data, nid))
        for route in gone:
            peer = self._conns.on_route(route)
            if peer is not None:
                self._conns.fail(peer.key, "route removed", self._txs.now)
            self._connd.remove(route)
        self._txs.unpark(queue)
