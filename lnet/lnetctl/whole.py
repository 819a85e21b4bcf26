"""`lnetctl import` and `export` of whole configurations; of them `o2ibs`, `set`, `global` and `stats`."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Mapping
from dataclasses import replace
from ipaddress import IPv4Address
from typing import Final

from lnet.base.errors import CommandError
from lnet.base.nid import Net, Nid
from lnet.lnetctl.commands import Commands, Document, checked, nid_of, number_of
from lnet.lnetctl.documents import BACKUP, net_document
from lnet.lnetctl.nets import NetCommands, PeerCommands
from lnet.objects.objects import KibNet, is_multi_rail
from lnet.objects.stats import COUNTERS
from lnet.settings.config import LndConfig
from lnet.settings.dlc import DlcDocument, PeerEntry, parse_dlc
from lnet.settings.networks import Bonding, NetworkGroup
from lnet.settings.settings import ALIASES, RESET, Settings
from lnet.settings.targets import KibTarget
from lnet.settings.yaml_text import Quoted

# --- `lnetctl o2ibs`: the targets --------------------------------------------------------------------------


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
        """Remove a target. Raises: CommandError: EINVAL: a bad NID. ENOENT: no such target."""
        parsed = nid_of(nid)
        if not self._lnd.remove_target(parsed, self._node.time()):
            raise CommandError(errno.ENOENT, f"no target {parsed}{self._known_targets()}")
        self._node.poll()
        return {}

    def o2ibs_show(self, net: str | None = None) -> Document:
        """Show all targets, or those on one network."""
        wanted = None if net is None else checked(lambda: Net.parse(net))
        every = self._lnd.targets.values()
        return {"o2ibs": [target_document(one) for one in every if wanted in (None, one.tg_nid.net)]}

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
        for target in [target for target in targets.values() if target.tg_nid.net == nid.net]:
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
        known = ", ".join(map(str, self._lnd.targets))
        return f" (known: {known})" if known else ""


def _finding(nid: Nid, code: int, descr: str, right: str) -> Document:
    return {"nid": str(nid), "errno": -code, "descr": Quoted(descr), "right": Quoted(right)}


def target_document(target: KibTarget) -> Document:
    """Return a target as an entry of the section `o2ibs`."""
    document: Document = {"nid": str(target.tg_nid), "ips": [{"ip": str(addr)} for addr in target.tg_addr]}
    return document


# -----------------------------------------------------------------------------------------------------------

# --- `lnetctl set`, `global` and `stats` -------------------------------------------------------------------


class GlobalCommands(Commands):
    """Commands on the settings and counters of a node."""

    def set_value(self, setting: str, value: str) -> Document:
        """Change one setting.

        Raises:  CommandError: EINVAL: an unknown setting, not an integer, or out of range.
        """
        self._apply({ALIASES.get(setting, setting): number_of(setting, value)})
        return {}

    def global_show(self) -> Document:
        """Show all settings."""
        return {"global": self._settings.document(self._lnd.config)}

    def stats_show(self) -> Document:
        """Show the counters of the node."""
        lnd = self._lnd
        lnd.traffic.in_flight(lnd.unreported)
        return {"statistics": {name: lnd.traffic.counters[name] for name in COUNTERS}}

    def stats_reset(self) -> Document:
        """Start the counters of the node anew; those of interfaces go on, as in LNet."""
        self._lnd.traffic.counters.clear()
        return {}

    def _check_settings(self, values: Mapping[str, int]) -> None:
        """Check that `_apply` would change all. Raises: CommandError: EINVAL."""
        _changed(Settings(), self._lnd.config, values)

    def _apply(self, values: Mapping[str, int]) -> None:
        self._check_settings(values)
        config = _changed(self._settings, self._lnd.config, values)
        if config != self._lnd.config:
            self._lnd.rails.reconfigure(config)
            self._node.poll()


_FIRST: Final = ("transaction_timeout", "health_sensitivity", "retry_count")


def _changed(settings: Settings, config: LndConfig, values: Mapping[str, int]) -> LndConfig:
    """Return the configuration with all values changed, each checked against the new values of those that limit it."""
    if "retry_count" in values and len(values) > 1:
        config = replace(config, retry_count=0)
    for name in sorted(values, key=lambda name: _FIRST.index(name) if name in _FIRST else len(_FIRST)):
        config = settings.changed(config, name, values[name])
    return config


# -----------------------------------------------------------------------------------------------------------

_NETS, _PEERS = "2", "3"
"""The levels of `-v` that the sections of an export have."""


class Lnetctl(TargetCommands, NetCommands, PeerCommands, GlobalCommands):
    """All commands on one node."""

    # --- import --add --------------------------------------------------------------------------------------

    def import_yaml(self, text: str, skip: str | None = None) -> Document:
        """Add a configuration to the present one: all of it or, if anything in it is wrong, nothing.

        Args:    skip: leave out what is not built here; see `parse_dlc`.
        Returns: the sections that are not applied, and the status requested by `net_status`.
        Raises:  CommandError: EINVAL with the line; EEXIST; ENODEV; ENOENT.
        """
        document = parse_dlc(text, skip=bool(skip))
        groups = [group for group in document.nets if self._check_group(group, extend=False)]
        for target in document.o2ibs:
            self._check_target(target)
        self._check_settings(document.settings)
        self._check_queries(document)
        coming = {group.net: self._bonding_for(group) for group in groups}
        peers = [peer for peer in document.peers if self._check_coming_peer(peer, coming)]
        for group in groups:
            self._put_group(replace(group, bonding=coming[group.net]))
        for target in document.o2ibs:
            self._put_target(target)
        for peer in peers:
            self._lnd.rails.add_peer(peer.primary, peer.nids, multi_rail=peer.multi_rail)
        self._apply(document.settings)
        self._node.poll()
        status: list[Document] = []
        for net in document.net_status:
            status += self.net_status(None if net is None else str(net))["net_status"]
        if document.pings or document.discoveries:
            document.ignored |= {"ping", "discover"} & set(document.sections)
        return _not_applied(document) | ({"net_status": status} if document.net_status else {})

    def _bonding_for(self, group: NetworkGroup) -> Bonding:
        """Return the bonding of a network in a document; one with a single interface gets that of the lab file."""
        return self._bonding_of(group.net) if len(group.interfaces) == 1 else group.bonding

    def _check_coming_peer(self, peer: PeerEntry, coming: dict[Net, Bonding]) -> bool:
        """Check that a peer can be added; return False if there is nothing to do: it is known, bonded, or this node."""
        nets = {nid.net for nid in (peer.primary, *peer.nids)}
        lnd = self._lnd
        here = {net: is_multi_rail(lnd.nis.get(net)) for net in nets if net in lnd.nis}
        here |= {net: bonding is Bonding.MULTI_RAIL for net, bonding in coming.items() if net in nets}
        own = {nid for ni in lnd.nis.values() for nid in ni.nids}
        if own & {peer.primary, *peer.nids} or (here and not any(here.values()) and len(set(peer.nids)) <= 1):
            return False
        if all(net in lnd.nis for net in nets):
            self._check_peer(peer.primary, peer.nids)
            known = lnd.rails.table.peers.get(peer.primary)
            return known is None or not {peer.primary, *peer.nids} <= set(known.nis)
        missing = next((net for net in nets if net not in here), None)
        if missing is not None:
            raise CommandError(errno.EINVAL, f"peer {peer.primary}: this node has no network {missing}")
        if not all(here.values()):
            text = f"peer {peer.primary} has several NIDs, which a bonded network does not; use o2ibs"
            raise CommandError(errno.EINVAL, text)
        return True

    def _check_queries(self, document: DlcDocument) -> None:
        coming = [group.net for group in document.nets]
        for net in document.net_status:
            if net is not None and net not in coming:
                self._ni(str(net))

    # --- import --del --------------------------------------------------------------------------------------

    def remove_yaml(self, text: str, skip: str | None = None) -> Document:
        """Remove all parts of a configuration or, if anything in it is wrong, nothing; reset its settings to defaults.

        Raises:  CommandError: EINVAL with the line; ENOENT: no such network, peer or target; ENODEV: no such interface.
        """
        document = parse_dlc(text, add=False, skip=bool(skip))
        for net in document.whole_nets:
            self._ni(str(net))
        for group in document.nets:
            present = [dev.name for dev in self._ni(str(group.net)).ibn_devs]
            for name in group.interfaces:
                if name not in present:
                    raise CommandError(
                        errno.ENODEV, f"{group.net} has no interface {name} (has: {', '.join(present)})"
                    )
        for target in document.o2ibs:
            if target.tg_nid not in self._lnd.targets:
                raise CommandError(errno.ENOENT, f"no target {target.tg_nid}{self._known_targets()}")
        peers = [peer for peer in document.peers if self._is_rail_peer(peer)]
        for peer in peers:
            self._check_removal(peer.primary, [])
        for peer in peers:
            self._remove_peer(peer.primary, [])
        for target in document.o2ibs:
            self.o2ibs_del(str(target.tg_nid))
        for net in document.whole_nets:
            self.net_del(str(net))
        for group in document.nets:
            if len(group.interfaces) == len(self._ni(str(group.net)).ibn_devs):
                self.net_del(str(group.net))
            else:
                for name in group.interfaces:
                    self.net_del(str(group.net), name)
        self._apply({name: RESET[name] for name in document.settings if name in RESET})
        return _not_applied(document)

    def _is_rail_peer(self, peer: PeerEntry) -> bool:
        """Return whether a peer can be removed: those of bonded networks come and go with their messages."""
        ni = self._lnd.nis.get(peer.primary.net)
        return ni is None or is_multi_rail(ni)

    # --- import --show, export -----------------------------------------------------------------------------

    def show_yaml(self, text: str) -> Document:
        """Show what a configuration names, as it is on this node.

        Raises:  CommandError: EINVAL with the line; ENOENT: no such network or peer.
        """
        document = parse_dlc(text, add=False)
        shown: Document = {}
        nets = [*document.whole_nets, *(group.net for group in document.nets)]
        if "net" in document.sections:
            sections = [self.net_show(str(net))["net"] for net in nets] or [self.net_show()["net"]]
            shown["net"] = [entry for entries in sections for entry in entries]
        if "peer" in document.sections:
            known = [
                self.peer_show(str(peer.primary))["peer"]
                for peer in document.peers
                if self._is_rail_peer(peer) or peer.primary in self._lnd.messages.peers
            ]
            every = known if document.peers else [self.peer_show()["peer"]]
            shown["peer"] = [entry for entries in every for entry in entries]
        if "global" in document.sections:
            shown |= self.global_show()
        if "numa" in document.sections:
            shown["numa"] = {"range": self.global_show()["global"]["numa_range"]}
        if "statistics" in document.sections:
            shown |= self.stats_show()
        if "o2ibs" in document.sections:
            shown |= self.o2ibs_show()
        if "net_status" in document.sections:
            shown |= self.net_status()
        return shown

    def export_yaml(self, backup: str | None = None) -> Document:
        """Return the configuration in the format of `import_yaml`, without learned targets.

        Args:    backup: without state: only what is needed to configure a node again.
        """
        lnd = self._lnd
        document: Document = {}
        if backup:
            document["net"] = [net_document(lnd, ni, BACKUP) for ni in lnd.nis.values()]
            document["peer"] = self._peer_backup()
        else:
            document |= self.net_show(verbose=_NETS) | self.peer_show(verbose=_PEERS)
        document |= self.global_show()
        targets = [target for target in lnd.targets.values() if not target.learned]
        document["o2ibs"] = [target_document(target) for target in targets]
        return {name: section for name, section in document.items() if section}


def _not_applied(document: DlcDocument) -> Document:
    if not document.ignored:
        return {}
    return {"import": [{"not applied": ", ".join(sorted(document.ignored))}]}
