"""What there is to see of a lab at one moment, as plain values. Sans-IO: answers of the control API in, values out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hfi_sim.base.quantities import rate_text
from hfi_sim.base.text import counted, visible
from hfi_sim.fabric.topology.draw import Position
from hfi_sim.fabric.topology.marks import Marks
from hfi_sim.fabric.topology.model import Cable, NodeKind, Topology
from opavnic.base.state import counters_of
from opavnic.observe.rates import Paces, Rates
from opavnic.state.fabric import FaultsSet, FaultStatus, TopologyState
from opavnic.state.lab import HostStatus, LabState, LinkStatus, VnicStatus

NO_PACES: Final[Paces] = dict.fromkeys(counters_of(LinkStatus), 0.0)
EM_NODE: Final = "em"
"""The HFI of the managers' own node, which every lab has."""


@dataclass(frozen=True, slots=True)
class NodeView:
    """An HFI or a switch as drawn."""

    name: str
    kind: str
    """host, switch, manager for the managers' own node, or hosts for those of a switch that are drawn as one."""
    host: str
    """The host that an HFI is in; for a switch its own name."""
    lid: int | None
    vesws: frozenset[str]
    """Virtual switches that the host has a VNIC on."""
    vnics: tuple[str, ...]
    """Each VNIC in a line: its interface, virtual switch and address."""
    wrong: str
    """What is wrong with its VNICs in a few words; empty if nothing is."""
    faults: tuple[int, ...]
    """Numbers of the faults that are set on it."""
    hosts: int = 1
    """How many HFIs are drawn as this one."""


@dataclass(frozen=True, slots=True)
class LinkView:
    """A cable as drawn. `a` and `b` are nodes; forth is from a to b."""

    name: str
    a: str
    b: str
    up: bool
    rate_bps_forth: float
    rate_bps_back: float
    bits_forth: float
    bits_back: float
    packets: float
    """Per second, both directions together."""
    drops: float
    """Per second, both directions together."""
    faults: tuple[int, ...]
    """Numbers of the faults that are set on it."""
    cables: int = 1
    """How many cables are drawn as this one."""
    down: int = 0
    """Of several cables that are drawn as one: how many are down."""
    cut: str = ""
    """Where nothing passes in a direction of it: `down to sw0`."""

    @property
    def is_wrong(self) -> bool:
        """Whether it is down, or a direction or a cable of it."""
        return not self.up or self.down > 0 or bool(self.cut)

    @property
    def state(self) -> str:
        """Its state for display."""
        if not self.up:
            return "down"
        return f"{self.down} down" if self.down else self.cut or "up"

    @property
    def rate_text(self) -> str:
        """Its rate, or those of both directions, for display."""
        forth, back = rate_text(self.rate_bps_forth), rate_text(self.rate_bps_back)
        return forth if forth == back else f"{forth} forth, {back} back"


@dataclass(frozen=True, slots=True)
class Scene:
    """A lab at one moment."""

    state: LabState
    summary: str
    mads: float
    """MADs per second."""
    nodes: tuple[NodeView, ...]
    links: tuple[LinkView, ...]
    vnics: tuple[tuple[HostStatus, VnicStatus, Paces], ...]
    faults: Sequence[FaultStatus]
    positions: Mapping[str, Position]
    """Of nodes, in any unit, as the lab file gives them."""

    @property
    def vesws(self) -> list[str]:
        """The names of virtual switches, for display."""
        return sorted({visible(vnic.vesw_text) for _, vnic, _ in self.vnics if vnic.vesw_text != "-"})

    @property
    def apps(self) -> list[tuple[str, Mapping[str, Any]]]:
        """What apps and parts say of themselves, by name."""
        apps = [(f"{app.kind} on {app.host}", app.as_json()) for app in self.state.apps]
        return [*apps, *self.state.parts.items()]

    @property
    def elsewhere(self) -> dict[str, list[str]]:
        """The hosts on other machines, by machine."""
        found: dict[str, list[str]] = {}
        for host in self.state.hosts:
            if self.state.cluster is not None and host.machine not in ("", self.state.cluster.machine):
                found.setdefault(host.machine, []).append(host.name)
        return found

    @property
    def app_hosts(self) -> list[tuple[str, str]]:
        """Kind and host of each app that runs on this machine."""
        away = {host for hosts in self.elsewhere.values() for host in hosts}
        return [(app.kind, app.host) for app in self.state.apps if app.host not in away]

    def link(self, name: str) -> LinkView | None:
        """Return the link of that name."""
        return next((link for link in self.links if link.name == name), None)

    def node(self, name: str) -> NodeView | None:
        """Return the node of that name."""
        return next((node for node in self.nodes if node.name == name), None)


