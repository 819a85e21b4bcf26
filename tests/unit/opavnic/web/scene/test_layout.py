"""Where nodes are drawn in a browser: apart from each other, with their names on them, within the window."""

from __future__ import annotations

from itertools import combinations

import pytest

from hfi_sim.fabric.topology.generators import generate
from hfi_sim.fabric.topology.model import NodeKind, Topology
from opavnic.web.scene.labels import Label, placed
from opavnic.web.scene.layout import Layout, Plan, Room, layout, text_width

WINDOW, PHONE = Room(1170, 590), Room(360, 420, print=11)


def plan(topology: Topology, **more: object) -> Plan:
    hosts = [node.name for node in topology.of_kind(NodeKind.HFI)]
    cables = [(cable.a[0], cable.b[0]) for cable in topology.cables]
    return Plan({name: name for name in topology.nodes}, frozenset(hosts), cables, **more)  # type: ignore[arg-type]


def overlaps(drawn: Layout) -> list[tuple[str, str]]:
    return [
        (a, b)
        for a, b in combinations(drawn.at, 2)
        if all(
            abs(drawn.at[a][axis] - drawn.at[b][axis]) < (drawn.size[a][axis] + drawn.size[b][axis]) / 2
            for axis in (0, 1)
        )
    ]


@pytest.mark.parametrize("room", [WINDOW, PHONE], ids=["window", "phone"])
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("single-switch", {"hosts": 2}),
        ("single-switch", {"hosts": 200}),
        ("clos", {"leaves": 6, "spines": 3, "hosts_per_leaf": 8}),
        ("clos", {"leaves": 10, "spines": 2, "hosts_per_leaf": 20}),
        ("clos", {"leaves": 3, "spines": 1, "hosts_per_leaf": 67}),
        ("fat-tree", {"k": 4}),
        ("fat-tree", {"k": 8}),
        ("torus", {"dims": (4, 4), "hosts_per_switch": 3}),
        ("torus", {"dims": (10, 10), "hosts_per_switch": 2}),
        ("dragonfly", {"routers": 4, "hosts_per_router": 2, "groups": 3}),
    ],
)
def test_nodes_are_apart_and_within_the_window_and_as_wide_as_their_names(
    kind: str, options: dict[str, int], room: Room
) -> None:
    drawn = layout(plan(generate(kind, **options)), room)
    assert overlaps(drawn) == []
    for name, (x, y) in drawn.at.items():
        wide, high = drawn.size[name]
        assert wide >= text_width(name, room.print)
        assert wide / 2 <= x <= room.width - wide / 2
        assert high / 2 <= y <= drawn.height - high / 2
    assert drawn.height >= room.height


def test_hosts_stand_below_their_switch() -> None:
    topology = generate("clos", leaves=10, spines=2, hosts_per_leaf=20)
    drawn = layout(plan(topology), WINDOW)
    for cable in topology.cables:
        ends = sorted((cable.a[0], cable.b[0]))
        if ends[0].startswith("h"):
            host, leaf = (drawn.at[end] for end in ends)
            assert abs(host[0] - leaf[0]) < WINDOW.width / 20
            assert host[1] > leaf[1]


def test_given_positions_hold_and_others_stand_below_their_neighbours() -> None:
    """In the proportions of the lab file, over the whole area."""
    given = {
        "spine0": (0.0, 0.0),
        "spine1": (4.0, 0.0),
        "leaf0": (0.0, 2.0),
        "leaf1": (4.0, 2.0),
        "gone": (9.0, 9.0),
    }
    topology = generate("clos", leaves=2, spines=2, hosts_per_leaf=2)
    drawn = layout(plan(topology, given=given), WINDOW)
    (left, top), (right, bottom) = drawn.at["spine0"], drawn.at["leaf1"]
    assert right - left == pytest.approx(2 * (bottom - top))
    assert drawn.at["h1"][1] > drawn.at["leaf0"][1]
    assert "gone" not in drawn.at
    assert overlaps(drawn) == []


def test_nodes_with_positions_close_to_each_other_are_narrow_enough() -> None:
    given = {f"h{number}": (float(number), 1.0) for number in range(1, 41)}
    assert overlaps(layout(plan(generate("single-switch", hosts=40), given=given), WINDOW)) == []


def test_link_around_a_torus_is_told_from_those_between_neighbours() -> None:
    drawn = layout(plan(generate("torus", dims=(6, 6))), WINDOW)
    assert drawn.is_hidden("sw0-0", "sw0-5")
    assert drawn.is_hidden("sw0-0", "sw5-0")
    assert not drawn.is_hidden("sw0-0", "sw0-1")


def test_what_is_said_of_links_covers_no_node_and_nothing_else_that_is_said() -> None:
    topology = generate("fat-tree", k=4)
    drawn = layout(plan(topology), PHONE)
    boxes = [(drawn.at[name], drawn.size[name]) for name in drawn.at]
    labels = [
        Label(number, "100M", (34.0, 15.0), (drawn.at[cable.a[0]], drawn.at[cable.b[0]]), 0.1)
        for number, cable in enumerate(topology.cables)
    ]
    found = list(placed(labels, boxes, (PHONE.width, drawn.height)))
    assert found[0][0] is labels[0], "what matters most has its place"
    assert len(found) > 10
    for (at, size), (other_at, other_size) in combinations(
        [*boxes, *((at, label.size) for label, at in found)], 2
    ):
        assert any(abs(at[axis] - other_at[axis]) >= (size[axis] + other_size[axis]) / 2 for axis in (0, 1))


def test_what_is_wrong_about_a_link_stands_where_no_other_link_passes() -> None:
    cut, other = ((0.0, 50.0), (400.0, 50.0)), ((200.0, 0.0), (200.0, 100.0))
    lines = [cut, other, (cut[1], cut[0])]
    for alone, width, expected in ((True, 40.0, 168.0), (True, 240.0, 140.0), (False, 40.0, 200.0)):
        label = Label(0, "down", (width, 16.0), cut, 0.0, alone)
        [(_, at)] = placed([label], [], (400.0, 100.0), lines)
        assert at == pytest.approx((expected, 50.0))


def test_what_is_wrong_about_a_link_is_said_though_other_links_pass_everywhere() -> None:
    cut = ((0.0, 50.0), (400.0, 50.0))
    lines = [((x, 0.0), (x + 1.0, 100.0)) for x in range(0, 400, 10)]
    label = Label(0, "down", (40.0, 16.0), cut, 0.0, alone=True)
    assert len(list(placed([label], [], (400.0, 100.0), lines))) == 1
