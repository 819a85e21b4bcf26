"""Lossless fabrics: no channel waits for itself, everybody is reached under full load, and min-hop beside it sticks."""

from __future__ import annotations

import random
from dataclasses import replace

import networkx as nx
import pytest

from engine_twins import built_engines
from hfi_sim.base.errors import FabricError
from hfi_sim.fabric.topology import Topology, generate
from hfi_sim.routing import ENGINES, find_cycle, lane_shift
from hfi_sim.routing.deadlock import dependencies
from hfi_sim.routing.graph import SwitchGraph
from hfi_sim.subnet_manager import lanes as lane_tables
from unit.hfi_sim.routing.lossless import Lossless

BUILT = built_engines()
FASTEST = list(BUILT.values())[-1]
SHAPES = {
    "torus 4x4": lambda: generate("torus", dims="4x4", hosts_per_switch=3),
    "torus 8x8": lambda: generate("torus", dims="8x8"),
    "hypercube 4": lambda: generate("hypercube", dimensions=4, hosts_per_switch=3),
    "dragonfly": lambda: generate("dragonfly", routers=4, hosts_per_router=2),
}
CASES = [
    ("torus 4x4", "dimension-order", 3),
    ("torus 4x4", "lane-shift", 3),
    ("torus 4x4", "lane-shift", 1),
    ("torus 8x8", "dimension-order", 3),
    ("torus 8x8", "lane-shift", 2),
    ("hypercube 4", "dimension-order", 2),
    ("hypercube 4", "lane-shift", 3),
    ("dragonfly", "lane-shift", 2),
    ("dragonfly", "up-down", 1),
]
PACKETS = {"torus 4x4": 3, "torus 8x8": 1, "hypercube 4": 3, "dragonfly": 3}


def random_topology(seed: int, switches: int = 9) -> Topology:
    """A connected graph of switches with a host each, and as many cables more as there are switches."""
    rng = random.Random(seed)
    topology = Topology(f"random {seed}")
    for number in range(switches):
        topology.switch(f"sw{number}", ports=2 * switches + 2)
        topology.hfi(f"h{number}")
        topology.cable((f"h{number}", 1), topology.free_port(f"sw{number}"))
    for number in range(1, switches):
        topology.join(f"sw{rng.randrange(number)}", f"sw{number}")
    for _ in range(switches):
        a, b = rng.sample(range(switches), 2)
        topology.join(f"sw{a}", f"sw{b}")
    return topology


def is_free(bed: Lossless) -> bool:
    return nx.is_directed_acyclic_graph(bed.waits(range(3)))


@pytest.mark.parametrize(("shape", "engine", "vls"), CASES, ids=[f"{s} {e} {v}" for s, e, v in CASES])
def test_all_pairs_under_full_load_and_nothing_sticks(shape: str, engine: str, vls: int) -> None:
    bed = Lossless(SHAPES[shape](), engine, vls=vls, made_by=FASTEST)
    routes = bed.sm.view.routes if bed.sm.view is not None else None
    assert routes is not None
    assert routes.lanes.count == vls, "it needs no fewer, and no more"
    assert is_free(bed)
    assert bed.sm.cycle() == []
    assert bed.load(PACKETS[shape]) == _settled(bed)
    assert bed.fabric.balance() == {}
    assert bed.fabric.drops() == {}


def _settled(bed: Lossless) -> int:
    bed.clock.advance(600)
    return bed.got


@pytest.mark.parametrize(
    "shape",
    [pytest.param(shape, marks=[pytest.mark.slow] if shape == "torus 8x8" else []) for shape in SHAPES],
)
def test_min_hop_beside_it_has_a_cycle_and_sticks(shape: str) -> None:
    bed = Lossless(SHAPES[shape](), "min-hop", may_deadlock=True, made_by=FASTEST)
    assert not is_free(bed)
    assert bed.load(10 * PACKETS[shape]) > _settled(bed)


@pytest.mark.parametrize("shape", SHAPES)
def test_min_hop_is_refused_with_its_cycle_and_what_is_free_of_it(shape: str) -> None:
    with pytest.raises(
        FabricError, match=r"min-hop can deadlock .*: (\S+ -> )+\S+; free of that: .*lane-shift.*up-down"
    ):
        Lossless(SHAPES[shape](), "min-hop")


@pytest.mark.parametrize("engine", BUILT)
@pytest.mark.parametrize(
    "seed", [*range(10), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(10, 30))]
)
def test_random_fabrics_with_cables_cut_under_traffic(seed: int, engine: str) -> None:
    bed = Lossless(random_topology(seed), "lane-shift", vls=4, made_by=BUILT[engine])
    assert is_free(bed)
    rng = random.Random(seed)
    for _ in range(3):
        sent = bed.got + bed.load(1)
        bed.clock.advance(1e-4)
        trunks = [
            link for link in bed.fabric.links if link.up and all(end.name[0] == "s" for end in link.ends)
        ]
        cut = rng.choice(trunks)
        bed.fabric.set_link(cut, False)
        graph = nx.Graph(
            (a.name.split(":")[0], b.name.split(":")[0])
            for a, b in (link.ends for link in bed.fabric.links if link.up)
        )
        if not nx.is_connected(graph) or len(graph) < 18:
            bed.fabric.set_link(cut, True)
        assert is_free(bed), cut.name
        bed.clock.advance(10)
        lost = sum(drops.get("link_down", 0) for drops in bed.fabric.drops().values())
        assert bed.got + lost >= sent
        assert bed.fabric.balance() == {}
        bed.got = 0


