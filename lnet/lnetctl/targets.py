"""`lnetctl o2ibs`: the targets."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from ipaddress import IPv4Address

from lnet.base.errors import CommandError
from lnet.base.nid import Net, Nid
from lnet.lnetctl.commands import Commands, Document, checked, nid_of
from lnet.objects.objects import KibNet
from lnet.settings.targets import KibTarget
from lnet.settings.yaml_text import Quoted


class TargetCommands(Commands):
    """Commands on the targets of a node."""

    def o2ibs_add(self, nid: str, ips: Iterable[str]) -> Document:
        """Add a target.

        Raises:  CommandError: EINVAL: a bad NID or address. EEXIST: the NID already has a different target.
        """
        target = checked(lambda: KibTarget.of(nid, ips))
        self._check_target(target)
        self._put_target(target)
        return {}

    def o2ibs_del(self, nid: str) -> Document:
        """Remove a target.

        Raises:  CommandError: EINVAL: a bad NID. ENOENT: no such target.
        """
        parsed = nid_of(nid)
        if not self._lnd.remove_target(parsed, self._node.time()):
            raise CommandError(errno.ENOENT, f"no target {parsed}{self._known_targets()}")
        self._node.poll()
        return {}

    def o2ibs_show(self, net: str | None = None) -> Document:
        """Show all targets, or those on one network."""
        wanted = None if net is None else checked(lambda: Net.parse(net))
        return {"o2ibs": [target_document(target) for target in self._lnd.targets.on_net(wanted)]}

    def o2ibs_check(self, net: str) -> Document:
        """Check that targets and devices match.

        Returns: `check` with `status: ok`, or with the error and the correction for each finding.
        Raises:  CommandError: EINVAL: not a network. ENOENT: this node does not have the network.
        """
        wanted = self._ni(net)
        findings = list(self._findings(wanted))
        summary: Document = {"net": str(wanted.net), "status": "failed" if findings else "ok"}
        if findings:
            summary["findings"] = findings
        return {"check": [summary]}

    def _findings(self, ni: KibNet) -> Iterable[Document]:
        targets = self._lnd.targets
        nid, own = ni.nid, tuple(dev.addr for dev in ni.ibn_devs)
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
        known = self._lnd.targets.get(target.tg_nid)
        if known is not None and not known.learned and known != target:
            raise CommandError(errno.EEXIST, f"target {target.tg_nid} exists already: {known}")

    def _put_target(self, target: KibTarget) -> None:
        self._lnd.set_target(target, self._node.time())
        self._node.poll()

    def _known_targets(self) -> str:
        known = ", ".join(str(target.tg_nid) for target in self._lnd.targets)
        return f" (known: {known})" if known else ""


def _finding(nid: Nid, code: int, descr: str, right: str) -> Document:
    return {"nid": str(nid), "errno": -code, "descr": Quoted(descr), "right": Quoted(right)}


def target_document(target: KibTarget) -> Document:
    """Return a target as an entry of the section `o2ibs`."""
    document: Document = {"nid": str(target.tg_nid), "ips": [{"ip": str(addr)} for addr in target.tg_addr]}
    return document
