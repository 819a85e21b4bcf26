"""What ibnetdiscover and ibsim could write is read: a writer made of their sources' formats, and random fabrics.

The writer knows nothing of the reader: it prints nodes and cables as ibnetdiscover.c of infiniband-diags does, with and
without groups, full information and external ports.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hfi_sim.base.errors import TopologyError
from hfi_sim.fabric.topology import Topology
from hfi_sim.fabric.topology.files import loads
from hfi_sim.fabric.topology.ibnet import dumps

WIDTHS = {1: 1, 2: 4, 4: 8, 8: 12, 16: 2}
"""Lanes by the code of a width."""
SPEEDS = {
    "SDR": 2.5e9,
    "DDR": 5e9,
    "QDR": 10e9,
    "FDR10": 10e9,
    "FDR": 14e9,
    "EDR": 25e9,
    "HDR": 50e9,
    "NDR": 100e9,
}
CHIPS = ("ISR9288 Line 3 Chip 2", "ISR9024", "ISR2012 Spine 1 Chip 3", "MTS3610 ", "SFS-7008P Line 1", "")
"""What libibnetdisc says of chassis."""


@dataclass
class Node:
    kind: str
    """S, H or R."""
    ports: int
    said: str
    chassis: int
    cables: dict[int, tuple[int, int, int, str]] = field(default_factory=dict)
    """By port: the far node and its port, the code of the width, the speed."""

    @property
    def word(self) -> str:
        return {"S": "Switch", "H": "Ca", "R": "Rt"}[self.kind]


@dataclass
class Options:
    groups: bool
    full: bool
    max_hops: bool
    hostnames: bool


def guid(number: int) -> int:
    return 0x66A00_0000_0000 + 0x100 * number


def lid(nodes: list[Node], number: int, port: int) -> int:
    return 1 + 4 * number + (0 if nodes[number].kind == "S" else port)


def name(nodes: list[Node], number: int) -> str:
    return f'"{nodes[number].kind}-{guid(number):016x}"'


def block(nodes: list[Node], number: int, options: Options) -> str:
    node = nodes[number]
    grouped = options.groups and node.chassis > 0
    lines = [f"\nvendid=0x66a\ndevid=0x{number:x}\nsysimgguid=0x{guid(number):x}"]
    lines[0] += f"\t\t# Chassis {node.chassis}" if grouped else ""
    if node.kind == "S":
        chip = f"\t# {CHIPS[number % len(CHIPS)]}" if options.groups else ""
        lines.append(f"switchguid=0x{guid(number):x}({guid(number):x}){chip}")
        zero = f"{'base' if number % 2 else 'enhanced'} port 0 lid {lid(nodes, number, 0)} lmc 0"
        lines.append(f'Switch\t{node.ports} {name(nodes, number)}\t\t# "{node.said}" {zero}')
    else:
        lines.append(f"{'ca' if node.kind == 'H' else 'rt'}guid=0x{guid(number):x}")
        lines.append(f'{node.word}\t{node.ports} {name(nodes, number)}\t\t# "{node.said}"')
    for port, (far, far_port, width, speed) in sorted(node.cables.items()):
        ext = f"[ext {port + 10}]" if grouped and node.kind == "S" else ""
        far_ext = (
            f"[ext {far_port + 10}]"
            if options.groups and nodes[far].chassis and nodes[far].kind == "S"
            else ""
        )
        rate = f"{WIDTHS[width]}x{speed}" + (f" s=4 w={width} v=4" if options.full else "")
        far_guid = f"{guid(far) + far_port:x}"
        if node.kind == "S":
            end = "" if nodes[far].kind == "S" else f"({far_guid}) "
            remark = f'# "{nodes[far].said}" lid {lid(nodes, far, far_port)} {rate}'
            lines.append(f"[{port}]{ext}\t{name(nodes, far)}[{far_port}]{far_ext}{end}\t\t{remark}")
        else:
            end = "" if nodes[far].kind == "S" else f" ({far_guid}) "
            own_lid, far_lid = lid(nodes, number, port), lid(nodes, far, far_port)
            remark = f'# lid {own_lid} lmc 0 "{nodes[far].said}" lid {far_lid} {rate}'
            own = f"({guid(number) + port:x}) "
            lines.append(f"[{port}]{own}\t{name(nodes, far)}[{far_port}]{far_ext}{end}\t\t{remark}")
    return "\n".join(lines) + "\n"


def printed(nodes: list[Node], options: Options) -> str:
    text = "#\n# Topology file: generated on Thu Jan  5 10:11:12 2017\n#\n"
    text += "# Reported max hops discovered: 3\n# Total MADs used: 77\n" if options.max_hops else ""
    text += f"# Initiated from node {guid(0):016x} port {guid(0) + 1:016x}\n"
    left = list(range(len(nodes)))
    if options.groups:
        for chassis in sorted({node.chassis for node in nodes} - {0}):
            inside = [number for number in left if nodes[number].chassis == chassis]
            text += f"\nChassis {chassis}" + (f" (guid 0x{guid(chassis):x})" if chassis % 2 else "") + "\n"
            text += "Hostname: node 7\n" if options.hostnames else ""
            text += "\n# Spine Nodes"
            text += "".join(block(nodes, number, options) for number in inside if nodes[number].kind == "S")
            text += "\n# Line Nodes\n# Chassis Switches\n# Chassis CAs"
            text += "".join(block(nodes, number, options) for number in inside if nodes[number].kind != "S")
            left = [number for number in left if number not in inside]
        text += "\nNon-Chassis Nodes\n"
    order = sorted(left, key=lambda number: "SHR".index(nodes[number].kind))
    return text + "".join(block(nodes, number, options) for number in order)


said = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=24).map(str.strip)
options_of = st.builds(Options, st.booleans(), st.booleans(), st.booleans(), st.booleans())


@st.composite
def fabrics(draw: st.DrawFn) -> list[Node]:
    kinds = ["S", *draw(st.lists(st.sampled_from("SHHHR"), min_size=1, max_size=7))]
    nodes = [
        Node(kind, 12 if kind == "S" else draw(st.integers(1, 2)), draw(said), draw(st.integers(0, 2)))
        for kind in kinds
    ]

    def lay(a: int, b: int) -> None:
        free = [
            next((port for port in range(1, nodes[at].ports + 1) if port not in nodes[at].cables), 0)
            for at in (a, b)
        ]
        if all(free) and a != b:
            rate = draw(st.sampled_from(sorted(WIDTHS))), draw(st.sampled_from(sorted(SPEEDS)))
            nodes[a].cables[free[0]] = (b, free[1], *rate)
            nodes[b].cables[free[1]] = (a, free[0], *rate)

    for number in range(1, len(nodes)):
        lay(0, number)
    for a, b in draw(st.lists(st.tuples(*[st.integers(0, len(nodes) - 1)] * 2), max_size=6)):
        lay(a, b)
    return nodes


def cables_of(topology: Topology) -> set[tuple[frozenset[tuple[int | None, int]], float]]:
    """Return the cables by GUIDs and ports, with their rates."""
    return {
        (
            frozenset((topology.nodes[name].guid, port) for name, port in (cable.a, cable.b)),
            cable.link.up.rate_bps,
        )
        for cable in topology.cables
    }


def kinds_of(topology: Topology) -> dict[str, tuple[object, ...]]:
    """Return what a dump keeps of each node."""
    return {node.name: (node.kind, node.ports, node.guid) for node in topology.nodes.values()}


@settings(max_examples=100)
@given(fabrics(), options_of)
def test_what_ibnetdiscover_prints_of_any_fabric_is_read_as_that_fabric(
    nodes: list[Node], options: Options
) -> None:
    assume(all(node.cables for node in nodes))
    text = printed(nodes, options)
    topology = loads(text)
    assert {node.guid: node.ports for node in topology.nodes.values()} == {
        guid(number): node.ports for number, node in enumerate(nodes)
    }
    assert cables_of(topology) == {
        (frozenset({(guid(number), port), (guid(far), far_port)}), WIDTHS[width] * SPEEDS[speed])
        for number, node in enumerate(nodes)
        for port, (far, far_port, width, speed) in node.cables.items()
    }
    again = loads(dumps(topology))
    assert kinds_of(again) == kinds_of(topology)
    assert cables_of(again) == cables_of(topology)


IBSIM = """
Switch\t8 "Switch1"
[1]\t"Hca1"[1]
[2]\t"Hca1" [2]
[3]\t"Switch2"[3] w=1
[5]\t"Switch2"[5]

