"""Which machine carries which node of a fabric: by name, the others in balance and so that little crosses machines.

Pure and deterministic: the same lab file, list of machines and loads give the same placement.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from hfi_sim.base.text import unknown_name
from hfi_sim.fabric.topology import NodeKind, Topology
from hfi_sim.fabric.topology.model import Cable
from opavnic.cluster.errors import ClusterError, ClusterInputError
from opavnic.cluster.protocol.assignment import Assignable, assign
from opavnic.state.lab import LabState

SLACK_PERCENT: Final = 10
"""How much more than its share of the load a machine may carry, if less crosses machines then."""
HOST: Final = 4
"""Cost of a packet at a host beside that in a switch, which sees it on two cables: a TAP, the kernel, checksums."""
UNMEASURED: Final = 1000
"""Traffic of the cable of a host beside one between switches, where nothing is measured: hosts stay with theirs."""
_KBIT: Final = 1000
MAX_LOADS: Final = 1 << 24
"""Bytes of a file of loads, at most."""


@dataclass(frozen=True, slots=True)
class Loads:
    """What a lab carried when it was measured (`opavnic cluster loads`)."""

    lab: str
    seconds: float
    links: Mapping[str, int]
    """Bits per second of each link, both directions together."""

    @classmethod
    def parse(cls, text: str, where: str, lab: str) -> Loads:
        """Read a file. Raises ClusterInputError: it is malformed, or of another lab."""
        try:
            said = json.loads(text)
            found = cls(
                str(said["lab"]), float(said["seconds"]), {str(k): int(v) for k, v in said["links"].items()}
            )
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise ClusterInputError(
                f"{where}: no loads of a lab ({type(error).__name__}: {error}): they are what `opavnic cluster loads "
                "--json` prints"
            ) from None
        if found.lab != lab:
            raise ClusterInputError(f"{where}: loads of lab {found.lab}; this one is {lab}")
        if wrong := next((f"{name}: {rate}" for name, rate in found.links.items() if rate < 0), None):
            raise ClusterInputError(f"{where}: links: {wrong} bits per second; 0 or more is right")
        return found


def loads_between(before: LabState, after: LabState) -> Loads:
    """Return what a lab has carried between two looks at it. Raises ClusterError: it is another lab."""
    seconds = after.uptime_s - before.uptime_s
    if before.pid != after.pid or seconds <= 0:
        raise ClusterError(f"lab {after.lab} was started anew meanwhile")
    carried = {link.name: link.bytes_forth + link.bytes_back for link in before.links}
    links = {
        link.cable: max(
            0, round(8 * (link.bytes_forth + link.bytes_back - carried.get(link.name, 0)) / seconds)
        )
        for link in after.links
    }
    return Loads(after.lab, round(seconds, 3), links)


@dataclass(frozen=True, slots=True)
class Placement:
    """The placement of all nodes."""

    machine_of: Mapping[str, str]
    """The machine of each node of the topology: of each HFI, with all HFIs of its host, and of each switch."""
    hosts: Mapping[str, tuple[str, ...]]
    """The hosts of each machine, in the order of the lab file; empty for a machine without hosts."""
    cut: tuple[Cable, ...] = field(repr=False)
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


def placement_of(
    topology: Topology, machine_of: Mapping[str, Any], machines: Sequence[str], managers: str | None
) -> Placement:
    """Return a placement that was made before. Raises ClusterError: it is not one of this lab on these machines."""
    wrong = [name for name in topology.nodes if machine_of.get(name) not in machines]
    hosts = topology.hosts()
    split = [host for host, hfis in hosts.items() if len({machine_of.get(hfi.name) for hfi in hfis}) > 1]
    if wrong or split:
        raise ClusterError(f"no machine, or several, for {', '.join((wrong or split)[:3])}")
    by_machine = {
        machine: tuple(
            host for host, hfis in hosts.items() if host != managers and machine_of[hfis[0].name] == machine
        )
        for machine in machines
    }
    cut = tuple(cable for cable in topology.cables if machine_of[cable.a[0]] != machine_of[cable.b[0]])
    return Placement({name: str(machine_of[name]) for name in topology.nodes}, by_machine, cut)


def place(
    topology: Topology,
    machines: Sequence[str],
    *,
    managers: str | None = None,
    wanted: Mapping[str, str] | None = None,
    labels: Mapping[str, Sequence[str]] | None = None,
    capacities: Sequence[int] | None = None,
    loads: Loads | None = None,
) -> Placement:
    """Place the nodes of a topology.

    Args:    machines: names, the coordinator first. managers: the node of the SM and the EM, which the coordinator
             carries. wanted: host or switch -> machine or label, from the lab file. labels: machine -> its labels.
             capacities: processors of each machine; None: as many hosts on each. loads: what links carry; None: the
             same.
    Raises:  ClusterInputError: `wanted` names an unknown node or machine; there is no machine.
    """
    if not machines:
        raise ClusterInputError("a fabric needs at least one machine")
    hosts = {name: [node.name for node in nodes] for name, nodes in topology.hosts().items()}
    switches = [node.name for node in topology.of_kind(NodeKind.SWITCH)]
    given = _given([*hosts, *switches], machines, wanted or {}, labels or {})
    if managers is not None:
        given[managers] = 0
    host_of = {hfi: host for host, hfis in hosts.items() for hfi in hfis}
    ordered = [*hosts, *switches]
    number = {name: place_ for place_, name in enumerate(ordered)}
    traffic: list[dict[int, int]] = [{} for _ in ordered]
    carried = [0] * len(ordered)
    for cable in topology.cables:
        a, b = (number[host_of.get(end[0], end[0])] for end in (cable.a, cable.b))
        if loads is not None:
            rate = 1 + loads.links.get(cable.name, 0) // _KBIT
        else:
            rate = UNMEASURED if host_of.keys() & {cable.a[0], cable.b[0]} else 1
        for one, other in ((a, b), (b, a)):
            carried[one] += rate
            traffic[one][other] = traffic[one].get(other, 0) + rate
    if capacities is None:
        weights = [int(name in hosts) for name in ordered]
    else:
        weights = [load * (HOST if name in hosts else 1) for name, load in zip(ordered, carried, strict=True)]
    if managers is not None:
        weights[number[managers]] = 0
    at = assign(
        Assignable(
            [1] * len(machines) if capacities is None else capacities,
            weights,
            traffic,
            {number[name]: machine for name, machine in given.items()},
            0 if capacities is None else SLACK_PERCENT,
        )
    )
    machine_of = {node: machines[at[number[host_of.get(node, node)]]] for node in topology.nodes}
    return placement_of(topology, machine_of, machines, managers)


def _given(
    names: Sequence[str],
    machines: Sequence[str],
    wanted: Mapping[str, str],
    labels: Mapping[str, Sequence[str]],
) -> dict[str, int]:
    """Return the machine of each node that has one by name or label; machines with a label take turns."""
    bearing = {machine: [number] for number, machine in enumerate(machines)}
    for number, machine in enumerate(machines):
        for label in labels.get(machine, ()):
            if label not in machines:
                bearing.setdefault(label, []).append(number)
    turns = dict.fromkeys(bearing, 0)
    found = {}
    for name, where in wanted.items():
        if name not in names:
            raise ClusterInputError(f"place: {unknown_name('host or switch', name, names)}")
        if where not in bearing:
            raise ClusterInputError(f"place: {name}: {unknown_name('machine or label', where, bearing)}")
        found[name] = bearing[where][turns[where] % len(bearing[where])]
        turns[where] += 1
    return found
