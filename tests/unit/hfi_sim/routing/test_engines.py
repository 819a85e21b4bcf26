"""Routes over many shapes: everybody is reached, by every choice that a switch has; no circles of waiting buffers."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfi_sim.base.errors import FabricError
from hfi_sim.routing import (
    ENGINES,
    LinearTable,
    SwitchGraph,
    build_tables,
    fat_tree,
    find_cycle,
    min_hop,
    up_down,
)
from hfi_sim.routing.table import GROUP_BASE, PathGroups


def graph_of(cables: list[tuple[int, int]], switches: int, hosts: int = 1) -> SwitchGraph:
    """Switches 0.. with `hosts` hosts each (LIDs from 1), cables on the next free ports."""
    graph = SwitchGraph()
    for number in range(switches):
        graph.add(f"sw{number}")
    lid = 1
    for switch in range(switches):
        for port_num in range(1, hosts + 1):
            graph.attach(switch, port_num, range(lid, lid + 1))
            lid += 1
    free = [hosts + 1] * switches
    for a, b in cables:
        graph.connect(a, free[a], b, free[b])
        free[a] += 1
        free[b] += 1
    return graph


def ring(switches: int) -> SwitchGraph:
    return graph_of([(n, (n + 1) % switches) for n in range(switches)], switches)


def two_level(leaves: int, spines: int, hosts: int) -> SwitchGraph:
    graph = graph_of([], leaves, hosts)
    for spine in range(spines):
        index = graph.add(f"spine{spine}")
        for leaf in range(leaves):
            graph.connect(leaf, hosts + 1 + spine, index, leaf + 1)
    return graph


def walk(graph: SwitchGraph, tables: list[LinearTable], start: int, lid: int) -> set[int]:
    """Follow every choice from `start`; return the switches that deliver to a port with no cable to a switch."""
    ends, seen, waiting = set(), {start}, [start]
    while waiting:
        switch = waiting.pop()
        ports = tables[switch].next_hops(lid)
        assert ports, f"{graph.names[switch]} has no route to {lid}"
        for port_num in ports:
            far = graph.arcs[switch].get(port_num)
            if far is None:
                ends.add(switch)
            elif far not in seen:
                seen.add(far)
                waiting.append(far)
    return ends


@st.composite
def connected(draw: st.DrawFn) -> SwitchGraph:
    switches = draw(st.integers(1, 9))
    cables = [(draw(st.integers(0, number - 1)), number) for number in range(1, switches)]
    cables += draw(
        st.lists(
            st.tuples(st.integers(0, switches - 1), st.integers(0, switches - 1)).filter(
                lambda c: c[0] != c[1]
            ),
            max_size=12,
        )
    )
    return graph_of(cables, switches, hosts=draw(st.integers(1, 3)))


@given(connected(), st.sampled_from(["min-hop", "up-down"]), st.booleans())
def test_every_choice_leads_to_the_destination_and_nowhere_else(
    graph: SwitchGraph, engine: str, adaptive: bool
) -> None:
    tables = build_tables(graph, ENGINES[engine](graph), adaptive=adaptive)
    for home, entries in enumerate(graph.lids):
        for lid, port_num in entries:
            for start in range(len(graph.names)):
                assert walk(graph, tables, start, lid) == {home}
            assert tables[home].next_hops(lid) == (port_num,)


@given(connected())
def test_up_down_has_no_cycle_of_channels(graph: SwitchGraph) -> None:
    assert find_cycle(graph, up_down(graph)) == []


@given(connected())
def test_min_hop_paths_are_shortest(graph: SwitchGraph) -> None:
    hops = min_hop(graph).hops
    for destination in range(len(graph.names)):
        distance = {destination: 0}
        queue = [destination]
        for at in queue:
            for far in graph.arcs[at].values():
                if far not in distance:
                    distance[far] = distance[at] + 1
                    queue.append(far)
        for switch, ports in enumerate(hops[destination]):
            closer = {p for p, far in graph.arcs[switch].items() if distance[far] == distance[switch] - 1}
            assert set(ports) == closer


@pytest.mark.parametrize("switches", [5, 6, 8])
def test_min_hop_on_a_ring_has_a_cycle_and_names_it(switches: int) -> None:
    cycle = find_cycle(ring(switches), min_hop(ring(switches)))
    assert len(cycle) == switches
    assert find_cycle(ring(switches), up_down(ring(switches))) == []


def test_fat_tree_on_a_ring_is_refused() -> None:
    with pytest.raises(FabricError, match=r"the fabric is not a fat tree.*try up-down"):
        fat_tree(ring(5))


def test_fat_tree_spreads_all_to_all_traffic_evenly() -> None:
    graph = two_level(leaves=4, spines=3, hosts=6)
    routes = fat_tree(graph)
    tables = build_tables(graph, routes, adaptive=False)
    load: Counter[int] = Counter()
    for start in range(4):
        for home in range(4):
            if home != start:
                load.update(tables[start][lid] for lid, _ in graph.lids[home])
    assert max(load.values()) == min(load.values())
    assert find_cycle(graph, routes) == []


def test_min_hop_without_adaptive_takes_turns_over_lids() -> None:
    graph = two_level(leaves=2, spines=4, hosts=8)
    table = build_tables(graph, min_hop(graph), adaptive=False)[0]
    assert Counter(table[lid] for lid, _ in graph.lids[1]) == dict.fromkeys((9, 10, 11, 12), 2)


def test_adaptive_table_holds_all_equal_ports_for_each_lid() -> None:
    graph = two_level(leaves=2, spines=3, hosts=2)
    table = build_tables(graph, min_hop(graph))[0]
    choices = [table.next_hops(lid) for lid, _ in graph.lids[1]]
    assert [sorted(choice) for choice in choices] == [[3, 4, 5], [3, 4, 5]]
    assert choices[0][0] != choices[1][0]  # packets without entropy part ways as well
    assert all(table.entries[lid] >= GROUP_BASE for lid, _ in graph.lids[1])


def test_up_down_tree_with_broken_spine_links_still_joins_all_leaves() -> None:
    graph = two_level(leaves=3, spines=3, hosts=1)
    for leaf, spine in ((0, 0), (1, 1), (2, 2)):  # each spine misses one leaf: still a spine for every pair
        port_num = 2 + spine
        far = graph.arcs[leaf].pop(port_num)
        del graph.arcs[far][leaf + 1]
    tables = build_tables(graph, up_down(graph))
    for home in range(3):
        for start in range(3):
            assert walk(graph, tables, start, graph.lids[home][0][0]) == {home}


def test_linear_table_is_a_mapping_of_first_ports() -> None:
    table = LinearTable.of({1: 5, 4: 2})
    assert dict(table) == {1: 5, 4: 2}
    assert len(table) == 2
    assert table.get(3) is None
    assert table.get(10**6) is None
    assert table.next_hops(4) == (2,)


def test_engines_are_deterministic() -> None:
    rng = random.Random(3)
    cables = [(rng.randrange(n), n) for n in range(1, 30)] + [
        tuple(rng.sample(range(30), 2)) for _ in range(40)
    ]
    first = build_tables(graph_of(cables, 30), min_hop(graph_of(cables, 30)))  # type: ignore[arg-type]
    second = build_tables(graph_of(cables, 30), min_hop(graph_of(cables, 30)))  # type: ignore[arg-type]
    assert [table.entries for table in first] == [table.entries for table in second]


def test_hosts_of_a_leaf_are_spread_over_the_spines_of_a_fat_tree() -> None:
    graph = two_level(leaves=2, spines=2, hosts=2)
    table = build_tables(graph, fat_tree(graph), adaptive=False)[0]
    assert Counter(table[lid] for lid, _ in graph.lids[1]) == {3: 1, 4: 1}
    assert up_down(graph).roots == [2], "multicast trees begin at a spine"


def test_fabric_with_a_switch_that_no_host_reaches_is_no_fat_tree() -> None:
    graph = two_level(leaves=2, spines=2, hosts=2)
    graph.add("apart")
    assert graph.levels() is None


def test_group_for_which_a_table_has_no_entry_left_is_its_first_port() -> None:
    groups = PathGroups()
    entries = [groups.entry((port, port + 1)) for port in range(1, 0x10000 - GROUP_BASE + 2)]
    assert (entries[0], entries[-2], entries[-1]) == (GROUP_BASE, 0xFFFF, 0x10000 - GROUP_BASE + 1)
