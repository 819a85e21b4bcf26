"""The lnetctl commands on one node, without the command line: arguments in as text, the printed documents out."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable
from dataclasses import replace
from ipaddress import IPv4Address
from typing import Any, TypeVar

from lnet.dlc import DlcDocument, Quoted, parse_dlc
from lnet.errors import CommandError, NidError
from lnet.networks import LNET_MAX_INTERFACES, Bonding, NetworkGroup
from lnet.nid import Net, Nid
from lnet.node import LnetNode
from lnet.objects import KibDev, KibNet, KibRoute, LnetNi
from lnet.rails import RailPeer
from lnet.targets import KibTarget

Document = dict[str, Any]
_T = TypeVar("_T")

OwnerOf = Callable[[IPv4Address], str | None]
"""Returns the name of the host with an address, or None where no host has it."""


def nobody(addr: IPv4Address) -> None:
    """Know no owner of any address."""
    return


class Lnetctl:
    """Commands on one node. A command raises CommandError if the real tool would print an errno and fail."""

    def __init__(
        self,
        node: LnetNode,
        owner_of: OwnerOf = nobody,
        bonding_of: Callable[[Net], Bonding] = lambda net: Bonding.O2IBS,
    ) -> None:
        """Make it. `bonding_of` says how a network that is added uses several interfaces."""
        self._node = node
        self._bonding_of = bonding_of
        self._owner_of = owner_of

    # --- o2ibs: the targets --------------------------------------------------------------------------------

    def o2ibs_add(self, nid: str, ips: Iterable[str]) -> Document:
        """Add a target.

        Raises:  CommandError: EINVAL: a bad NID or address. EEXIST: the NID already has a different target.
        """
        target = _checked(lambda: KibTarget.of(nid, ips))
        self._check_target(target)
        self._put_target(target)
        return {}

    def o2ibs_del(self, nid: str) -> Document:
        """Remove a target.

        Raises:  CommandError: EINVAL: a bad NID. ENOENT: no such target.
        """
        parsed = _checked(lambda: Nid.parse(nid))
        if not self._node.lnd.remove_target(parsed, self._node.time()):
            raise CommandError(errno.ENOENT, f"no target {parsed}{self._known_targets()}")
        self._node.poll()
        return {}

    def o2ibs_show(self, net: str | None = None) -> Document:
        """Show all targets, or those on one network."""
        wanted = None if net is None else _checked(lambda: Net.parse(net))
        return {"o2ibs": [_target_document(target) for target in self._node.lnd.targets.on_net(wanted)]}

    def o2ibs_check(self, net: str) -> Document:
        """Check that targets and devices match.

        Returns: `check` with `status: ok`, or with the error and the correction for each finding.
        Raises:  CommandError: EINVAL: not a network. ENOENT: this node does not have the network.
        """
        wanted = self._ni(net)
        findings = list(self._findings(wanted))
        summary: Document = {"net": str(wanted.ni_data.net), "status": "failed" if findings else "ok"}
        if findings:
            summary["findings"] = findings
        return {"check": [summary]}

    def _findings(self, ni: LnetNi) -> Iterable[Document]:
        targets = self._node.lnd.targets
        nid, own = ni.ni_nid, tuple(dev.addr for dev in ni.ni_data.ibn_devs)
        right = f"o2ibs add --nid {nid} --ips {' '.join(map(str, own))}"
        local = targets.get(nid)
        if local is None:
            yield _finding(nid, errno.ENOENT, f"local NID {nid} has no target entry", right)
        elif set(local.tg_addr) != set(own):
            text = f"target {local} is not this node's own group, {' '.join(map(str, own))}"
            yield _finding(nid, errno.EINVAL, text, f"o2ibs del --nid {nid}, then {right}")
        taken: dict[IPv4Address, Nid] = {}
        for target in targets.on_net(nid.net):
            for addr in target.tg_addr:
                if self._node.resolve(addr) is None:
                    text = f"no port of the fabric has address {addr} of {target.tg_nid}"
                    yield _finding(target.tg_nid, errno.EADDRNOTAVAIL, text, "the address of an HFI port")
                elif (owner := self._owner_of(addr)) != (peer := self._owner_of(target.tg_nid.addr)):
                    text = f"address {addr} of {target.tg_nid} is on host {owner}, the NID is on host {peer}"
                    right = f"addresses of host {peer}"
                    yield _finding(target.tg_nid, errno.EINVAL, text, right)
                other = taken.setdefault(addr, target.tg_nid)
                if other != target.tg_nid:
                    text = f"address {addr} is in both {other} and {target.tg_nid}"
                    yield _finding(target.tg_nid, errno.EADDRINUSE, text, f"remove {addr} from one of them")

    def _check_target(self, target: KibTarget) -> None:
        known = self._node.lnd.targets.get(target.tg_nid)
        if known is not None and not known.learned and known != target:
            raise CommandError(errno.EEXIST, f"target {target.tg_nid} exists already: {known}")

    def _put_target(self, target: KibTarget) -> None:
        self._node.lnd.set_target(target, self._node.time())
        self._node.poll()

    def _known_targets(self) -> str:
        known = ", ".join(str(target.tg_nid) for target in self._node.lnd.targets)
        return f" (known: {known})" if known else ""

    # --- net: the groups -----------------------------------------------------------------------------------

    def net_add(self, net: str, interfaces: Iterable[str]) -> Document:
        """Add a network, or add interfaces to a network.

        Raises:  CommandError: EINVAL; ENODEV: unknown interface; EEXIST: the network already has the interface;
            ENOSPC: more than 16 interfaces; EBUSY: the network is being removed.
        """
        group = _checked(lambda: NetworkGroup(Net.parse(net), tuple(interfaces)))
        self._check_group(group, extend=True)
        self._put_group(replace(group, bonding=self._bonding_of(group.net)))
        return {}

    def net_del(self, net: str, interface: str | None = None) -> Document:
        """Remove a network or one of its interfaces; removing the last interface removes the network.

        Raises:  CommandError: EINVAL; ENOENT: unknown network; ENODEV: the network does not have the interface.
        """
        ni = self._ni(net)
        now = self._node.time()
        if interface is None:
            self._node.lnd.remove_net(ni.ni_data.net, now)
        else:
            self._node.lnd.remove_device(ni.ni_data.net, interface, now)
        self._node.poll()
        return {}

    def net_show(self, net: str | None = None) -> Document:
        """Show all networks, or one."""
        return {"net": [self._net_document(ni) for ni in self._nis(net)]}

    def _net_document(self, ni: LnetNi) -> Document:
        net, locals_ = ni.ni_data, self._node.lnd.rails.table.locals
        entries = []
        for nid, devs in net.nids.items():
            rail = locals_.get(devs[0])
            up = net.usable if rail is None else rail.up
            entry: Document = {
                "nid": str(nid),
                "status": "removing" if net.closing else "up" if up else "down",
                "interfaces": {index: dev.name for index, dev in enumerate(devs)},
            }
            entries.append(entry)
        return {"net type": str(net.net), "local NI(s)": entries}

    def net_status(self, net: str | None = None) -> Document:
        """Show devices and routes with their states and counters."""
        now = self._node.time()
        return {"net_status": [self._status_document(ni, now) for ni in self._nis(net)]}

    def _status_document(self, ni: LnetNi, now: float) -> Document:
        net, lnd = ni.ni_data, self._node.lnd
        port_of = {name: interface.port.name for name, interface in self._node.interfaces.items()}
        return {
            "net": str(net.net),
            "nid": str(ni.ni_nid),
            "status": net_state(net),
            "incarnation": lnd.stamp,
            "bonding": net.bonding.value,
            "devices": [
                _device_document(dev, port_of[dev.name]) | self._rail_document(dev) for dev in net.ibn_devs
            ],
            "routes": [
                _route_document(route, now, lnd.conns.stamp_of(route.rt_nid))
                for routes in net.ibn_routes.values()
                for route in routes
            ],
        }

    def _rail_document(self, dev: KibDev) -> Document:
        rail = self._node.lnd.rails.table.locals.get(dev)
        return {} if rail is None else {"nid": str(rail.nid), "health value": rail.health.value}

    # --- peer: Multi-Rail ----------------------------------------------------------------------------------

    def peer_show(self, nid: str | None = None) -> Document:
        """Show the peers with all their interfaces and the health of each, or the one that has a NID.

        Raises:  CommandError: EINVAL: not a NID. ENOENT: no peer has it.
        """
        peers = self._node.lnd.rails.table.remote_peers()
        if nid is not None:
            wanted = _checked(lambda: Nid.parse(nid))
            peers = [peer for peer in peers if wanted in peer.nis]
            if not peers:
                raise CommandError(errno.ENOENT, f"no peer has the NID {wanted}")
        return {"peer": [_peer_document(peer) for peer in peers]}

    def _nis(self, net: str | None) -> list[LnetNi]:
        return list(self._node.lnd.nis.values()) if net is None else [self._ni(net)]

    def _ni(self, net: str) -> LnetNi:
        parsed = _checked(lambda: Net.parse(net))
        ni = self._node.lnd.nis.get(parsed)
        if ni is None:
            known = ", ".join(map(str, self._node.lnd.nis)) or "none"
            raise CommandError(errno.ENOENT, f"no network {parsed} on this node (known: {known})")
        return ni

    def _check_group(self, group: NetworkGroup, *, extend: bool) -> bool:
        """Check that a group can be added; return False if it already exists as it is."""
        known = ", ".join(self._node.interfaces)
        for name in group.interfaces:
            if name not in self._node.interfaces:
                raise CommandError(errno.ENODEV, f"cannot add network: no interface {name} (known: {known})")
        ni = self._node.lnd.nis.get(group.net)
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
        if group.net in self._node.lnd.nis:
            self._node.add_device(group)
        else:
            self._node.add_net(group)

    # --- whole configurations ------------------------------------------------------------------------------

    def import_yaml(self, text: str) -> Document:
        """Import a configuration completely or, if anything in it is wrong, not at all.

        Returns: what in it is not applied here, and the status that it requested with `net_status`.
        Raises:  CommandError: EINVAL with the line; EEXIST; ENODEV; ENOENT.
        """
        document = parse_dlc(text)
        groups = [group for group in document.nets if self._check_group(group, extend=False)]
        for target in document.o2ibs:
            self._check_target(target)
        self._check_queries(document)
        for group in groups:
            alone = len(group.interfaces) == 1
            self._put_group(replace(group, bonding=self._bonding_of(group.net)) if alone else group)
        for target in document.o2ibs:
            self._put_target(target)
        status: list[Document] = []
        for net in document.net_status:
            status += self.net_status(None if net is None else str(net))["net_status"]
        return _not_applied(document) | ({"net_status": status} if document.net_status else {})

    def remove_yaml(self, text: str) -> Document:
        """Remove the networks, interfaces and targets of a configuration, all or, if anything is wrong, none of them.

        Raises:  CommandError: EINVAL with the line; ENOENT: no such network or target; ENODEV: no such interface.
        """
        document = parse_dlc(text)
        for group in document.nets:
            present = [dev.name for dev in self._ni(str(group.net)).ni_data.ibn_devs]
            for name in group.interfaces:
                if name not in present:
                    raise CommandError(
                        errno.ENODEV, f"{group.net} has no interface {name} (has: {', '.join(present)})"
                    )
        for target in document.o2ibs:
            if self._node.lnd.targets.get(target.tg_nid) is None:
                raise CommandError(errno.ENOENT, f"no target {target.tg_nid}{self._known_targets()}")
        for target in document.o2ibs:
            self.o2ibs_del(str(target.tg_nid))
        for group in document.nets:
            if len(group.interfaces) == len(self._ni(str(group.net)).ni_data.ibn_devs):
                self.net_del(str(group.net))
            else:
                for name in group.interfaces:
                    self.net_del(str(group.net), name)
        return _not_applied(document)

    def _check_queries(self, document: DlcDocument) -> None:
        coming = [group.net for group in document.nets]
        for net in document.net_status:
            if net is not None and net not in coming:
                self._ni(str(net))

    def export_yaml(self) -> Document:
        """Return the configuration in the format of `import_yaml`, without learned targets."""
        document: Document = {}
        if self._node.lnd.nis:
            document.update(self.net_show())
        targets = [target for target in self._node.lnd.targets if not target.learned]
        if targets:
            document["o2ibs"] = [_target_document(target) for target in targets]
        return document


def _checked(parse: Callable[[], _T]) -> _T:
    """Return the result of `parse`; turn a NidError into EINVAL."""
    try:
        return parse()
    except NidError as error:
        raise CommandError(errno.EINVAL, str(error)) from None


def _not_applied(document: DlcDocument) -> Document:
    if not document.ignored:
        return {}
    return {"import": [{"not applied": ", ".join(sorted(document.ignored))}]}


def _finding(nid: Nid, code: int, descr: str, right: str) -> Document:
    return {"nid": str(nid), "errno": -code, "descr": Quoted(descr), "right": Quoted(right)}


def _target_document(target: KibTarget) -> Document:
    document: Document = {"nid": str(target.tg_nid), "ips": [{"ip": str(addr)} for addr in target.tg_addr]}
    return document


def _peer_document(peer: RailPeer) -> Document:
    return {
        "primary nid": str(peer.primary),
        "Multi-Rail": peer.multi_rail,
        "peer state": peer.state.value,
        "peer ni": [
            {
                "nid": str(ni.nid),
                "state": "up" if ni.up else "down",
                "health stats": {"health value": ni.health.value, "ping_count": ni.health.ping_count},
            }
            for ni in peer.nis.values()
        ],
    }


def net_state(net: KibNet) -> str:
    """Return `up`, `down` (no usable device) or `removing`."""
    if net.closing:
        return "removing"
    return "up" if net.usable else "down"


def _device_document(dev: KibDev, port: str) -> Document:
    return {
        "interface": dev.name,
        "hfi port": port,
        "ip": str(dev.addr),
        "state": dev.state.value,
        "speed_gbps": round(dev.speed_gbps, 3),
    }


def _route_document(route: KibRoute, now: float, stamp: int) -> Document:
    document: Document = {
        "nid": str(route.rt_nid),
        "dev": route.rt_dev.name,
        "local ip": str(route.rt_dev.addr),
        "remote ip": str(route.rt_addr),
        "state": route.state.value,
        "statistics": {
            "messages": route.counters.messages,
            "bytes": route.counters.bytes,
            "retries": route.counters.retries,
            "connects": route.counters.connects,
            "down_s": round(route.down_for(now), 3),
        },
    }
    if stamp:
        document["peer incarnation"] = stamp
    if route.counters.rejected:
        document["rejected"] = dict(route.counters.rejected)
    if route.last_error:
        document["last error"] = Quoted(route.last_error)
    return document
