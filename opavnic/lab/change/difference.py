"""What differs between a running lab and the lab file that it is to follow."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from hfi_sim.fabric.topology import Cable, NodeKind, Topology
from hfi_sim.fabric.topology.model import end_text
from opavnic.lab.file.host_setup import HostSetup
from opavnic.lab.file.lab_sections import Host
from opavnic.lab.file.loader import losses
from opavnic.lab.file.model import LabModel
from opavnic.world.em_node import EM_NODE
from opavnic.world.host_backends.given import interface_name
from vema.base.sections import AS_WRITTEN
from vema.em.desired.desired import VeswSection

_FOLLOWED: Final = ("hosts", "vesws", "fabric", "faults", "em")
"""Sections of which at least a part may change while a lab runs."""
_SET_UP_ANEW: Final = ("addresses", "sysctls", "routes", "qdiscs", "exec")
"""Keys of a host that is set up anew where they change."""

_FROM_THE_START: Final = ("link_local", "neighbours")
"""Keys of a virtual switch that its VNICs begin with."""


@dataclass(frozen=True, slots=True)
class LabDifference:
    """The steps from one state of a lab to another."""

    before: LabModel
    after: LabModel
    hosts_gone: tuple[str, ...]
    hosts_new: tuple[str, ...]
    hosts_set_up: tuple[str, ...]
    """Hosts that stay, with other addresses, sysctls, routes or qdiscs."""
    switches_gone: tuple[str, ...]
    switches_new: tuple[str, ...]
    cables_gone: tuple[Cable, ...]
    cables_new: tuple[Cable, ...]
    faults_gone: tuple[str, ...]
    faults_new: tuple[str, ...]
    topology: Topology
    """The nodes of `after`."""

    @property
    def wiring(self) -> bool:
        """Whether hosts, switches or cables come or go."""
        return bool(
            self.hosts_gone
            or self.hosts_new
            or self.switches_gone
            or self.switches_new
            or self.cables_gone
            or self.cables_new
        )

    def lines(self) -> list[str]:
        """Say what is to be done, a line each."""
        said = [f"host remove {name}" for name in self.hosts_gone]
        said += [f"switch remove {name}" for name in self.switches_gone]
        of_hosts = {*self.hosts_gone, *self.hosts_new}
        gone = [cable for cable in self.cables_gone if not _nodes(cable, self.before) & of_hosts]
        said += [f"link remove {cable.name.replace('--', ' ')}" for cable in gone]
        said += [f"switch add {name}" for name in self.switches_new]
        said += [f"host add {name}" for name in self.hosts_new]
        new = [cable for cable in self.cables_new if not _nodes(cable, self.after) & of_hosts]
        said += [f"link add {cable.name.replace('--', ' ')}" for cable in new]
        said += [f"host {name}: {_keys(name, self.before, self.after)}" for name in self.hosts_set_up]
        said += _vesw_lines(self.before, self.after)
        if self.before.em.mac != self.after.em.mac:
            said.append(f"em: mac {self.after.em.mac}")
        said += [f"fault remove {fault}" for fault in self.faults_gone]
        return said + [f"fault add {fault}" for fault in self.faults_new]


def _nodes(cable: Cable, model: LabModel) -> set[str]:
    """Return the hosts at the ends of a cable, and its switches."""
    return {end[0] if end[0] in model.hosts else end[0].partition(".")[0] for end in (cable.a, cable.b)}


def _keys(name: str, before: LabModel, after: LabModel) -> str:
    """Return what of a host is set up anew; empty: nothing."""
    one, other = before.hosts[name], after.hosts[name]
    changed = [key for key in _SET_UP_ANEW if getattr(one, key) != getattr(other, key)]
    if before.numbers[name] != after.numbers[name]:
        return ", ".join([*changed, "number"])
    vesws = {vesw.id: vesw.subnet for vesw in before.vesws}
    stay = {
        interface_name(vesw.name, nth)
        for vesw in after.vesws_of(name)
        if vesws.get(vesw.id) == vesw.subnet
        for nth in range(len(after.vnics[name]))
    }
    moved = any(
        (had := before.vnic_addresses.get((name, title))) is not None
        and after.vnic_addresses.get((name, title), had) != had
        for title in stay
    )
    return ", ".join(changed if "addresses" in changed or not moved else ["addresses", *changed])


def _vesw_lines(before: LabModel, after: LabModel) -> list[str]:
    old = {vesw.name: vesw for vesw in before.vesws}
    new = {vesw.name: vesw for vesw in after.vesws}
    said = [f"vesw remove {name}" for name in old if name not in new]
    said += [f"vesw add {name}: {', '.join(new[name].members)}" for name in new if name not in old]
    for name in [name for name in new if name in old]:
        one, other = old[name], new[name]
        said += [f"vesw leave {name} {host}" for host in one.members if host not in other.members]
        said += [f"vesw join {name} {host}" for host in other.members if host not in one.members]
        changed = {
            key
            for key in type(one).model_fields
            if key not in ("members", "vports") and getattr(one, key) != getattr(other, key)
        }
        if changed:
            written = other.model_dump(mode="json", include=changed, context=AS_WRITTEN)
            said += [
                f"vesw {name}: {key} {f'{value:#06x}' if key == 'pkey' else value}"
                for key, value in written.items()
            ]
    return said


def refusals(before: LabModel, after: LabModel) -> Iterator[str]:
    """Yield what differs and cannot change while a lab runs."""
    for key in type(before).model_fields:
        if key not in _FOLLOWED and getattr(before, key) != getattr(after, key, None):
            yield key
    for key in type(before.fabric).model_fields:
        if key not in ("topology", "link") and getattr(before.fabric, key) != getattr(after.fabric, key):
            yield f"fabric.{key}"
    for key in type(before.em).model_fields:
        if key != "mac" and getattr(before.em, key) != getattr(after.em, key):
            yield f"em.{key}"
    there = {vesw.name: vesw for vesw in before.vesws}
    for vesw in after.vesws:
        for key in _FROM_THE_START if vesw.name in there else ():
            if getattr(there[vesw.name], key) != getattr(vesw, key):
                yield f"vesws.{vesw.name}.{key}"
    for name, host in after.hosts.items():
        known = before.hosts.get(name)
        if known is None:
            yield from _refused_host(name, host)
            continue
        for key in type(known).model_fields:
            if key not in HostSetup.model_fields and getattr(known, key) != getattr(host, key):
                yield f"hosts.{name}.{key}"
    for name, host in before.hosts.items():
        if name not in after.hosts:
            yield from _refused_host(name, host)


def _refused_host(name: str, host: Host) -> Iterator[str]:
    """Yield why a host cannot come or go: parts of installed packages start and end with the lab."""
    if not host.is_apart:
        yield f"hosts.{name}: only hosts with a namespace or kernel of the lab's own come and go"
    sections = type(host).model_fields.keys() - Host.model_fields.keys()
    yield from (f"hosts.{name}.{key}" for key in sorted(sections) if getattr(host, key) is not None)


def difference(before: LabModel, after: LabModel, there: Topology, wanted: Topology) -> LabDifference:
    """Return the steps from one state of a lab to another.

    Args:  there: how it is cabled. wanted: how it is to be cabled; where the managers are does not count.
    """
    old_cables = {frozenset((cable.a, cable.b)): cable for cable in _cables(there)}
    new_cables = {frozenset((cable.a, cable.b)): cable for cable in _cables(wanted)}
    gone = [
        cable
        for ends, cable in old_cables.items()
        if ends not in new_cables or not _is_same(cable, new_cables[ends])
    ]
    new = [
        cable
        for ends, cable in new_cables.items()
        if ends not in old_cables or not _is_same(cable, old_cables[ends])
    ]
    switches = {node.name for node in there.of_kind(NodeKind.SWITCH)}
    wanted_switches = {node.name for node in wanted.of_kind(NodeKind.SWITCH)}
    old_faults, new_faults = [*losses(before), *before.faults], [*losses(after), *after.faults]
    return LabDifference(
        before,
        after,
        hosts_gone=tuple(name for name in before.hosts if name not in after.hosts),
        hosts_new=tuple(name for name in after.hosts if name not in before.hosts),
        hosts_set_up=tuple(
            name for name in after.hosts if name in before.hosts and _keys(name, before, after)
        ),
        switches_gone=tuple(sorted(switches - wanted_switches)),
        switches_new=tuple(sorted(wanted_switches - switches)),
        cables_gone=tuple(gone),
        cables_new=tuple(new),
        faults_gone=tuple(fault for fault in old_faults if fault not in new_faults),
        faults_new=tuple(fault for fault in new_faults if fault not in old_faults),
        topology=wanted,
    )


def _is_same(cable: Cable, other: Cable) -> bool:
    """Return whether two cables of the same ends, in either order, have the same options."""
    return cable.link == (other.link if cable.a == other.a else other.link.back)


def _cables(topology: Topology) -> Iterator[Cable]:
    return (cable for cable in topology.cables if EM_NODE not in (cable.a[0], cable.b[0]))


def only_nodes(topology: Topology, switches: Collection[str], hosts: Collection[str]) -> Topology:
    """Return some nodes of a topology, without cables."""
    nodes = {name: node for name, node in topology.nodes.items() if name in switches or node.host in hosts}
    return Topology(topology.name, nodes, [])


def with_other_rights(steps: LabDifference) -> list[str]:
    """Return the hosts that stay whose partitions or rights to manage change."""

    def rights(model: LabModel) -> dict[str, object]:
        managing = model.managing_hosts
        return {
            name: ([(vesw.pkey, port.name) for vesw, port in model.vnics[name]], name in managing)
            for name in model.hosts
        }

    before, after = rights(steps.before), rights(steps.after)
    return [name for name in after if name in before and before[name] != after[name]]


def has_other_pkeys(steps: LabDifference) -> bool:
    """Return whether a virtual switch that stays gets another P_Key."""
    before = {vesw.id: vesw.pkey for vesw in steps.before.vesws}
    return any(before.get(vesw.id, vesw.pkey) != vesw.pkey for vesw in steps.after.vesws)


def remaining_members(vesws: list[VeswSection], after: list[VeswSection]) -> list[VeswSection]:
    """Return the virtual switches of a manager without the members that leave."""
    wanted = {vesw.id: set(vesw.members) for vesw in after}
    found = []
    for vesw in vesws:
        if vesw.id not in wanted:
            continue
        members = [name for name in vesw.members if name in wanted[vesw.id]]
        if members == list(vesw.members):
            found.append(vesw)
        elif members:
            ports = [name for name in vesw.default_ports if name in members]
            found.append(vesw.model_copy(update={"members": members, "default_ports": ports}))
    return found


def as_cabled(before: Topology, steps: LabDifference) -> Topology:
    """Return a topology after some steps; the node of the managers stays where it is."""
    gone = {frozenset((cable.a, cable.b)) for cable in steps.cables_gone}
    nodes = {
        name: node for name, node in before.nodes.items() if name in steps.topology.nodes or name == EM_NODE
    }
    for name, node in steps.topology.nodes.items():
        if name != EM_NODE and (name not in nodes or node.kind is NodeKind.SWITCH):
            nodes[name] = node
    cables = [cable for cable in before.cables if frozenset((cable.a, cable.b)) not in gone]
    return Topology(before.name, nodes, [*cables, *steps.cables_new])


def half_cabled(
    before: Topology, links: Mapping[frozenset[str], bool], nodes: Collection[str], steps: LabDifference
) -> Topology:
    """Return a topology of which only a part of some steps was done.

    Args:  links: those that there are, by their ends, and whether each was there before. nodes: those that there are.
    """
    old, new = (
        {frozenset(map(end_text, (cable.a, cable.b))): cable for cable in topology.cables}
        for topology in (before, steps.topology)
    )
    known = {**steps.topology.nodes, **before.nodes}
    cables = [(old if was_there else new)[ends] for ends, was_there in links.items()]
    return Topology(before.name, {name: node for name, node in known.items() if name in nodes}, cables)
