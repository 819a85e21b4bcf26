"""The networks of a node with their devices, and its targets: adding, removing, what routes become then. Sans-IO."""

from __future__ import annotations

import errno
from collections.abc import Callable
from ipaddress import IPv4Address

from lnet.base.errors import CommandError
from lnet.base.nid import Net, Nid
from lnet.o2iblnd.conns import ConnTable, LossCause
from lnet.objects.objects import DevState, KibDev, KibNet, LnetNi
from lnet.objects.tx import NetRemoved
from lnet.routes.bonding import ChannelBonding
from lnet.routes.messages import MessageTable
from lnet.routes.multi_rail import MultiRail
from lnet.routes.rails import is_multi_rail
from lnet.routes.recovery import Connd
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
        table: MessageTable,
        bonded: ChannelBonding,
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
        self._table = table
        self._bonded = bonded
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
        *,
        now: float = 0.0,
    ) -> LnetNi:
        """Add a network over `devs`; its NID has the address of the first.

        Raises:  CommandError: the network exists already (EEXIST).
        """
        self._at(now)
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
        if is_multi_rail(self._nis[net]):
            self._rails.remove_device(dev, f"{name}: device removed")
        self.drop_device(dev, "device removed", now)
        if not is_multi_rail(self._nis.get(net)):
            self._remesh(kib_net)

    def drop_device(self, dev: KibDev, reason: str, now: float) -> None:
        """Close all connections over a device that is down or removed."""
        if not dev.state.usable:
            self._connd.remove_device(dev)
        for peer in self._conns:
            if peer.dev is dev:
                self._conns.fail(peer.key, f"{dev.name}: {reason}", now, LossCause.DEVICE)

    def remove_net(self, net: Net, now: float) -> None:
        """Remove a network and report NetRemoved; with channel bonding, messages in doubt are settled before."""
        self._at(now)
        kib_net = self._nis[net].ni_data
        kib_net.closing = True
        for tx in self._table.on_net(net):
            if kib_net.bonding is Bonding.MULTI_RAIL or not tx.may_be_there:
                self._table.fail(tx, errno.ENETDOWN, f"network {net} was removed")
        self.settled()

    def settled(self) -> None:
        """Complete the removal of each network that has no message any more."""
        for net in [net for net, ni in self._nis.items() if ni.ni_data.closing]:
            if not self._table.on_net(net):
                self._finish_removal(net)

    def _finish_removal(self, net: Net) -> None:
        ni = self._nis.pop(net, None)
        if ni is None:
            return  # a message that ended with the network has led here again
        reason = f"network {net} was removed"
        for peer in self._table.known_peers():
            gone = [nid for nid in peer.nis if nid.net == net]
            if len(gone) == len(peer.nis):
                self._table.drop_peer(peer, errno.ENETDOWN, reason)
            else:
                for nid in gone:
                    self._table.drop_ni(peer, nid)
        for conn in self._conns:
            if conn.net is ni.ni_data:
                self._conns.fail(conn.key, reason, self._table.now)
        if is_multi_rail(ni):
            for dev in ni.ni_data.ibn_devs:
                self._rails.remove_device(dev, reason)
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
        peer = self._table.peers.get(nid)
        if peer is not None:
            self._bonded.remesh(peer)
