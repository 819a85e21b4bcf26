"""Assignments cost no more than any other, where all can be tried; those of many nodes no more than the first."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opavnic.cluster.protocol import assignment
from opavnic.cluster.protocol.assignment import Assignable, assign, cost_of

Figures = tuple[int, int, int, int]


@st.composite
def tasks(draw: st.DrawFn, most: int = 6) -> Assignable:
    nodes = draw(st.integers(1, most))
    machines = draw(st.integers(1, 3))
    traffic: list[dict[int, int]] = [{} for _ in range(nodes)]
    for a, b in itertools.combinations(range(nodes), 2):
        if rate := draw(st.sampled_from([0, 0, 1, 7, 100])):
            traffic[a][b] = traffic[b][a] = rate
    return Assignable(
        draw(st.lists(st.integers(1, 4), min_size=machines, max_size=machines)),
        draw(st.lists(st.sampled_from([0, 1, 1, 5, 40]), min_size=nodes, max_size=nodes)),
        traffic,
        draw(st.dictionaries(st.integers(0, nodes - 1), st.integers(0, machines - 1), max_size=2)),
        draw(st.sampled_from([0, 10])),
    )


def figures(task: Assignable, at: Sequence[int]) -> Figures:
    """Judge an assignment from its definition: load off the shares, traffic that crosses, peak, crowd."""
    total, capacity = sum(task.loads), sum(task.capacities)
    off = peak = crowd = 0
    for machine, own in enumerate(task.capacities):
        here = [node for node, its in enumerate(at) if its == machine]
        load = sum(task.loads[node] for node in here)
        fair = total * own / capacity
        most = -(-(total * own * (100 + task.slack_percent)) // (100 * capacity))
        least = 0 if task.slack_percent else int(fair)
        off += max(0, load - most) + max(0, least - load)
        peak = max(peak, load * 1_000_000 // own)
        crowd += len(here) ** 2
    pairs = itertools.combinations(range(len(at)), 2)
    cut = sum(task.traffic[a].get(b, 0) for a, b in pairs if at[a] != at[b])
    return off, cut, peak, crowd


@given(tasks())
def test_no_assignment_costs_less(task: Assignable) -> None:
    found = assign(task)
    assert all(found[node] == machine for node, machine in task.given.items())
    every = itertools.product(range(len(task.capacities)), repeat=len(task.loads))
    best = min(
        figures(task, at) for at in every if all(at[node] == machine for node, machine in task.given.items())
    )
    assert figures(task, found) == best == tuple(cost_of(task, found))
    assert assign(task) == found


def test_search_that_stops_early_costs_more_and_the_law_sees_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assignment, "_MOST_EXACT", 0)
    monkeypatch.setattr(assignment, "_PASSES", 0)
    with pytest.raises(AssertionError):
        test_no_assignment_costs_less()


@given(tasks(most=20))
def test_many_nodes_are_moved_only_where_that_costs_less(task: Assignable) -> None:
    first = assignment._first(task)
    assert figures(task, assign(task)) <= figures(task, first)


def test_racks_of_hundreds_stay_whole_and_in_balance() -> None:
    """4 machines, the last with twice the processors, and 20 leaves of 20 hosts in an order that mixes them."""
    leaves, hosts = 20, 20
    loads = [10] * (leaves * hosts) + [1] * leaves
    traffic: list[dict[int, int]] = [{} for _ in loads]
    for host in range(leaves * hosts):
        leaf = leaves * hosts + host % leaves
        traffic[host][leaf] = traffic[leaf][host] = 1000
    for leaf in range(leaves):
        a, b = leaves * hosts + leaf, leaves * hosts + (leaf + 1) % leaves
        traffic[a][b] = traffic[b][a] = 50
    task = Assignable([1, 1, 1, 2], loads, traffic, {}, 10)
    unbalanced, cut, _, _ = cost_of(task, assign(task))
    assert unbalanced == 0
    assert cut <= 50 * leaves, "no host is apart from its leaf"
