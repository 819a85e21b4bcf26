"""Where nodes are drawn in a browser: apart from each other, over the whole area."""

from __future__ import annotations

from itertools import combinations

import pytest

from hfi_sim.fabric.topology.generators import generate
from opavnic.web.scene.layout import HEIGHT, WIDTH, Layout, layout


def overlaps(drawn: Layout) -> list[tuple[str, str]]:
    return [
        (a, b)
        for a, b in combinations(drawn.at, 2)
        if all(
            abs(drawn.at[a][axis] - drawn.at[b][axis]) < (drawn.size[a][axis] + drawn.size[b][axis]) / 2
            for axis in (0, 1)
        )
    ]


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("single-switch", {"hosts": 2}),
        ("single-switch", {"hosts": 60}),
        ("clos", {"leaves": 4, "spines": 2, "hosts_per_leaf": 3}),
        ("clos", {"leaves": 10, "spines": 2, "hosts_per_leaf": 20}),
        ("clos", {"leaves": 3, "spines": 1, "hosts_per_leaf": 67}),
        ("fat-tree", {"k": 4}),
        ("fat-tree", {"k": 8}),
    ],
)
def test_nodes_of_a_tree_are_apart_and_fill_the_area(kind: str, options: dict[str, int]) -> None:
    drawn = layout(generate(kind, **options))
    assert overlaps(drawn) == []
    heights = [y for _, y in drawn.at.values()]
    assert max(heights) - min(heights) > 0.7 * HEIGHT
    assert all(-1 <= x <= WIDTH + 1 and -1 <= y <= HEIGHT + 1 for x, y in drawn.at.values())


def test_names_of_two_hundred_hosts_on_ten_switches_have_room() -> None:
    drawn = layout(generate("clos", leaves=10, spines=2, hosts_per_leaf=20))
    assert len(drawn.at) == 212
    assert min(width for width, _ in drawn.size.values()) >= 30


def test_hosts_stand_below_their_switch() -> None:
    topology = generate("clos", leaves=10, spines=2, hosts_per_leaf=20)
    drawn = layout(topology)
    for cable in topology.cables:
        ends = sorted((cable.a[0], cable.b[0]))
        if ends[0].startswith("h"):
            host, leaf = (drawn.at[end] for end in ends)
            assert abs(host[0] - leaf[0]) < WIDTH / 20
            assert host[1] > leaf[1]


def test_what_is_no_tree_is_within_the_area_and_its_boxes_shrink_with_it() -> None:
    drawn = layout(generate("torus", dims=(10, 10), hosts_per_switch=2))
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in drawn.at.values())
    assert len(overlaps(drawn)) < len(drawn.at) / 4


def test_given_positions_hold_and_others_stand_below_their_neighbours() -> None:
    """In the proportions of the lab file, over the whole area."""
    given = {
        "spine0": (0.0, 0.0),
        "spine1": (4.0, 0.0),
        "leaf0": (0.0, 2.0),
        "leaf1": (4.0, 2.0),
        "gone": (9.0, 9.0),
    }
    drawn = layout(generate("clos", leaves=2, spines=2, hosts_per_leaf=2), given)
    assert (drawn.at["spine0"], drawn.at["leaf1"]) == ((0.0, 0.0), (WIDTH, WIDTH / 2))
    assert drawn.at["h1"][1] > drawn.at["leaf0"][1]
    assert "gone" not in drawn.at
    assert overlaps(drawn) == []


def test_nodes_with_positions_close_to_each_other_are_narrow_enough() -> None:
    drawn = layout(
        generate("single-switch", hosts=40), {f"h{number}": (float(number), 1.0) for number in range(1, 41)}
    )
    assert overlaps(drawn) == []
