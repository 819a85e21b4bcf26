"""Topology files in ibnetdiscover's format."""

from __future__ import annotations

import pytest

from hfi_sim.base.errors import TopologyError
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.fabric.topology import Topology, dragonfly, fat_tree, torus
from hfi_sim.fabric.topology.ibnet import dumps, loads

RECORDED = """\
#
# Topology file: generated on Thu Jan  5 10:11:12 2017
#
# Initiated from node 001175010178f2a0 port 001175010178f2a1
vendid=0x1175
devid=0x1
sysimgguid=0x11750102000000
switchguid=0x11750102000000(11750102000000)
Switch\t48 "S-0011750102000000"\t\t# "opasw0" enhanced port 0 lid 3 lmc 0
[1]\t"H-001175010178f2a0"[1](1175010178f2a1) \t\t# "node1 hfi1_0" lid 1 4xEDR
[7]\t"H-001175010178f2b0"[1](1175010178f2b1) \t\t# "node2" lid 2 4xQDR

vendid=0x1175
devid=0x24f0
sysimgguid=0x1175010178f2a0
caguid=0x1175010178f2a0
Ca\t1 "H-001175010178f2a0"\t\t# "node1 hfi1_0"
[1](1175010178f2a1) \t"S-0011750102000000"[1]\t\t# lid 1 lmc 0 "opasw0" lid 3 4xEDR

vendid=0x1175
devid=0x24f0
caguid=0x1175010178f2b0
Ca\t1 "H-001175010178f2b0"\t\t# "node2"
[1](1175010178f2b1) \t"S-0011750102000000"[7]\t\t# lid 2 lmc 0 "opasw0" lid 3 4xQDR
"""


def test_loads_reads_nodes_guids_and_speeds() -> None:
    topology = loads(RECORDED)
    assert list(topology.nodes) == ["opasw0", "node1", "node2"]
    assert topology.nodes["node2"].guid == 0x1175010178F2B0
    assert {cable.name: cable.link.up.rate_bps for cable in topology.cables} == {
        "node1:1--opasw0:1": 100e9,
        "node2:1--opasw0:7": 40e9,
    }
    assert topology.build(Fabric()).switches["opasw0"].node_guid == 0x11750102000000


def test_loads_cut_after_any_line_is_refused_with_its_place() -> None:
    lines = RECORDED.splitlines()
    for end in range(len(lines)):
        with pytest.raises(TopologyError, match=r"^fab\.topo:\d+: .*ends early"):
            loads("\n".join(lines[:end]), "fab.topo")


def test_loads_cut_after_any_byte_is_refused_as_ending_early() -> None:
    for end in range(len(RECORDED)):
        with pytest.raises(TopologyError, match=r"^fab\.topo:\d+: .*ends early"):
            loads(RECORDED[:end], "fab.topo")


def test_loads_without_what_is_optional_reads_the_same_nodes() -> None:
    bare = "\n".join(line.partition("#")[0] for line in RECORDED.splitlines()) + "\n"
    assert len(loads(bare).cables) == 2
    assert len(loads(RECORDED + "# the end").cables) == 2


def test_loads_calls_the_hfis_of_a_host_by_its_name() -> None:
    topology = loads(RECORDED.replace('"node2"', '"node1 hfi1_1"'))
    assert list(topology.nodes) == ["opasw0", "node1", "node1.2"]
    assert list(topology.hosts()) == ["node1"]
    taken = loads(RECORDED.replace('"node2"', '"node1"'))  # somebody else has that name
    assert list(taken.nodes) == ["opasw0", "H-001175010178f2a0", "H-001175010178f2b0"]


def test_loads_cut_in_the_middle_of_a_line_says_so() -> None:
    with pytest.raises(TopologyError, match=r"fab:11: the file ends early, in the middle of a line"):
        loads(RECORDED[: RECORDED.index('0"[1](1175010178f2b1) ')], "fab")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("caguid=0x1175010178f2b0", "caguid=0x1175010178f2a0", "fab:23: .*is already that of"),
        ('"S-0011750102000000"[7]', '"S-0011750102000000"[9]', "fab:11: the cable to .* does not come back"),
        ('"S-0011750102000000"[7]', '"S-001175010200000"[7]', 'fab:24: unknown node .*nearest: "S-0011750102000000"'),
        ("devid=0x24f0\nsys", "what is this\nsys", "fab:14: cannot read 'what is this'"),
        ("[7]", "[1]", "fab:11: port 1 of .* is already cabled in line 10"),
    ],
)  # fmt: skip
def test_loads_contradictions_are_refused_with_their_line(old: str, new: str, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        loads(
            RECORDED.replace(old, new, 1) if old != "caguid=0x1175010178f2b0" else RECORDED.replace(old, new),
            "fab",
        )


@pytest.mark.parametrize("topology", [fat_tree(4), dragonfly(3), torus((3, 2))], ids=lambda t: t.name)
def test_dumps_and_loads_give_the_same_topology(topology: Topology) -> None:
    again = loads(dumps(topology))
    assert again.nodes.keys() == topology.nodes.keys()
    ends = {frozenset((cable.a, cable.b)): cable.link for cable in topology.cables}
    assert {frozenset((c.a, c.b)): c.link for c in again.cables} == ends


def test_dumps_of_a_running_fabric_keeps_guids_and_rates() -> None:
    fabric = loads(RECORDED).build(Fabric())
    again = loads(dumps(Topology.of_fabric(fabric)))
    assert again.nodes["node2"].guid == 0x1175010178F2B0
    assert sorted(cable.link.up.rate_bps for cable in again.cables) == [40e9, 100e9]
