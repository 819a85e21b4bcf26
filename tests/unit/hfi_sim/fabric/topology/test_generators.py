"""Shapes by their numbers, and what they refuse."""

from __future__ import annotations

import networkx as nx
import pytest

from hfi_sim.base.errors import TopologyError
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.fabric.topology import (
    Node,
    NodeKind,
    Topology,
    clos,
    dragonfly,
    fat_tree,
    generate,
    mesh,
    single_switch,
    torus,
)
from hfi_sim.fabric.topology.generators import fat_tree_for


def _counts(topology: Topology) -> tuple[int, int, int]:
    return len(topology.hosts()), sum(1 for _ in topology.of_kind(NodeKind.SWITCH)), len(topology.cables)


@pytest.mark.parametrize(
    ("topology", "counts"),
    [
        (single_switch(5), (5, 1, 5)),
        (fat_tree(2), (2, 5, 6)),
        (fat_tree(4), (16, 20, 48)),
        (fat_tree(8), (128, 80, 384)),
        (clos(3, 2, hosts_per_leaf=4), (12, 5, 18)),
        (clos(2, 2, uplinks=3), (4, 4, 16)),
        (dragonfly(4), (40, 20, 40 + 30 + 10)),
        (dragonfly(2, global_links=2), (20, 10, 20 + 5 + 10)),
        (mesh((3, 2)), (6, 6, 6 + 7)),
        (torus((3, 3)), (9, 9, 9 + 18)),
        (torus((2, 3), hosts_per_switch=2), (12, 6, 12 + 3 + 6)),
    ],
    ids=lambda value: value.name if isinstance(value, Topology) else "",
)
def test_generator_gives_hosts_switches_cables(topology: Topology, counts: tuple[int, int, int]) -> None:
    assert _counts(topology) == counts
    topology.check()
    assert nx.is_connected(topology.graph())


def test_fat_tree_any_two_hosts_are_at_most_six_cables_apart() -> None:
    assert nx.diameter(nx.Graph(fat_tree(4).graph())) == 6


@pytest.mark.parametrize(("hosts", "switches"), [(128, 80), (1024, 320)])
def test_fat_tree_for_full_sizes_is_the_classic_one(hosts: int, switches: int) -> None:
    assert _counts(fat_tree_for(hosts))[:2] == (hosts, switches)


def test_generate_hosts_with_several_hfis_are_cabled_at_every_port() -> None:
    topology = generate(
        "clos", leaves=2, hosts=[Node(hfi, NodeKind.HFI, 2, host="a") for hfi in ("a-1", "a-2")]
    )
    assert {name: [hfi.name for hfi in hfis] for name, hfis in topology.hosts().items()} == {
        "a": ["a-1", "a-2"]
    }
    fabric = topology.build(Fabric())
    assert all(port.link is not None for port in fabric.hfi_ports())


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("fat-tre", {}, r'unknown topology "fat-tre" \(nearest: "fat-tree"; known: single-switch, fat-tree'),
        ("fat-tree", {"kk": 4}, r'topology fat-tree: unknown option "kk" \(nearest: "k"'),
        ("fat-tree", {"k": 5}, "k is 5; it is an even number"),
        ("fat-tree", {"k": 4, "pods": 5}, "5 pods; it has 1 to 4"),
        ("fat-tree", {"k": 4, "hosts": 17}, "room for 16 HFI ports, the hosts have 17"),
        ("clos", {"spines": 0}, "clos: spines is 0; the least is 1"),
        ("dragonfly", {"routers": 2, "groups": 9}, "9 groups; 2 routers with 1 global links join 1 to 3"),
        ("mesh", {"dims": "3by3"}, 'dims "3by3" are not numbers joined by x'),
        ("torus", {"dims": (0, 3)}, "torus: a dimension is 0"),
    ],
)
def test_generate_wrong_numbers_raise(kind: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        generate(kind, **options)  # type: ignore[arg-type]
