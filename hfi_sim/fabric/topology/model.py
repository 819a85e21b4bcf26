"""A topology: nodes with ports, cables between ports. It is checked whole, then built into a `Fabric`.

topology = Topology("two-hosts")
topology.switch("sw0", ports=36)
topology.hfi("h1")
topology.cable("h1:1", "sw0:1", LinkConfig(rate_bps=25e9))      # or TwoWay(up=..., down=...)
topology.build(fabric)
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Final

from hfi_sim.base.errors import TopologyError
from hfi_sim.base.quantities import rate_text
from hfi_sim.base.text import unknown_name
from hfi_sim.base.types import LID_MULTICAST_FIRST, Guid
from hfi_sim.engine.link.config import PLAIN_LINK
from hfi_sim.engine.link.two_way import LinkOptions, TwoWay
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.nodes.hfi import NetdevFactory
from hfi_sim.routing import SwitchGraph
from hfi_sim.wire.packet import MAX_PACKET

if TYPE_CHECKING:
    import networkx as nx

MAX_SWITCH_PORTS = 254
"""Port numbers of a switch are bytes in its tables; 0 is the switch itself, 255 means no port."""
MAX_HFI_PORTS = 2

End = tuple[str, int]
"""Name of a node and number of one of its ports, from 1."""


_PLAIN: Final = TwoWay()


class NodeKind(Enum):
    """What a node is."""

    HFI = "hfi"
    SWITCH = "switch"


@dataclass(frozen=True, slots=True)
class Node:
    """One HFI or switch."""

    name: str
    kind: NodeKind
    ports: int
    guid: int | None = None
    """64-bit node GUID; None lets the fabric choose."""
    host: str = ""
    """The host that an HFI sits in; several HFIs may share one."""
    place: str = ""
    """Where it was described, for messages: `lab.yaml:7`."""
    lids: tuple[int, ...] = ()
    """The base LIDs of its ports in order, of a switch that of port 0; 0, or no more: as the subnet manager likes."""
    description: str = ""
    """What a switch says of itself (NodeDescription), where that is not its name."""


@dataclass(frozen=True, slots=True)
class Cable:
    """One cable between two ports."""

    a: End
    b: End
    link: TwoWay = _PLAIN
    """Up is from `a` to `b`. Options that have their default are as `build` is told."""
    place: str = ""

    @property
    def name(self) -> str:
        """The name that the link will have in the fabric."""
        return f"{end_text(self.a)}--{end_text(self.b)}"

    @property
    def rate_text(self) -> str:
        """Its rate, or both: `100G`, `1M up, 20M down`."""
        up, down = map(rate_text, self.link.rates_bps)
        return up if up == down else f"{up} up, {down} down"


def end_text(end: End) -> str:
    """Return `sw0:3`."""
    return f"{end[0]}:{end[1]}"


def parse_end(text: str, place: str = "") -> End:
    """Read `sw0:3`; a bare node name means its port 1.

    Raises:  TopologyError: the part after the colon is not a port number.
    """
    name, colon, number = text.rpartition(":")
    if not colon:
        return text, 1
    if not number.isdecimal():
        raise TopologyError(f'{_at(place)}end "{text}" is not NODE:PORT such as sw0:3')
    return name, int(number)


def _option_problems(cable: Cable) -> list[str]:
    where = f"{_at(cable.place)}cable {cable.name}: "
    found = [where + problem for problem in cable.link.problems()]
    sizes = (way.queue.size for way in cable.link.ways)
    if size := min((size for size in sizes if size is not None and size < MAX_PACKET), default=0):
        found.append(f"{where}a queue of {size} bytes cannot hold the longest packet, {MAX_PACKET}")
    return found


def _at(place: str) -> str:
    return f"{place}: " if place else ""


@dataclass
class Topology:
    """Nodes and cables by name. Building up never raises; `problems` and `check` look at the whole."""

    name: str = "fabric"
    nodes: dict[str, Node] = field(default_factory=dict)
    cables: list[Cable] = field(default_factory=list)
    switch_ports_max: int = MAX_SWITCH_PORTS
    """The largest switch; more than hardware has makes a fabric of one switch as large as a benchmark wants it."""
    left_out: list[str] = field(default_factory=list)
    """What the file that it was read from says, and a topology has no place for."""
    _twice: list[Node] = field(default_factory=list, repr=False)
    _next_port: dict[str, int] = field(default_factory=dict, repr=False)

    # --- building up ---------------------------------------------------------------------------------------

    def hfi(
        self,
        name: str,
        *,
        ports: int = 1,
        guid: int | None = None,
        host: str = "",
        place: str = "",
        lids: Iterable[int] = (),
    ) -> Node:
        """Add an HFI of `host` (its own name unless given) with 1 or 2 ports."""
        return self.add(Node(name, NodeKind.HFI, ports, guid, host or name, place, tuple(lids)))

    def switch(
        self,
        name: str,
        *,
        ports: int = 64,
        guid: int | None = None,
        place: str = "",
        lid: int = 0,
        description: str = "",
    ) -> Node:
        """Add a switch with ports 1 to `ports`."""
        lids, said = (lid,) if lid else (), "" if description == name else description
        return self.add(Node(name, NodeKind.SWITCH, ports, guid, "", place, lids, said))

    def add(self, node: Node) -> Node:
        """Add a node; one whose name is taken is a problem of the topology."""
        if node.name in self.nodes:
            self._twice.append(node)
        else:
            self.nodes[node.name] = node
        return node

    def cable(self, a: str | End, b: str | End, link: LinkOptions = PLAIN_LINK, *, place: str = "") -> Cable:
        """Lay a cable between two ports, each `NODE:PORT` or a pair; up is from `a` to `b`."""
        ends = [parse_end(end, place) if isinstance(end, str) else end for end in (a, b)]
        cable = Cable(ends[0], ends[1], TwoWay.of(link), place)
        self.cables.append(cable)
        return cable

    def join(self, a: str, b: str, link: LinkOptions = PLAIN_LINK) -> Cable:
        """Lay a cable between the next free ports of two nodes, as the generators do."""
        return self.cable(self.free_port(a), self.free_port(b), link)

    def free_port(self, name: str) -> End:
        """Return the next port of a node that `free_port` and `join` have not given out."""
        number = self._next_port.get(name, 0) + 1
        self._next_port[name] = number
        return name, number

    @classmethod
    def of_fabric(cls, fabric: Fabric, name: str = "fabric") -> Topology:
        """Return what a fabric looks like now, links that are down included."""
        topology = cls(name)
        for switch in fabric.switches.values():
            topology.switch(
                switch.name, ports=len(switch.ports), guid=switch.node_guid, description=switch.description
            )
        for hfi in fabric.hfis.values():
            topology.hfi(hfi.name, ports=len(hfi.ports), guid=hfi.node_guid)
        for link in fabric.links:
            a, b = (parse_end(port.name) for port in link.ends)
            topology.cable(a, b, link.planned)
        return topology

    def attach(self, name: str) -> Node:
        """Add an HFI with one port on the first switch that has hosts; that grows by a port where it is full.

        Raises:  TopologyError: there is no switch.
        """
        switches = {node.name: node for node in self.of_kind(NodeKind.SWITCH)}
        if not switches:
            raise TopologyError(f"{self.name}: no switch to attach {name!r} to")
        leaves = (
            far[0]
            for cable in self.cables
            for near, far in ((cable.a, cable.b), (cable.b, cable.a))
            if far[0] in switches and near[0] in self.nodes and near[0] not in switches
        )
        switch = switches[next(leaves, next(iter(switches)))]
        used = {end[1] for cable in self.cables for end in (cable.a, cable.b) if end[0] == switch.name}
        free = next(number for number in range(1, len(used) + 2) if number not in used)
        self.nodes[switch.name] = replace(switch, ports=max(switch.ports, free))
        node = self.hfi(name)
        self.cable((name, 1), (switch.name, free))
        return node

    # --- looking -------------------------------------------------------------------------------------------

    def of_kind(self, kind: NodeKind) -> Iterator[Node]:
        """Yield the nodes of one kind, in the order in which they were added."""
        return (node for node in self.nodes.values() if node.kind is kind)

    def hosts(self) -> dict[str, list[Node]]:
        """Return the HFIs of each host."""
        hosts: dict[str, list[Node]] = {}
        for node in self.of_kind(NodeKind.HFI):
            hosts.setdefault(node.host, []).append(node)
        return hosts

    def graph(self) -> nx.MultiGraph[str]:
        """Return the same as a networkx graph: node attributes kind, ports, host; edge attributes a, b."""
        import networkx as nx  # large, and building a fabric needs no graph

        graph: nx.MultiGraph[str] = nx.MultiGraph(name=self.name)
        for node in self.nodes.values():
            graph.add_node(node.name, kind=node.kind.value, ports=node.ports, host=node.host, guid=node.guid)
        for cable in self.cables:
            graph.add_edge(cable.a[0], cable.b[0], a=cable.a, b=cable.b)
        return graph

    def switch_graph(self) -> SwitchGraph:
        """Return its switches as routing sees them, each HFI port with a LID of its own."""
        graph = SwitchGraph()
        index = {node.name: graph.add(node.name) for node in self.of_kind(NodeKind.SWITCH)}
        lids = itertools.count(1)
        for cable in self.cables:
            (a, a_port), (b, b_port) = cable.a, cable.b
            if a in index and b in index:
                graph.connect(index[a], a_port, index[b], b_port)
                sends = ((index[a], a_port), cable.link.up), ((index[b], b_port), cable.link.down)
                graph.vls |= {port: way.flow.vls for port, way in sends if way.flow is not None}
            else:
                for name, port in (cable.a, cable.b):
                    if name in index:
                        lid = next(lids)
                        graph.attach(index[name], port, range(lid, lid + 1))
        return graph

    # --- checking ------------------------------------------------------------------------------------------

    def problems(self) -> list[str]:
        """Return all that is wrong, each with its place; an empty list means that `build` will work."""
        found = [
            f"{_at(node.place)}{node.name!r} is the name of two nodes, hosts or switches"
            for node in self._twice
        ]
        found += self._node_problems()
        taken: dict[End, Cable] = {}
        sound: set[int] = set()
        for cable in self.cables:
            found += self._cable_problems(cable, taken)
            if id(cable.link) not in sound:  # most cables share their options
                found += (of_options := _option_problems(cable))
                sound |= set() if of_options else {id(cable.link)}
        cabled = {end[0] for end in taken}
        for host, hfis in self.hosts().items():
            if not cabled.intersection(hfi.name for hfi in hfis):
                found.append(f"{_at(hfis[0].place)}host {host!r} is linked to nothing: no cable ends at it")
        return found

    def _node_problems(self) -> Iterator[str]:
        guids: dict[int, str] = {}
        lids: dict[int, str] = {}
        for node in self.nodes.values():
            limit = MAX_HFI_PORTS if node.kind is NodeKind.HFI else self.switch_ports_max
            if not 1 <= node.ports <= limit:
                kind = "an HFI" if node.kind is NodeKind.HFI else "a switch"
                yield f"{_at(node.place)}node {node.name!r} has {node.ports} ports; {kind} has 1 to {limit}"
            where = f"{_at(node.place)}node {node.name!r}: "
            for lid in filter(None, node.lids):
                if not 0 < lid < LID_MULTICAST_FIRST:
                    yield f"{where}LID {lid:#x} is not 1 to {LID_MULTICAST_FIRST - 1:#x}"
                if (other := lids.setdefault(lid, node.name)) != node.name or node.lids.count(lid) > 1:
                    yield f"{where}LID {lid:#x} is already that of {other!r}"
            if node.guid is None:
                continue
            if node.guid in guids:
                yield f"{where}GUID {node.guid:#018x} is already that of {guids[node.guid]!r}"
            if not 0 < node.guid < 1 << 64:
                yield f"{where}GUID {node.guid:#x} is not 1 to 64 bits long"
            guids.setdefault(node.guid, node.name)

    def _cable_problems(self, cable: Cable, taken: dict[End, Cable]) -> Iterator[str]:
        where = f"{_at(cable.place)}cable {cable.name}: "
        if strangers := [name for name in dict.fromkeys((cable.a[0], cable.b[0])) if name not in self.nodes]:
            yield from (where + unknown_name("node", name, self.nodes) for name in strangers)
        elif cable.a == cable.b:
            yield f"{where}both ends are the same port; a cable joins two"
        else:
            yield from self._end_problems(cable, taken, where)
        taken |= {end: taken.get(end, cable) for end in (cable.a, cable.b)}

    def _end_problems(self, cable: Cable, taken: Mapping[End, Cable], where: str) -> Iterator[str]:
        for name, number in (cable.a, cable.b):
            node = self.nodes[name]
            if not 1 <= number <= node.ports:
                yield f"{where}{name!r} has no port {number}, its ports are 1 to {node.ports}"
            elif (name, number) in taken:
                ends = {end for one in self.cables for end in (one.a, one.b)}
                free = next((at for at in range(1, node.ports + 1) if (name, at) not in ends), None)
                remedy = "" if free is None else f"; {name}:{free} is free"
                yield f"{where}port {name}:{number} already has the cable {taken[name, number].name}{remedy}"
                return

    def check(self) -> None:
        """Refuse a topology that cannot be built.

        Raises:  TopologyError: every problem, one on a line.
        """
        if found := self.problems():
            raise TopologyError("\n".join(found))

    # --- building ------------------------------------------------------------------------------------------

    def lids(self, fabric: Fabric) -> dict[Guid, int]:
        """Return the LIDs that ports and switches are to have, by their GUIDs, on a fabric that was built of this."""
        found: dict[Guid, int] = {}
        for node in self.nodes.values():
            if node.kind is NodeKind.SWITCH:
                guids = [fabric.switches[node.name].node_guid]
            else:
                guids = [port.guid for port in fabric.hfis[node.name].ports.values()]
            found |= {guid: lid for guid, lid in zip(guids, node.lids, strict=False) if lid}
        return found

    def build(
        self,
        fabric: Fabric,
        netdevs: Callable[[str], NetdevFactory | None] | None = None,
        *,
        link: LinkOptions = PLAIN_LINK,
    ) -> Fabric:
        """Put the nodes and cables on `fabric` and return it.

        Args:    netdevs: gives the netdev factory of a host by the host's name; link: options of cables that do not
                 set them themselves.
        Raises:  TopologyError: see `check`; FabricError: a name or GUID is on the fabric already.
        """
        self.check()
        fabric.reserve(node.guid for node in self.nodes.values() if node.guid is not None)
        for node in self.nodes.values():
            if node.kind is NodeKind.SWITCH:
                fabric.add_switch(node.name, ports=node.ports, guid=node.guid, description=node.description)
            else:
                factory = netdevs(node.host) if netdevs is not None else None
                fabric.add_hfi(node.name, ports=node.ports, guid=node.guid, netdevs=factory)
        for cable in self.cables:
            a, b = (
                (fabric.hfis.get(name) or fabric.switches[name]).ports[number]
                for name, number in (cable.a, cable.b)
            )
            fabric.connect(a, b, cable.link.over(link))
        return fabric
