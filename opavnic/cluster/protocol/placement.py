"""Which machine carries which node of a fabric: by name, otherwise spread evenly so that few links are cut.

Pure and deterministic: machines with the same lab file and the same list of machines compute the same placement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hfi_sim.base.did_you_mean import unknown_name
from hfi_sim.fabric.topology import NodeKind, Topology
from hfi_sim.fabric.topology.model import Cable
from opavnic.cluster.errors import ClusterInputError

_PASSES = 8
"""Rounds in which switches may move to where their neighbours are; every round cuts fewer links."""


@dataclass(frozen=True, slots=True)
class Placement:
    """The placement of all nodes."""

    machine_of: Mapping[str, str]
    """The machine of each node of the topology: of each HFI, with all HFIs of its host, and of each switch."""
    hosts: Mapping[str, tuple[str, ...]]
    """The hosts of each machine, in the order of the lab file; empty for a machine without hosts."""
    cut: tuple[Cable, ...]
    """The cables whose ends are on different machines, in the order of the topology."""

    def remote_nodes(self, machine: str) -> frozenset[str]:
        """Return the nodes that `machine` does not carry."""
        return frozenset(node for node, at in self.machine_of.items() if at != machine)

    def peers(self, machine: str) -> dict[str, tuple[int, str]]:
        """Return the cut links that end at `machine`: the direction that leaves from there (0 or 1), and the peer."""
        found = {}
        for cable in self.cut:
            near, far = (self.machine_of[end[0]] for end in (cable.a, cable.b))
            if machine in (near, far):
                found[cable.name] = (0, far) if machine == near else (1, near)
        return found


def place(
    topology: Topology,
    machines: Sequence[str],
    *,
    wanted: Mapping[str, str] | None = None,
    labels: Mapping[str, Sequence[str]] | None = None,
    managers: str | None = None,
) -> Placement:
    """Place the nodes of a topology.

    Args:    machines: names, the coordinator first. wanted: host or switch -> machine or label, from the lab file.
             labels: machine -> its labels. managers: the node of the SM and the EM, which the coordinator carries.
    Raises:  ClusterInputError: `wanted` names an unknown node or machine; there is no machine.
    """
    if not machines:
        raise ClusterInputError("a fabric needs at least one machine")
    hosts = {name: [node.name for node in nodes] for name, nodes in topology.hosts().items()}
    switches = [node.name for node in topology.of_kind(NodeKind.SWITCH)]
    bearing: dict[str, list[str]] = {machine: [machine] for machine in machines}
    for machine in machines:
        for label in (labels or {}).get(machine, ()):
            if label not in machines:
                bearing.setdefault(label, []).append(machine)
    turns = dict.fromkeys(bearing, 0)
    asked, wanted = dict(wanted or {}), {}
    for name, where in asked.items():
        if name not in hosts and name not in switches:
            raise ClusterInputError(f"place: {unknown_name('host or switch', name, [*hosts, *switches])}")
        if where not in bearing:
            raise ClusterInputError(f"place: {name}: {unknown_name('machine or label', where, bearing)}")
        wanted[name] = bearing[where][turns[where] % len(bearing[where])]
        turns[where] += 1
    if managers is not None:
        wanted[managers] = machines[0]
    neighbours = _neighbours(topology)
    at = _place_hosts(hosts, machines, wanted, managers, neighbours)
    machine_of = {hfi: at[host] for host, hfis in hosts.items() for hfi in hfis}
    machine_of |= _place_switches(switches, machines, wanted, machine_of, neighbours)
    by_machine = {
        machine: tuple(host for host in hosts if host != managers and at[host] == machine)
        for machine in machines
    }
    cut = tuple(cable for cable in topology.cables if machine_of[cable.a[0]] != machine_of[cable.b[0]])
    return Placement(machine_of, by_machine, cut)


def _neighbours(topology: Topology) -> dict[str, list[str]]:
    """Return the neighbours of each node, once for each cable."""
    found: dict[str, list[str]] = {name: [] for name in topology.nodes}
    for cable in topology.cables:
        found[cable.a[0]].append(cable.b[0])
        found[cable.b[0]].append(cable.a[0])
    return found


def _place_hosts(
    hosts: Mapping[str, Sequence[str]],
    machines: Sequence[str],
    wanted: Mapping[str, str],
    managers: str | None,
    neighbours: Mapping[str, Sequence[str]],
) -> dict[str, str]:
    """Spread hosts evenly; hosts of one switch stay together as far as that keeps it even."""
    at = {host: wanted[host] for host in hosts if host in wanted}
    load = dict.fromkeys(machines, 0)
    for host, machine in at.items():
        load[machine] += host != managers
    free = [host for host in hosts if host not in at]
    order = {host: place for place, host in enumerate(hosts)}
    first: dict[str, int] = {}
    for host in hosts:
        first.setdefault(_switch_of(hosts[host], neighbours), order[host])
    free.sort(key=lambda host: (first[_switch_of(hosts[host], neighbours)], order[host]))
    for place_, host in enumerate(free):
        left = len(free) - place_
        at[host] = _next_machine(machines, load, left)
        load[at[host]] += 1
    return at


def _switch_of(hfis: Sequence[str], neighbours: Mapping[str, Sequence[str]]) -> str:
    return next((far for hfi in hfis for far in neighbours[hfi]), "")


def _next_machine(machines: Sequence[str], load: Mapping[str, int], left: int) -> str:
    """Return the first machine with less than its share of all hosts, those placed and the `left` remaining."""
    share, more = divmod(sum(load.values()) + left, len(machines))
    below = [machine for machine in machines if load[machine] < share + (machines.index(machine) < more)]
    return below[0] if below else min(machines, key=lambda machine: (load[machine], machines.index(machine)))


def _place_switches(
    switches: Sequence[str],
    machines: Sequence[str],
    wanted: Mapping[str, str],
    hosts_at: Mapping[str, str],
    neighbours: Mapping[str, Sequence[str]],
) -> dict[str, str]:
    """Put each switch on the machine that most of its cables lead to; on a tie, the one with fewest switches."""
    at = {name: wanted[name] for name in switches if name in wanted}
    free = [name for name in switches if name not in at]

    def best(name: str) -> str:
        joined = dict.fromkeys(machines, 0)
        for far in neighbours[name]:
            if (machine := hosts_at.get(far) or at.get(far)) is not None:
                joined[machine] += 1
        load = [machine for other, machine in at.items() if other != name]
        return min(machines, key=lambda it: (-joined[it], load.count(it), machines.index(it)))

    # switches with hosts first: those that only join switches follow them
    for name in sorted(free, key=lambda name: not any(far in hosts_at for far in neighbours[name])):
        at[name] = best(name)
    for _ in range(_PASSES):
        moved = False
        for name in free:
            here = at[name]
            where = best(name)
            if where != here and _joined(name, where, at, hosts_at, neighbours) > _joined(
                name, here, at, hosts_at, neighbours
            ):
                at[name] = where
                moved = True
        if not moved:
            break
    return at


def _joined(
    name: str,
    machine: str,
    at: Mapping[str, str],
    hosts_at: Mapping[str, str],
    neighbours: Mapping[str, Sequence[str]],
) -> int:
    return sum((hosts_at.get(far) or at.get(far)) == machine for far in neighbours[name])
