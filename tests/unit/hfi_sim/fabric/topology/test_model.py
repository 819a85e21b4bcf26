"""What a topology refuses, and what it builds."""

from __future__ import annotations

import re
from typing import Any

import pytest

from hfi_sim.base.errors import TopologyError
from hfi_sim.engine.link.config import LinkConfig
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.fabric.topology import Topology, fat_tree, generate, torus
from hfi_sim.fabric.topology.draw import as_text, drawing, layers
from hfi_sim.fabric.topology.explicit import from_data
from hfi_sim.fabric.topology.marks import Marks
from hfi_sim.fabric.topology.model import NodeKind
from hfi_sim.subnet_manager import SubnetManager

GOOD: dict[str, Any] = {
    "switches": {"sw0": {"ports": 36}, "sw1": None},
    "hosts": {"h1": {}, "h2": {"hfis": 2, "ports": 2}},
    "links": [
        ["h1", "sw0:1"],
        {"ends": ["h2:1", "sw0:2"], "rate": 25e9, "latency": 1e-6},
        ["h2.2:2", "sw1:1"],
        ["sw0:36", "sw1:36"],
    ],
}


def test_from_data_builds_a_fabric_that_works() -> None:
    fabric = from_data(GOOD).build(Fabric())
    SubnetManager(fabric, fabric.hfis["h1"].ports[1]).sweep()
    assert {port.name: port.lid for port in fabric.hfi_ports()} == {
        "h1:1": 1,
        "h2:1": 2,
        "h2:2": 0,
        "h2.2:1": 0,
        "h2.2:2": 3,
    }
    assert fabric.links[1].rate_bps == 25e9
    assert fabric.links[1].planned.up.latency_ns == 1000


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hosts": {"h1": {}, "h9": {}}}, 'links\\[1\\]: cable h2:1--sw0:2: unknown node "h2"'),
        ({"hosts": {**GOOD["hosts"], "h3": {}}}, "hosts.h3: host 'h3' is linked to nothing"),
        ({"swiches": {}}, r'unknown key "swiches" \(nearest: "switches"'),
        ({"links": [["h1"]]}, r"links\[0\].ends: two ends such as"),
        ({"links": [*GOOD["links"], ["h2.2:1", "sw0:1"]]}, "port sw0:1 already has the cable h1:1--sw0:1"),
        ({"links": [*GOOD["links"], ["h2.2:1", "sw0:37"]]}, "'sw0' has no port 37, its ports are 1 to 36"),
        ({"links": [*GOOD["links"], ["h2.2:1", "sw0:x"]]}, 'end "sw0:x" is not NODE:PORT'),
        ({"links": [{"ends": ["h1", "sw0:1"], "rate": 0}]}, r"links\[0\]: rate: 0: a rate is above 0"),
        ({"links": [{"ends": ["h1", "sw0:1"], "rate": "fast"}]}, r"links\[0\]: rate: 'fast' is not a rate such as"),
        ({"switches": {"sw0": {"guid": 7}, "sw1": {"guid": 7}}}, "GUID 0x0000000000000007 is already that of 'sw0'"),
        ({"switches": {"sw0": {"ports": 255}, "sw1": None}}, "'sw0' has 255 ports; a switch has 1 to 254"),
        ({"switches": {"sw0": {"ports": "many"}}}, "switches.sw0.ports: 'many' is not a whole number"),
    ],
)  # fmt: skip
def test_from_data_refuses_with_path_and_nearest_name(change: dict[str, Any], message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        from_data({**GOOD, **change})


def test_check_lists_every_problem_at_once() -> None:
    topology = Topology()
    topology.hfi("h1")
    topology.hfi("h1")
    topology.cable("sw0:1", "sw0:1", LinkConfig(rate_bps=0))
    with pytest.raises(TopologyError) as caught:
        topology.check()
    assert len(str(caught.value).splitlines()) == 4


def test_of_fabric_gives_the_topology_again() -> None:
    topology = fat_tree(4)
    again = Topology.of_fabric(topology.build(Fabric()))
    assert {cable.name for cable in again.cables} == {cable.name for cable in topology.cables}
    assert list(again.hosts()) == list(topology.hosts())


def layers_of(topology: Topology) -> list[list[str]] | None:
    return layers([node.name for node in topology.of_kind(NodeKind.HFI)], topology.graph().adj)


def test_layers_of_a_fat_tree_are_hosts_edges_aggregates_cores() -> None:
    found = layers_of(fat_tree(4))
    assert found is not None
    assert [len(names) for names in found] == [16, 8, 8, 4]
    few = layers_of(generate("fat-tree", k=4, hosts=3))
    assert few is not None
    assert [len(names) for names in few] == [3, 8, 8, 4], "pods without hosts stand beside those with hosts"
    assert layers_of(torus((3, 3))) is None


@pytest.mark.parametrize(
    "topology", [fat_tree(4), torus((3, 3), hosts_per_switch=3)], ids=["layers", "circle"]
)
def test_drawing_has_every_node_inside_and_every_cable(topology: Topology) -> None:
    import xml.etree.ElementTree as ET

    down = topology.cables[0].name
    root = ET.fromstring(drawing(topology, marks=Marks([down])).document("x"))  # noqa: S314 - our own document
    ns = "{http://www.w3.org/2000/svg}"
    texts = [text.text for text in root.iter(f"{ns}text")]
    assert set(topology.nodes) <= set(texts)
    assert texts.count("✕ down") == 1
    ports = sorted(str(end[1]) for cable in topology.cables for end in (cable.a, cable.b))
    assert sorted(text for text in texts if text is not None and text.isdecimal()) == ports
    lines = list(root.iter(f"{ns}line"))
    assert len(lines) == len(topology.cables)
    assert sum("stroke-dasharray" in line.attrib for line in lines) == 1
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for text in root.iter(f"{ns}text"):
        assert 0 < float(text.attrib["x"]) < width
        assert 0 < float(text.attrib["y"]) < height


@pytest.mark.parametrize("leaves", [2, 20], ids=["few cables", "many cables"])
def test_drawing_says_at_each_cable_and_node_what_is_wrong_with_it(leaves: int) -> None:
    topology = generate("clos", leaves=leaves, spines=2, hosts_per_leaf=2)
    down = ["spine0:1--leaf0:3", "leaf1:4->spine1:2"]  # ends in either order
    places = {1: "leaf0--spine0", 2: "h1->leaf0", 4: "h2:1", 5: "spine1", 6: "leaf0,leaf1", 7: "*"}
    svg = drawing(topology, marks=Marks(down, places)).document("x")
    said = re.findall(r">([✕⚠][^<]*)<", svg)
    assert sorted(said) == sorted(
        ["✕ down  ⚠ 1", "✕ down to spine1", "⚠ 2", "⚠ 4", "⚠ spine1", "⚠ leaf0", "⚠ leaf1"]
    )


def test_as_text_names_each_cable_at_its_switch() -> None:
    text = as_text(from_data(GOOD))
    assert text.startswith("fabric: 2 hosts, 2 switches, 4 cables\n")
    assert "    2  h2:1  25G\n" in text
    assert "   36  sw1:36  100G\n" in text