Switch 8 "Switch2"\t# edge base port 0 lid 9 lmc 0
[1]\t"Hca2"
[2]\t"Hca2"[2]
[3]\t"Switch1"[3]
[5]\t"Switch1"[5]

switchguid+0x10
hcaguids=0x2000
Hca\t2 "Hca1"
[1]\t"Switch1"
[2]\t"Switch1"[2]

Hca\t2 "Hca2"
[1]\t"Switch2"[1] lid 4 lmc 0
[2]\t"Switch2"[2]
"""


def test_examples_of_ibsim_are_read_with_what_it_takes_for_granted() -> None:
    topology = loads(IBSIM)
    assert set(topology.nodes) == {"Switch1", "edge", "Hca1", "Hca2"}
    assert {cable.name: cable.link.up.rate_bps for cable in topology.cables}["Hca2:1--edge:1"] == 100e9
    assert next(cable for cable in topology.cables if cable.a[1] == 3).link.rates_bps == (2.5e9, 2.5e9)
    assert len(topology.cables) == 6


@pytest.mark.parametrize("said", ['a "b" c', '"', 'x" lid 77 4xGDR "y', "# [1]", "4xGDR ??x???"])
def test_what_nodes_say_of_themselves_is_no_rate_and_no_lid(said: str) -> None:
    nodes = [Node("S", 4, said, 0), Node("H", 1, said, 0)]
    nodes[0].cables[2] = (1, 1, 2, "EDR")
    nodes[1].cables[1] = (0, 2, 2, "EDR")
    topology = loads(printed(nodes, Options(groups=False, full=True, max_hops=False, hostnames=False)))
    assert [cable.link.rates_bps for cable in topology.cables] == [(100e9, 100e9)]
    assert {node.lids for node in topology.nodes.values()} == {(1,), (6,)}


def test_a_chassis_with_the_name_of_its_host_is_read() -> None:
    nodes = [Node("S", 4, "leaf", 1), Node("H", 1, "h1 HCA-1", 1)]
    nodes[0].cables[2] = (1, 1, 16, "NDR")
    nodes[1].cables[1] = (0, 2, 16, "NDR")
    text = printed(nodes, Options(groups=True, full=False, max_hops=True, hostnames=True))
    assert "Hostname: node 7" in text
    assert {cable.name: cable.link.up.rate_bps for cable in loads(text).cables} == {"h1:1--leaf:2": 200e9}


def test_a_type_of_node_that_the_tool_did_not_know_is_refused_with_its_line() -> None:
    text = 'vendid=0x1\n???guid=0x5\n???\t1 "?-0000000000000005"\t\t# "odd"\n'
    with pytest.raises(TopologyError, match=r"file:2: cannot read '\?\?\?guid=0x5'"):
        loads(text, "file")
