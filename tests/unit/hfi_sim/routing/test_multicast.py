"""Trees over the members of a group and nothing else."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hfi_sim.routing import SpanningForest, SwitchGraph
from unit.hfi_sim.routing.test_engines import connected, graph_of


def _reached(
    graph: SwitchGraph, tree: dict[int, frozenset[int]], start: int, in_port: int
) -> list[tuple[int, int]]:
    """Flood from one port through the tree; return the host ports that got a copy, each copy once."""
    copies, waiting = [], [(start, in_port)]
    while waiting:
        switch, came_by = waiting.pop()
        assert len(copies) < 1000, "the tree has a loop"
        for port_num in tree.get(switch, frozenset()) - {came_by}:
            far = graph.arcs[switch].get(port_num)
            if far is None:
                copies.append((switch, port_num))
            else:
                waiting.append((far, graph.far_port[switch, port_num]))
    return copies


@given(connected(), st.data())
def test_prune_reaches_every_member_once_and_no_one_else(graph: SwitchGraph, data: st.DataObject) -> None:
    ends = [(switch, port) for switch, entries in enumerate(graph.lids) for _, port in entries]
    chosen = data.draw(st.sets(st.sampled_from(ends), min_size=1))
    members: dict[int, set[int]] = {}
    for switch, port_num in chosen:
        members.setdefault(switch, set()).add(port_num)
    tree = SpanningForest(graph).prune(members)
    for switch, port_num in chosen:
        copies = _reached(graph, tree, switch, port_num)
        assert sorted(copies) == sorted(chosen - {(switch, port_num)})


def test_prune_leaves_out_switches_between_no_members() -> None:
    graph = graph_of([(0, 1), (1, 2), (2, 3), (1, 4)], 5)
    tree = SpanningForest(graph).prune({2: {1}, 3: {1}})
    assert sorted(tree) == [2, 3]
    assert SpanningForest(graph).prune({}) == {}
    assert SpanningForest(graph).prune({3: {1}}) == {3: frozenset({1})}
