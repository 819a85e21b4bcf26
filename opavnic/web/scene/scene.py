"""What there is to see of a lab at one moment, as plain values. Sans-IO: answers of the control API in, values out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from hfi_sim.base.text import counted, visible
from hfi_sim.fabric.topology.draw import Position
from hfi_sim.fabric.topology.ibnet import loads
from hfi_sim.fabric.topology.model import NodeKind, Topology
from opavnic.observe.rates import Link, Pace, Rates, Vnic, state_text, vesw_text
from opavnic.web.scene.layout import Layout, Size, layout

EM_NODE: Final = "em"
"""The HFI of the managers' own node, which every lab has."""


@dataclass(frozen=True, slots=True)
class NodeView:
    """An HFI or a switch as drawn."""

    name: str
    kind: str
    """host, switch, or manager for the managers' own node."""
    host: str
    """The host that an HFI is in; for a switch its own name."""
    at: Position
    size: Size
    lid: int | None
    vesws: frozenset[str]
    """Virtual switches that the host has a VNIC on."""
    wrong: str
    """What is wrong with its VNICs in a few words; empty if nothing is."""
    faults: tuple[int, ...]
    """Numbers of the faults that are set on it."""


@dataclass(frozen=True, slots=True)
class LinkView:
    """A cable as drawn. `a` and `b` are nodes; forth is from a to b."""

    name: str
    a: str
    b: str
    up: bool
    rate_bps: float
    bits_forth: float
    bits_back: float
    packets: float
    """Per second, both directions together."""
    drops: float
    """Per second, both directions together."""
    faults: tuple[int, ...]
    """Numbers of the faults that are set on it."""

    @property
    def load(self) -> float:
        """Load of the busier direction, 0 to 1 of its rate."""
        return min(1.0, max(self.bits_forth, self.bits_back) / self.rate_bps)


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault that is set."""

    number: int
    text: str
    on: str
    """Its place: a host, node or port, a cable `a--b`, or one direction `a->b` of it."""
    state: str
    seen: int
    hits: int


@dataclass(frozen=True, slots=True)
class Scene:
    """A lab at one moment."""

    lab: str
    pid: int
    """The lab's process. Another one is another lab, even under the same name."""
    summary: str
    mads: float
    """MADs per second."""
    nodes: tuple[NodeView, ...]
    links: tuple[LinkView, ...]
    vesws: tuple[str, ...]
    vnics: tuple[tuple[Vnic, Pace], ...]
    drops: tuple[tuple[str, str, int], ...]
    """Element, reason, count."""
    faults: tuple[Fault, ...]
    unaccounted: Mapping[str, int]
    apps: tuple[tuple[str, Mapping[str, Any]], ...]
    """What apps and parts say of themselves, by name."""
    app_hosts: tuple[tuple[str, str], ...]
    """Kind and host of each app that runs on this machine."""
    parts: frozenset[str]
    """Names of the parts that say something."""
    machine: str
    """The machine that answers, of a lab on several; empty of a lab on one."""
    elsewhere: Mapping[str, tuple[str, ...]]
    """The hosts on other machines, by machine."""
    subnet_manager: str
    """`builtin`, or `external`: a real fabric manager on a host."""

    def link(self, name: str) -> LinkView | None:
        """Return the link of that name."""
        return next((link for link in self.links if link.name == name), None)

    def node(self, name: str) -> NodeView | None:
        """Return the node of that name."""
        return next((node for node in self.nodes if node.name == name), None)


@dataclass(frozen=True, slots=True)
class Drawing:
    """A topology and where its nodes are drawn. It is made once for each topology, not for each look."""

    topology: Topology
    layout: Layout

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> Drawing:
        """Make the drawing of an answer to GET /topology."""
        topology = loads(answer["ibnetdiscover"])
        return cls(topology, layout(topology))


