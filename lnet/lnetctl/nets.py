"""`lnetctl net` and `net_status`."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from dataclasses import replace

from lnet.base.errors import CommandError
from lnet.base.nid import Net
from lnet.lnetctl.commands import LO, Commands, Document, checked, level_of, nid_of, number_of
from lnet.lnetctl.documents import lo_document, net_document
from lnet.lnetctl.status import status_document
from lnet.settings.dlc_reader import parse_cpts
from lnet.settings.health import MAX_HEALTH
from lnet.settings.networks import LNET_MAX_INTERFACES, NetworkGroup
from lnet.settings.tunables import NAMES


class NetCommands(Commands):
    """Commands on the networks of a node."""

    def net_add(
        self,
        net: str,
        interfaces: Iterable[str],
        peer_timeout: str | None = None,
        peer_credits: str | None = None,
        peer_buffer_credits: str | None = None,
        credits: str | None = None,  # noqa: A002 - the name of the option
        cpt: str | None = None,
    ) -> Document:
        """Add a network, or add interfaces to a network; tunables are those of a new network.

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
        group = checked(lambda: NetworkGroup(Net.parse(net), tuple(interfaces), tunables=given, cpts=cpts))
        self._check_group(group, extend=True)
        self._put_group(replace(group, bonding=self._bonding_of(group.net)))
        return {}

    def net_del(self, net: str, interface: str | None = None) -> Document:
        """Remove a network or one of its interfaces; removing the last interface removes the network.

        Raises:  CommandError: EINVAL; ENOENT: unknown network; ENODEV: the network does not have the interface.
        """
        if net in (LO, f"{LO}0"):
            raise CommandError(errno.EINVAL, f"cannot del network: {LO} belongs to every node")
        ni = self._ni(net)
        now = self._node.time()
        if interface is None:
            self._lnd.remove_net(ni.ni_data.net, now)
        else:
            self._lnd.remove_device(ni.ni_data.net, interface, now)
        self._node.poll()
        return {}

    def net_show(self, net: str | None = None, verbose: str = "0") -> Document:
        """Show all networks, or one. Args: verbose: 1: statistics and tunables; 2: more statistics, and health."""
        level = level_of(verbose)
        lnd = self._lnd
        documents = [net_document(lnd, ni.ni_data, level) for ni in self._nis(net)]
        return {"net": [lo_document(level), *documents] if net in (None, LO, f"{LO}0") else documents}

    def net_set(self, health: str, nid: str | None = None, all_nis: str | None = None) -> Document:
        """Set the health of an interface, or with `all_nis` of all.

        Raises:  CommandError: EINVAL: out of range; ENOENT: no interface with Multi-Rail has the NID.
        """
        rails = self._lnd.rails
        wanted = None if nid is None else nid_of(nid)
        locals_ = [ni for ni in rails.table.locals.values() if all_nis or ni.nid == wanted]
        if not locals_:
            raise CommandError(
                errno.ENOENT, f"no interface with Multi-Rail has the NID {wanted}: only there is health"
            )
        value = health_of(health)
        for ni in locals_:
            rails.set_health_of(ni, value)
        self._node.poll()
        return {}

    def net_status(self, net: str | None = None) -> Document:
        """Show devices and routes with their states and counters."""
        return {"net_status": [status_document(self._node, ni) for ni in self._nis(net)]}

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
        present = [dev.name for dev in ni.ni_data.ibn_devs]
        if not extend and present == list(group.interfaces):
            return False
        if ni.ni_data.closing:
            raise CommandError(errno.EBUSY, f"network {group.net} is being removed")
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


def health_of(text: str) -> int:
    """Read a health value.

    Raises:  CommandError: EINVAL: not 0 to 1000.
    """
    value = number_of("health", text)
    if not 0 <= value <= MAX_HEALTH:
        raise CommandError(errno.EINVAL, f"health {value}, expected 0 to {MAX_HEALTH}")
    return value
