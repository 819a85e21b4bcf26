"""Topology files of Omni-Path's tools: XML of `opareport -o topology`, `opareport -o snapshot`, and `opaxlattopology`.

A report lists links, each with its rate and both ports; a plan of opaxlattopology is the same without GUIDs, and knows
nodes by their descriptions. A snapshot lists nodes with all ports, and links by GUIDs.

Source: opa-ff, opareport(8), opaxlattopology(8), and what these programs write.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final
from xml.etree import ElementTree

from hfi_sim.base.errors import TopologyError
from hfi_sim.base.link_modes import LANE_BPS, LANES_OF
from hfi_sim.engine.link.config import PLAIN_LINK, LinkConfig
from hfi_sim.fabric.topology.foreign_names import host_in, name_nodes, unnamed, without_rates, without_shared
from hfi_sim.fabric.topology.model import MAX_HFI_PORTS, MAX_SWITCH_PORTS, Topology

_EDGE_PORTS: Final = 48
"""Ports of a switch where its file does not say how many: those of an edge switch, and of a director's parts."""
_SWITCH_TYPES: Final = ("SW", "2")
_HFI_TYPES: Final = ("FI", "CA", "NIC", "1")
_RATE: Final = re.compile(r"([0-9]+(?:[._][0-9]+)?)g", re.IGNORECASE)
_LENGTH: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?) *m")
_NS_PER_METRE: Final = 5
_LANE_BPS: Final = {0: 0.0, **LANE_BPS}
"""Bits per second of a lane, by the speed of a port; 0: it is down."""
_LANES: Final = {0: 0, **LANES_OF}
"""Lanes, by the width of a port."""
_UNSAFE: Final = re.compile(r"[^\w.-]+")
End = tuple[str, int]


@dataclass(slots=True)
class _Node:
    ident: str
    description: str
    is_hfi: bool
    guid: int | None = None
    ports: int = 0
    """How many it is said to have; 0: it is not said."""
    used: set[int] = field(default_factory=set)
    rates: dict[int, float] = field(default_factory=dict)
    lids: dict[int, int] = field(default_factory=dict)


class _Reader:
    """One file."""

    def __init__(self, root: ElementTree.Element, source: str) -> None:
        self.root = root
        self.source = source
        self.nodes: dict[str, _Node] = {}
        self.left_out: list[str] = []
        self.without_rate = 0
        """Links whose rate it does not say."""

    def wrong(self, element: ElementTree.Element, what: str) -> TopologyError:
        ident = element.get("id")
        return TopologyError(f"{self.source}: {element.tag}{f' {ident}' if ident else ''}: {what}")

    def node(self, element: ElementTree.Element) -> _Node:
        """Return the node that an element tells of, entered where it is new."""
        guid, description = _text(element, "NodeGUID"), _text(element, "NodeDesc")
        if not guid and not description:
            raise self.wrong(element, "neither NodeGUID nor NodeDesc: no node is named")
        ident = guid or description
        if (node := self.nodes.get(ident)) is not None:
            return node
        kind = _text(element, "NodeType") or _text(element, "NodeType_Int")
        if kind not in (*_SWITCH_TYPES, *_HFI_TYPES):
            raise self.wrong(element, f"NodeType {kind or 'is missing'}: FI and SW are known")
        node = _Node(ident, description, kind in _HFI_TYPES)
        node.guid = self.number(element, "NodeGUID", guid) if guid else None
        node.description = description or _known_by(node)
        ports = _text(element, "NumPorts")
        node.ports = self.number(element, "NumPorts", ports) if ports else 0
        self.nodes[ident] = node
        return node

    def number(self, element: ElementTree.Element, name: str, text: str) -> int:
        try:
            return int(text, 16 if text.lower().startswith("0x") else 10)  # a plan has ports such as 01
        except ValueError:
            raise self.wrong(element, f"{name} {text!r} is no number" if text else f"no {name}") from None

    def end(self, element: ElementTree.Element, node: _Node) -> End:
        port = self.number(element, "PortNum", _text(element, "PortNum"))
        if port in node.used:
            raise self.wrong(element, f"port {port} of {node.description} has a cable already")
        if not 1 <= port <= (MAX_HFI_PORTS if node.is_hfi else MAX_SWITCH_PORTS):
            raise self.wrong(element, f"port {port} of {node.description}: there is no such port")
        node.used.add(port)
        return node.ident, port

    # --- reports and plans ---------------------------------------------------------------------------------

    def report_links(self) -> Iterator[tuple[End, End, LinkConfig]]:
        links = [link for part in ("LinkSummary", "ExternalLinkSummary") for link in self.root.iter(part)]
        for link in (link for part in links for link in part.iter("Link")):
            ports = link.findall("Port")
            if len(ports) != 2:
                raise self.wrong(link, f"{len(ports)} ports; a link has 2")
            ends = [self.end(port, self.node(port)) for port in ports]
            yield ends[0], ends[1], self.link_of(link)
        for node in self.root.iter("Node"):
            self.node(node)
        if self.root.find(".//MTU") is not None:
            self.left_out.append("MTUs of links")
        if self.root.find(".//SM") is not None:
            self.left_out.append("which HFIs run a subnet manager")
        if self.root.find(".//CableLabel") is not None:
            self.left_out.append("labels and details of cables")

    def link_of(self, link: ElementTree.Element) -> LinkConfig:
        rate = _text(link, "Rate")
        length = _LENGTH.match(_text(link, "Cable/CableLength") or _text(link, "CableLength"))
        latency_ns = round(float(length[1]) * _NS_PER_METRE) if length else PLAIN_LINK.latency_ns
        if not rate or rate.lower() == "any":
            return LinkConfig(latency_ns=latency_ns)
        match = _RATE.fullmatch(rate)
        if match is None:
            raise self.wrong(link, f"Rate {rate!r} is not such as 100g")
        return LinkConfig(float(match[1].replace("_", ".")) * 1e9, latency_ns)

    # --- snapshots -----------------------------------------------------------------------------------------

    def snapshot_links(self) -> Iterator[tuple[End, End, LinkConfig]]:
        for element in self.root.iterfind("Nodes/Node"):
            node = self.node(element)
            for port in element.iterfind("PortInfo"):
                number = self.number(port, "PortNum", _text(port, "PortNum"))
                lid, speed, width = (
                    self.number(port, name, _text(port, name) or "0")
                    for name in ("EndPortLID", "LinkSpeedActive_Int", "LinkWidthActive_Int")
                )
                if speed not in _LANE_BPS or width not in _LANES:
                    raise self.wrong(
                        element,
                        f"port {number}: LinkSpeedActive_Int {speed}, LinkWidthActive_Int {width}: "
                        "speeds are 1 (12.5g), 2 (25g), 4 (50g) and 8 (100g), widths 1, 2, 4, 8 (1 to 4 lanes)",
                    )
                node.lids[number] = lid
                node.rates[number] = _LANE_BPS[speed] * _LANES[width]
        for link in self.root.iterfind("Links/Link"):
            ends = []
            for side in ("From", "To"):
                told = link.find(side)
                guid = "" if told is None else _text(told, "NodeGUID")
                if told is None or guid not in self.nodes:
                    raise self.wrong(link, f"{side}: node {guid or 'without a GUID'} is not among the nodes")
                ends.append(self.end(told, self.nodes[guid]))
            rate = self.nodes[ends[0][0]].rates.get(ends[0][1], 0)
            self.without_rate += not rate
            yield ends[0], ends[1], LinkConfig(rate) if rate else PLAIN_LINK
        self.left_out += ["what a subnet manager has set: partitions, tables, states"]