def scene(
    drawing: Drawing,
    topology: Mapping[str, Any],
    status: Mapping[str, Any],
    faults: Mapping[str, Any],
    found: Rates,
) -> Scene:
    """Return what is to be seen.

    Args:  drawing: of the topology. topology, status, faults: answers to GET /topology, /status and /faults.
           found: the rates since the look before.
    """
    hosts = {host["name"]: host for host in status["hosts"]}
    set_faults = tuple(
        Fault(row["number"], row["fault"], row["on"], row["state"], row["seen"], row["hits"])
        for row in faults["faults"]
    )
    paces = {_ends(link.name): (link, pace) for link, pace in found.links}
    down = {_ends(name) for name in topology["down"]}
    machine = status.get("cluster", {}).get("machine", "")
    elsewhere: dict[str, tuple[str, ...]] = {}
    for host in status["hosts"]:
        if (place := host.get("machine", machine)) != machine:
            elsewhere[place] = (*elsewhere.get(place, ()), host["name"])
    away = {host for others in elsewhere.values() for host in others}
    lids = {port.rsplit(":", 1)[0]: lid for port, lid in reversed(topology["lids"].items())}
    return Scene(
        lab=status["lab"],
        pid=status["pid"],
        summary=summary(status),
        mads=found.mads,
        nodes=tuple(_node_view(drawing, name, lids, hosts, set_faults) for name in drawing.topology.nodes),
        links=tuple(_link_view(cable, paces, down, set_faults) for cable in drawing.topology.cables),
        vesws=tuple(sorted({visible(vnic.vesw) for vnic, _ in found.vnics if vnic.vesw != "-"})),
        vnics=tuple((replace(vnic, vesw=visible(vnic.vesw)), pace) for vnic, pace in found.vnics),
        drops=tuple(
            (element, reason, count)
            for element, reasons in status["drops"].items()
            for reason, count in reasons.items()
        ),
        faults=set_faults,
        unaccounted=status["balance"],
        apps=tuple(
            [(f"{app['kind']} on {app['host']}", app) for app in status["apps"]]
            + list(status.get("parts", {}).items())
        ),
        app_hosts=tuple((app["kind"], app["host"]) for app in status["apps"] if app["host"] not in away),
        parts=frozenset(status.get("parts", {})),
        machine=machine,
        elsewhere=elsewhere,
        subnet_manager=status["subnet_manager"],
    )


def elsewhere_text(seen: Scene) -> str:
    """Return where to look for apps and parts of other machines; empty of a lab on one machine."""
    if not seen.elsewhere:
        return ""
    others = ", ".join(
        f"{machine} ({counted(len(hosts), 'host')})" for machine, hosts in seen.elsewhere.items()
    )
    return (
        f"This is what runs on machine {seen.machine}. For the others, start `opavnic web` there: {others}."
    )


def summary(status: Mapping[str, Any]) -> str:
    """Return what runs a lab, in a line."""
    engine = status["engine"]
    workers = counted(len(engine["workers"]), "worker")
    return (
        f"{engine['name']} engine, {workers}, netdevs {status['netdev']}, "
        f"EM {status['em']}, subnet manager {status['subnet_manager']}, up {_up(status['uptime_s'])}"
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
    drawing: Drawing,
    name: str,
    lids: Mapping[str, int],
    hosts: Mapping[str, Mapping[str, Any]],
    faults: Iterable[Fault],
) -> NodeView:
    node = drawing.topology.nodes[name]
    hit = tuple(fault.number for fault in faults if fault.on in (name, node.host))
    drawn = drawing.layout.at[name], drawing.layout.size[name]
    if node.kind is NodeKind.SWITCH:
        return NodeView(name, "switch", name, *drawn, None, frozenset(), "", hit)
    host = hosts.get(node.host or name)
    lid = lids.get(name)
    if host is None:
        kind = "manager" if name == EM_NODE else "host"
        return NodeView(name, kind, node.host or name, *drawn, lid, frozenset(), "", hit)
    wrong = [f"{vnic['interface']}: {state_text(vnic)}" for vnic in host["vnics"] if vnic["state"] != "up"]
    vesws = frozenset(visible(vesw_text(vnic)) for vnic in host["vnics"])
    return NodeView(name, "host", host["name"], *drawn, lid, vesws, "; ".join(wrong), hit)


def _link_view(
    cable: Any,
    paces: Mapping[frozenset[str], tuple[Link, Pace]],
    down: set[frozenset[str]],
    faults: Iterable[Fault],
) -> LinkView:
    ends = _ends(cable.name)
    link, pace = paces.get(ends, (None, None))
    first = f"{cable.a[0]}:{cable.a[1]}"
    forth = link is not None and link.name.startswith(f"{first}->")
    bits = (0.0, 0.0) if pace is None else (pace.tx_bits, pace.rx_bits)
    names = {frozenset(ends), frozenset(end.rsplit(":", 1)[0] for end in ends)}
    return LinkView(
        name=cable.name,
        a=cable.a[0],
        b=cable.b[0],
        up=ends not in down,
        rate_bps=cable.link.rate_bps,
        bits_forth=bits[0] if forth else bits[1],
        bits_back=bits[1] if forth else bits[0],
        packets=0.0 if pace is None else pace.tx_packets + pace.rx_packets,
        drops=0.0 if pace is None else pace.drops,
        faults=tuple(fault.number for fault in faults if _ends(fault.on) in names),
    )
