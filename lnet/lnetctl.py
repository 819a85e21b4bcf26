"""The lnetctl commands on one node, without the command line: arguments in as text, the printed documents out."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable
from ipaddress import IPv4Address
from typing import Any, TypeVar

from lnet.dlc import DlcDocument, Quoted, parse_dlc
from lnet.errors import CommandError, NidError
from lnet.networks import NetworkGroup
from lnet.nid import Net, Nid
from lnet.node import LnetNode
from lnet.objects import KibDev, KibNet, KibRoute, LnetNi
from lnet.targets import KibTarget

Document = dict[str, Any]
_T = TypeVar("_T")


class Lnetctl:
    """Commands on one node. A command raises CommandError if the real tool would print an errno and fail."""

    def __init__(self, node: LnetNode) -> None:
        self._node = node

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
        self._put_group(group)
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
        return {"net": [_net_document(ni) for ni in self._nis(net)]}

    def net_status(self, net: str | None = None) -> Document:
        """Show devices and routes with their states and counters."""
        now = self._node.time()
        return {"net_status": [_status_document(ni, now) for ni in self._nis(net)]}

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
        if len(present) + len(group.interfaces) > 16:
            raise CommandError(errno.ENOSPC, f"cannot add network: {group.net} would have more than 16")
        return True

    def _put_group(self, group: NetworkGroup) -> None:
        if group.net in self._node.lnd.nis:
            self._node.add_device(group)
        else:
            self._node.add_net(group)

    # --- whole configurations ------------------------------------------------------------------------------

    def import_yaml(self, text: str) -> Document:
        """Import a configuration completely or, if anything in it is wrong, not at all.

        Returns: the status that the document requested with `net_status`.
        Raises:  CommandError: EINVAL with the line; EEXIST; ENODEV; ENOENT.
        """
        document = parse_dlc(text)
        groups = [group for group in document.nets if self._check_group(group, extend=False)]
        for target in document.o2ibs:
            self._check_target(target)
        self._check_queries(document)
        for group in groups:
            self._put_group(group)
        for target in document.o2ibs:
            self._put_target(target)
        status: list[Document] = []
        for net in document.net_status:
            status += self.net_status(None if net is None else str(net))["net_status"]
        return {"net_status": status} if document.net_status else {}

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


def _finding(nid: Nid, code: int, descr: str, right: str) -> Document:
    return {"nid": str(nid), "errno": -code, "descr": Quoted(descr), "right": Quoted(right)}


def _target_document(target: KibTarget) -> Document:
    document: Document = {"nid": str(target.tg_nid), "ips": [{"ip": str(addr)} for addr in target.tg_addr]}
    return document


def _net_document(ni: LnetNi) -> Document:
    net = ni.ni_data
    interfaces = {index: dev.name for index, dev in enumerate(net.ibn_devs)}
    local = {"nid": str(ni.ni_nid), "status": net_state(net), "interfaces": interfaces}
    return {"net type": str(net.net), "local NI(s)": [local]}


def net_state(net: KibNet) -> str:
    """Return `up`, `down` (no usable device) or `removing`."""
    if net.closing:
        return "removing"
    return "up" if any(dev.state.usable for dev in net.ibn_devs) else "down"


def _status_document(ni: LnetNi, now: float) -> Document:
    net = ni.ni_data
    routes = [route for routes in net.ibn_routes.values() for route in routes]
    return {
        "net": str(net.net),
        "nid": str(ni.ni_nid),
        "status": net_state(net),
        "devices": [_device_document(dev) for dev in net.ibn_devs],
        "routes": [_route_document(route, now) for route in routes],
    }


def _device_document(dev: KibDev) -> Document:
    return {
        "interface": dev.name,
        "ip": str(dev.addr),
        "state": dev.state.value,
        "speed_gbps": round(dev.speed_gbps, 3),
    }


def _route_document(route: KibRoute, now: float) -> Document:
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
    if route.last_error:
        document["last error"] = Quoted(route.last_error)
    return document