def loads(text: str, source: str = "<text>") -> Topology:
    """Read a file; `left_out` of the topology says what it holds that a topology has no place for.

    Args:    source: the file's name, for messages.
    Raises:  TopologyError: `source: element: what is wrong`.
    """
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise TopologyError(f"{source}: a document type is declared; files of opareport have none")
    try:
        root = ElementTree.fromstring(text)  # noqa: S314 - without a document type there are no entities
    except ElementTree.ParseError as error:
        raise TopologyError(f"{source}:{error.position[0]}: no XML, or its end is missing: {error}") from None
    reader = _Reader(root, source)
    if root.tag == "Snapshot":
        links = list(reader.snapshot_links())
    elif root.tag == "Report" and root.find(".//LinkSummary") is not None:
        links = list(reader.report_links())
    else:
        options = f" (options {root.get('options')})" if root.get("options") else ""
        raise TopologyError(
            f"{source}: {root.tag}{options}: no LinkSummary; what is read is opareport -o topology, opareport -o "
            "snapshot and what opaxlattopology writes"
        )
    if not reader.nodes:
        raise TopologyError(f"{source}: no node stands in the file")
    return _topology(reader, links)


def _topology(reader: _Reader, links: list[tuple[End, End, LinkConfig]]) -> Topology:
    nodes = reader.nodes.values()
    said = {_known_by(node): node.description for node in nodes if node.is_hfi}
    own = without_shared(said)
    for node in nodes:
        if node.is_hfi:
            node.description = own[_known_by(node)] or _known_by(node)
    called = name_nodes((_known_by(node), _word(node), node.is_hfi) for node in nodes)
    names = {node.ident: called[_known_by(node)] for node in nodes}
    topology = Topology(reader.source)
    for node in nodes:
        most = max(node.used, default=1)
        if node.is_hfi:
            host = host_in(node.description)
            ports = max(most, min(node.ports, MAX_HFI_PORTS))
            lids = [node.lids.get(number, 0) for number in range(1, ports + 1)]
            topology.hfi(
                names[node.ident], ports=ports, guid=node.guid, host=host, lids=lids, place=reader.source
            )
        else:
            ports = node.ports or max(_EDGE_PORTS, most)
            topology.switch(
                names[node.ident],
                ports=ports,
                guid=node.guid,
                lid=node.lids.get(0, 0),
                place=reader.source,
                description=node.description,
            )
    for a, b, link in links:
        topology.cable((names[a[0]], a[1]), (names[b[0]], b[1]), link, place=reader.source)
    topology.left_out += [*reader.left_out, *unnamed(said, called), *without_rates(reader.without_rate)]
    topology.check()
    return topology


def _known_by(node: _Node) -> str:
    """Return what a node is called where its description is no name: its GUID as ibnetdiscover writes it."""
    return node.ident if node.guid is None else f"{'H' if node.is_hfi else 'S'}-{node.guid:016x}"


def _word(node: _Node) -> str:
    """Return a description as one word, but for an HFI whose description names its host."""
    if node.is_hfi and host_in(node.description):
        return node.description
    return _UNSAFE.sub("-", node.description).strip("-")


def _text(element: ElementTree.Element, path: str) -> str:
    return (element.findtext(path) or "").strip()
