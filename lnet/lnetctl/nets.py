"""`lnetctl net`, `net_status` and `peer`.

On networks with Multi-Rail peers have several NIDs, which are discovered or configured.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable
from dataclasses import replace

from lnet.base.errors import CommandError
from lnet.base.nid import Net, Nid
from lnet.lnetctl.commands import LO, Commands, Document, checked, level_of, nid_of, nids_of, number_of
from lnet.lnetctl.documents import (
    BACKUP,
    bonded_peer_document,
    lo_document,
    net_document,
    rail_peer_document,
    status_document,
)
from lnet.objects.objects import is_multi_rail
from lnet.settings.config import NAMES
from lnet.settings.health import MAX_HEALTH
from lnet.settings.networks import LNET_MAX_INTERFACES, Bonding, NetworkGroup, parse_cpts


class NetCommands(Commands):
    """Commands on the networks of a node."""

    def net_add(
        self,
        net: str | None = None,
        interfaces: Iterable[str] = (),
        peer_timeout: str | None = None,
        peer_credits: str | None = None,
        peer_buffer_credits: str | None = None,
        credits: str | None = None,  # noqa: A002 - the name of the option
        cpt: str | None = None,
        nid: str | None = None,
    ) -> Document:
        """Add a network, or add interfaces to a network; tunables are those of a new network.

        Args:    nid: in place of `net` and `interfaces`: the interface with its address, on its network.
        Raises:  CommandError: EINVAL; ENODEV: unknown interface; EEXIST: the network already has the interface;
            ENOSPC: more than 16 interfaces; EBUSY: the network is being removed.
        """
        values = (peer_timeout, peer_credits, peer_buffer_credits, credits)
        given = tuple(
            (name, number_of(name.replace("_", "-"), value))
            for name, value in zip(NAMES, values, strict=True)
            if value is not None
        )
        cpts = None if cpt is None else checked(lambda: parse_cpts(cpt))
        if net in (LO, f"{LO}0"):
            raise CommandError(errno.EEXIST, f"cannot add network: every node has {LO}")
        if nid is None:
            wanted, names = checked(lambda: Net.parse(net or "")), list(interfaces)
        else:
            wanted, names = nid_of(nid).net, [self._interface_of(nid)]
            if net is not None or list(interfaces):
                raise CommandError(errno.EINVAL, "cannot add network: give either net and if, or nid")
        group = checked(lambda: NetworkGroup.of(wanted, names, tunables=given, cpts=cpts))
        self._check_group(group, extend=True)
        self._put_group(replace(group, bonding=self._bonding_of(group.net)))
        return {}

    def _interface_of(self, nid: str) -> str:
        """Return the interface with the address of a NID. Raises: CommandError: ENODEV."""
        interfaces = self._node.interfaces.values()
        name = next((one.name for one in interfaces if one.addr == nid_of(nid).addr), None)
        if name is None:
            known = ", ".join(f"{one.addr} of {one.name}" for one in interfaces)
            raise CommandError(
                errno.ENODEV, f"no interface has the address of the NID {nid} (known: {known})"
            )
        return name

    def net_del(
        self, net: str | None = None, interface: str | None = None, nid: str | None = None
    ) -> Document:
        """Remove a network or one of its interfaces; removing the last interface removes the network.

        Args:    nid: in place of both: what has this NID here: an interface or, with channel bonding, the network.
        Raises:  CommandError: EINVAL; ENOENT: unknown network; ENODEV: the network does not have the interface.
        """
        if net in (LO, f"{LO}0"):
            raise CommandError(errno.EINVAL, f"cannot del network: {LO} belongs to every node")
        if nid is not None:
            if net is not None or interface is not None:
                raise CommandError(
                    errno.EINVAL, "cannot del network: give either net, with or without if, or nid"
                )
            net, interface = self._owner_of_nid(nid)
        ni = self._ni(net or "")
        now = self._node.time()
        if interface is None:
            self._lnd.remove_net(ni.net, now)
        else:
            self._lnd.remove_device(ni.net, interface, now)
        self._node.poll()
        return {}

    def _owner_of_nid(self, nid: str) -> tuple[str, str | None]:
        """Return the network and, with Multi-Rail, the interface that has a NID. Raises: CommandError: ENOENT."""
        wanted = nid_of(nid)
        every = {known: net for net in self._nis(None) for known in net.nids}
        ni = every.get(wanted)
        if ni is None:
            raise CommandError(
                errno.ENOENT,
                f"{wanted} is not a NID of this node (known: {', '.join(map(str, every)) or 'none'})",
            )
        devs = ni.nids[wanted]
        return str(wanted.net), devs[0].name if is_multi_rail(ni) else None

    def net_show(self, net: str | None = None, verbose: str = "0") -> Document:
        """Show all networks, or one. Args: verbose: 1: statistics and tunables; 2: more statistics, and health."""
        level = level_of(verbose)
        lnd = self._lnd
        documents = [net_document(lnd, ni, level) for ni in self._nis(net)]
        return {"net": [lo_document(level), *documents] if net in (None, LO, f"{LO}0") else documents}

    def net_set(self, health: str, nid: str | None = None, all_nis: str | None = None) -> Document:
        """Set the health of an interface, or with `all_nis` of all.

        Raises:  CommandError: EINVAL: out of range; ENOENT: no interface with Multi-Rail has the NID.
        """
        wanted = None if nid is None else nid_of(nid)
        locals_ = self._lnd.messages.locals.values()
        missing = "this node has no interface with Multi-Rail"
        if not all_nis:
            missing = f"no interface with Multi-Rail has the NID {wanted}"
        missing += f": only there is health; elsewhere it is always {MAX_HEALTH}"
        return self._set_health(
            [ni for ni in locals_ if all_nis or ni.nid == wanted], health, all_nis, missing
        )

    def net_status(self, net: str | None = None) -> Document:
        """Show devices and routes with their states and counters."""
        return {"net_status": [status_document(self._node, ni) for ni in self._nis(net)]}

    def lnet_configure(self, networks: str | None = None) -> Document:
        """Start LNet where it does not run. Args: networks: with the networks and targets of the lab file.

        Raises:  CommandError: EBUSY: a network is still being removed.
        """
        if not self.configured:
            self.configured = True
            if networks:
                self.start()
        return {}

    def start(self) -> None:
        """Add the networks and targets of the lab file. Raises: CommandError: EBUSY: one is still being removed."""
        groups = [group for group in self._networks if self._check_group(group, extend=False)]
        for target in self._targets:
            self._lnd.set_target(target, self._node.time())
        for group in groups:
            self._put_group(replace(group, bonding=self._bonding_of(group.net)))

    def lnet_unconfigure(self) -> Document:
        """Remove all networks, peers and targets, and refuse commands until `lnet_configure`."""
        lnd, now = self._lnd, self._node.time()
        for net in list(lnd.nis):
            lnd.remove_net(net, now)
        for nid in list(lnd.targets):
            lnd.remove_target(nid, now)
        self._node.poll()
        self.configured = False
        return {}

    def route_show(self) -> Document:
        """Show the routes to other networks over routers, of which there are none."""
        return {}

    def routing_show(self) -> Document:
        """Show whether this node is a router, which it never is."""
        return {"routing": [{"enable": 0}]}

    def _check_group(self, group: NetworkGroup, *, extend: bool) -> bool:
        """Check that a group can be added; return False if it already exists as it is."""
        known = ", ".join(self._node.interfaces)
        for name in group.interfaces:
            if name not in self._node.interfaces:
                raise CommandError(errno.ENODEV, f"cannot add network: no interface {name} (known: {known})")
        try:
            self._node.tunables_of(group)
        except ValueError as error:
            raise CommandError(errno.EINVAL, f"cannot add network: {error}") from None
        ni = self._lnd.nis.get(group.net)
        if ni is None:
            return True
        present = [dev.name for dev in ni.ibn_devs]
        if ni.closing:
            raise CommandError(errno.EBUSY, f"network {group.net} is being removed")
        if not extend and present == list(group.interfaces):
            return False
        twice = next((name for name in group.interfaces if name in present), None)
        if twice is not None or not extend:
            raise CommandError(
                errno.EEXIST, f"cannot add network: {group.net} exists with {','.join(present)}"
            )
        if len(present) + len(group.interfaces) > LNET_MAX_INTERFACES:
            text = f"cannot add network: {group.net} would have more than {LNET_MAX_INTERFACES} interfaces"
            raise CommandError(errno.ENOSPC, text)
        return True

    def _put_group(self, group: NetworkGroup) -> None:
        if group.net in self._lnd.nis:
            self._node.add_device(group)
        else:
            self._node.add_net(group)


class PeerCommands(Commands):
    """Commands on the peers of a node."""

    def peer_show(self, nid: str | None = None, verbose: str = "0") -> Document:
        """Show the peers with all their interfaces, or the one that has a NID.

        Args:    verbose: 1: credits and statistics; 2: more statistics, and health; 3: the state as a number.
        Raises:  CommandError: EINVAL: not a NID. ENOENT: no peer has it.
        """
        level = level_of(verbose)
        peers = self._peer_documents(level, None if nid is None else nid_of(nid))
        if nid is not None and not peers:
            raise CommandError(errno.ENOENT, f"no peer has the NID {nid_of(nid)}")
        return {"peer": peers}

    def peer_list(self) -> Document:
        """Show the primary NIDs of all peers."""
        return {"peer list": [{"nid": peer["primary nid"]} for peer in self._peer_documents(0)]}

    def _peer_documents(self, level: int, nid: Nid | None = None) -> list[Document]:
        lnd = self._lnd
        peers = [
            rail_peer_document(lnd, peer, level)
            for peer in lnd.rails.table.remote_peers()
            if nid is None or nid in peer.nis
        ]
        bonded = [peer for peer in lnd.messages.known_peers(Bonding.O2IBS) if nid in (None, peer.primary)]
        return peers + [bonded_peer_document(lnd, peer, level) for peer in bonded]

    def _peer_backup(self) -> list[Document]:
        return self._peer_documents(BACKUP)

    def peer_add(
        self, prim_nid: str | None = None, nids: Iterable[str] = (), non_mr: str | None = None
    ) -> Document:
        """Make a peer known with its NIDs, or add NIDs to one.

        Raises:  CommandError: EINVAL: not a NID, one of this node, or no network with Multi-Rail here; EEXIST: another
            peer has a NID; EPERM: several NIDs and `non_mr`.
        """
        others = nids_of(nids)
        primary = nid_of(prim_nid) if prim_nid is not None else others[0] if others else None
        if primary is None:
            raise CommandError(errno.EINVAL, "missing mandatory parameters: prim_nid, nid")
        if non_mr and set(others) - {primary}:
            raise CommandError(errno.EPERM, f"peer {primary} without Multi-Rail has one NID only")
        self._check_peer(primary, others)
        self._lnd.rails.add_peer(primary, others, multi_rail=not non_mr)
        self._node.poll()
        return {}

    def _check_peer(self, primary: Nid, others: Iterable[Nid]) -> None:
        lnd = self._lnd
        for nid in (primary, *others):
            ni = lnd.nis.get(nid.net)
            if ni is None:
                known = ", ".join(map(str, lnd.nis)) or "none"
                raise CommandError(errno.EINVAL, f"this node has no network {nid.net} (known: {known})")
            if not is_multi_rail(ni):
                text = (
                    f"{nid.net} is bonded: o2ibs add --nid {nid} says at which addresses a NID can be reached"
                )
                raise CommandError(errno.EINVAL, text)
            if nid in ni.nids:
                raise CommandError(errno.EINVAL, f"{nid} is a NID of this node")
            peer = lnd.rails.table.peers.get(nid)
            mine = peer is None or primary in peer.nis or (not peer.configured and len(peer.nis) == 1)
            if not mine and peer is not None:
                raise CommandError(errno.EEXIST, f"{nid} is a NID of the peer {peer.primary}")

    def peer_del(self, prim_nid: str | None = None, nids: Iterable[str] = ()) -> Document:
        """Forget a peer, or some of its NIDs; messages to it fail.

        Raises:  CommandError: EINVAL: not a NID; ENOENT: no peer with Multi-Rail has the primary NID; ECHILD: it does
            not have a NID; EBUSY: the primary NID cannot go before the others.
        """
        if prim_nid is None:
            raise CommandError(errno.EINVAL, "missing mandatory parameter: prim_nid")
        wanted = nids_of(nids)
        self._check_removal(nid_of(prim_nid), wanted)
        self._remove_peer(nid_of(prim_nid), wanted)
        return {}

    def _check_removal(self, primary: Nid, nids: list[Nid]) -> None:
        peer = self._lnd.rails.table.peers.get(primary)
        if peer is None or peer.primary != primary or peer.bonding is not Bonding.MULTI_RAIL:
            raise CommandError(errno.ENOENT, f"no peer with Multi-Rail has the primary NID {primary}")
        for nid in nids:
            if nid not in peer.nis:
                raise CommandError(errno.ECHILD, f"the peer {primary} has no NID {nid}")
        if primary in nids and set(peer.nis) - set(nids):
            raise CommandError(errno.EBUSY, f"the peer {primary} has other NIDs; remove them first, or all")

    def _remove_peer(self, primary: Nid, nids: list[Nid]) -> None:
        self._lnd.rails.remove_peer(primary, nids)
        self._node.poll()

    def peer_set(self, health: str, nid: str | None = None, all_nis: str | None = None) -> Document:
        """Set the health of an interface of a peer, or with `all_nis` of all.

        Raises:  CommandError: EINVAL: out of range; ENOENT: no peer with Multi-Rail has the NID.
        """
        wanted = None if nid is None else nid_of(nid)
        known = [ni for peer in self._lnd.messages.remote_peers() for ni in peer.nis.values()]
        missing = "no peer with Multi-Rail is known"
        if not all_nis:
            missing = f"no peer with Multi-Rail has the NID {wanted}"
        return self._set_health([ni for ni in known if all_nis or ni.nid == wanted], health, all_nis, missing)