@pytest.mark.parametrize("seed", range(30))
def test_the_check_of_the_subnet_manager_agrees_with_networkx(seed: int) -> None:
    graph = random_topology(seed).switch_graph()
    for vls in (1, 2, 3):
        graph = replace(graph, vls={(at, port): vls for at, arcs in enumerate(graph.arcs) for port in arcs})
        for engine in ("min-hop", "up-down", "lane-shift"):
            try:
                routes = ENGINES[engine](graph)
            except FabricError:
                continue
            found = nx.DiGraph(
                [(a, b) for a, after in dependencies(graph, routes, lossless=True).items() for b in after]
            )
            assert bool(find_cycle(graph, routes, lossless=True)) is not nx.is_directed_acyclic_graph(found)


def test_lanes_that_no_turn_changes_have_a_cycle_and_it_names_them() -> None:
    graph = generate("torus", dims="4x4").switch_graph()
    routes = ENGINES["lane-shift"](graph)
    assert routes.lanes.count > 1
    assert find_cycle(graph, routes) == []
    cycle = find_cycle(graph, replace(routes, lanes=replace(routes.lanes, turns={})))
    assert cycle
    assert {channel.rpartition(" ")[2] for channel in cycle} == {"0"}


def test_links_without_credits_cannot_wait_and_are_not_counted() -> None:
    topology = generate("torus", dims="4x4")
    graph = topology.switch_graph()
    assert graph.vls == {}
    assert find_cycle(graph, ENGINES["min-hop"](graph))
    assert find_cycle(graph, ENGINES["min-hop"](graph), lossless=True) == []


def test_dimension_order_on_a_broken_torus_gives_way_until_it_is_whole() -> None:
    bed = Lossless(SHAPES["torus 4x4"](), "dimension-order", vls=3)
    trunk = next(link for link in bed.fabric.links if all(end.name.startswith("sw") for end in link.ends))
    bed.fabric.set_link(trunk, False)
    assert bed.sm.engine == "lane-shift"
    assert is_free(bed)
    bed.fabric.set_link(trunk, True)
    assert bed.sm.engine == "dimension-order"
    assert is_free(bed)


def test_tables_of_lanes_go_when_routes_need_none(monkeypatch: pytest.MonkeyPatch) -> None:
    bed = Lossless(SHAPES["torus 4x4"](), "dimension-order", vls=3)
    monkeypatch.setitem(ENGINES, "dimension-order", ENGINES["up-down"])
    trunk = next(link for link in bed.fabric.links if all(end.name.startswith("sw") for end in link.ends))
    bed.fabric.set_link(trunk, False)
    for switch in bed.fabric.switches.values():
        assert all(not port.sc_to_sc and not port.sc_to_vl for port in switch.ports.values())
    assert all(not port.sc_to_vl and port.settings.sl_to_sc[9] == 9 for port in bed.ports)


@pytest.mark.parametrize("sabotage", ["no turn", "no first lane", "no virtual lane"])
def test_sabotage_of_the_lanes_is_seen_by_the_oracle(sabotage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if sabotage == "no turn":
        monkeypatch.setattr(lane_tables, "_on_lanes", lambda after: tuple(range(32)))
    elif sabotage == "no first lane":
        monkeypatch.setattr(lane_tables, "_turns", lambda *_: {})
    else:
        monkeypatch.setattr(lane_tables, "_leave", lambda port, count: port.set_sc_to_vl((0,) * 32))
    bed = Lossless(SHAPES["torus 8x8"](), "dimension-order", vls=3)
    assert not is_free(bed)


def test_ring_needs_two_lanes_and_its_far_switches_are_reached_either_way() -> None:
    routes = ENGINES["dimension-order"](generate("torus", dims="6").switch_graph())
    assert routes.lanes.count == 2
    assert {routes.hops[(at + 3) % 6][at] for at in range(6)} == {(2,), (3,)}


def test_lane_shift_says_how_many_lanes_it_needs() -> None:
    graph = generate("torus", dims="8x8").switch_graph()
    graph = replace(graph, vls={(at, port): 1 for at, arcs in enumerate(graph.arcs) for port in arcs})
    with pytest.raises(
        FabricError, match=r"lane-shift needs 2 virtual lanes here.* has 1: say credits: \{vls: 2\}"
    ):
        lane_shift(graph)


def test_lane_shift_counts_the_turns_of_hosts_only() -> None:
    graph = SwitchGraph()
    a, b, c, leaf = map(graph.add, "abcd")
    for number, (one, other) in enumerate([(a, b), (a, c), (b, leaf), (c, leaf)], 1):
        graph.connect(one, number, other, number)
    graph.attach(leaf, 9, range(1, 2))
    assert lane_shift(graph).lanes.count == 1, (
        "only from b to c, which have no hosts, a packet turns up again"
    )


def test_lane_shift_uses_all_next_hops_that_lead_to_the_fewest_turns() -> None:
    graph, ports = SwitchGraph(), dict.fromkeys(range(5), 0)
    for name in "abcde":
        graph.attach(graph.add(name), 9, range(1, 2))
    for one, other in [(0, 1), (0, 2), (1, 2), (1, 4), (2, 3), (3, 4)]:
        ports[one], ports[other] = ports[one] + 1, ports[other] + 1
        graph.connect(one, ports[one], other, ports[other])
        graph.vls |= {(one, ports[one]): 1, (other, ports[other]): 1}
    routes = lane_shift(graph)
    assert routes.lanes.count == 1
    assert routes.hops[2][4] == (1, 2), "from e to c by b and by d: neither turns from down to up"