def scene(topology: Topology, fabric: TopologyState, faults: FaultsSet, found: Rates) -> Scene:
    """Return what is to be seen. Args: topology: as `fabric` has it. found: the rates since the look before."""
    state = found.lab
    hosts = {host.name: host for host in state.hosts}
    paces = {_ends(link.name): (link, pace) for link, pace in found.links}
    marks = Marks(fabric.down, {fault.number: fault.on for fault in faults.faults})
    lids = {port.rsplit(":", 1)[0]: lid for port, lid in reversed(fabric.lids.items())}
    return Scene(
        state=state,
        summary=summary(state),
        mads=found.mads,
        nodes=tuple(_node_view(topology, name, lids, hosts, marks) for name in topology.nodes),
        links=tuple(_link_view(cable, paces, marks) for cable in topology.cables),
        vnics=found.vnics,
        faults=faults.faults,
        positions=fabric.positions,
    )


def elsewhere_text(seen: Scene) -> str:
    """Return where to look for apps and parts of other machines; empty of a lab on one machine."""
    if seen.state.cluster is None or not seen.elsewhere:
        return ""
    others = ", ".join(
        f"{machine} ({counted(len(hosts), 'host')})" for machine, hosts in seen.elsewhere.items()
    )
    here = seen.state.cluster.machine
    return f"This is what runs on machine {here}. For the others, start `opavnic web` there: {others}."


def summary(state: LabState) -> str:
    """Return what runs a lab, in a line."""
    workers = counted(len(state.engine.workers), "worker")
    return (
        f"{state.engine.name} engine, {workers}, netdevs {state.netdev}, "
        f"EM {state.em}, subnet manager {state.subnet_manager}, up {_up(state.uptime_s)}"
    )


def _up(seconds: float) -> str:
    """Return for how long, to the minute: a page on which nothing happens does not change each second."""
    minutes = int(seconds // 60)
    if not minutes:
        return "less than a minute"
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"


def _ends(name: str) -> frozenset[str]:
    """Return the two ends of a cable `a--b` or of a link `a->b`: the order of ends differs between answers."""
    return frozenset(name.replace("->", "--").split("--"))


def _node_view(
    topology: Topology, name: str, lids: Mapping[str, int], hosts: Mapping[str, HostStatus], marks: Marks
) -> NodeView:
    node = topology.nodes[name]
    hit = marks.node_faults(node)
    if node.kind is NodeKind.SWITCH:
        return NodeView(name, "switch", name, None, frozenset(), (), "", hit)
    host = hosts.get(node.host or name)
    lid = lids.get(name)
    if host is None:
        kind = "manager" if name == EM_NODE else "host"
        return NodeView(name, kind, node.host or name, lid, frozenset(), (), "", hit)
    wrong = [f"{vnic.interface}: {vnic.state_text}" for vnic in host.vnics if not vnic.is_up]
    vesws = frozenset(visible(vnic.vesw_text) for vnic in host.vnics)
    lines = tuple(
        " ".join((vnic.interface, visible(vnic.vesw_text), vnic.ip or "without address"))
        for vnic in host.vnics
    )
    return NodeView(name, "host", host.name, lid, vesws, lines, "; ".join(wrong), hit)


def _link_view(
    cable: Cable, paces: Mapping[frozenset[str], tuple[LinkStatus, Paces]], marks: Marks
) -> LinkView:
    state = marks.state(cable)
    link, pace = paces.get(_ends(cable.name), (None, NO_PACES))
    first = f"{cable.a[0]}:{cable.a[1]}"
    forth = link is not None and link.name.startswith(f"{first}->")
    bits = pace["bytes_forth"], pace["bytes_back"]
    return LinkView(
        name=cable.name,
        a=cable.a[0],
        b=cable.b[0],
        up=state != "down",
        rate_bps_forth=cable.link.up.rate_bps,
        rate_bps_back=cable.link.down.rate_bps,
        bits_forth=bits[0] if forth else bits[1],
        bits_back=bits[1] if forth else bits[0],
        packets=pace["packets_forth"] + pace["packets_back"],
        drops=pace["drops"],
        faults=marks.cable_faults(cable),
        cut="" if state in ("up", "down") else state,
    )
