"""A fabric that has deadlocked says who waits for whom, on both engines; one that is only busy or stalled does not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import SimpleNamespace

import pytest

from engine_twins import built_engines
from hfi_sim.engine.link.credits import LanesStatus
from hfi_sim.fabric.topology import generate
from hfi_sim.fabric.topology.draw import drawing
from hfi_sim.fabric.topology.model import Topology
from hfi_sim.fabric.waits import Deadlock, find_deadlock
from unit.hfi_sim.routing.lossless import Lossless

BUILT = built_engines()
every_engine = pytest.mark.parametrize("engine", BUILT)


def stuck_ring(engine: str) -> Lossless:
    bed = Lossless(generate("torus", dims=(8,)), "min-hop", may_deadlock=True, made_by=BUILT[engine])
    sent = bed.load(20)
    bed.clock.advance(600)
    assert bed.got < sent
    return bed


@every_engine
def test_a_deadlock_names_a_circle_of_lanes_of_which_none_moves_again(engine: str) -> None:
    bed = stuck_ring(engine)
    found = find_deadlock(bed.fabric)
    assert found is not None
    assert len(found.cycle) == 8, "once around"
    after = [*found.cycle[1:], found.cycle[0]]
    assert set(zip(found.cycle, after, strict=True)) <= set(found.waits)
    assert found.text == " waits for ".join([*found.cycle, found.cycle[0]])
    ways = {way.name: way for link in bed.fabric.links for way in link.directions}
    for lane in found.cycle:
        source, target = ways[lane].source, ways[lane].target
        assert source.name.startswith("sw"), lane
        assert target.name.startswith("sw"), lane
    before = {lane: ways[lane].counters.out_packets for lane in found.cycle}
    bed.clock.advance(3600)
    assert {lane: ways[lane].counters.out_packets for lane in found.cycle} == before
    assert find_deadlock(bed.fabric) == found


@every_engine
def test_a_deadlock_ends_when_a_link_of_it_goes_down(engine: str) -> None:
    bed = stuck_ring(engine)
    found = find_deadlock(bed.fabric)
    assert found is not None
    cut = next(link for link in bed.fabric.links if found.cycle[0] in [way.name for way in link.directions])
    bed.fabric.set_link(cut, False)
    bed.clock.advance(3600)
    assert find_deadlock(bed.fabric) is None
    assert bed.fabric.balance() == {}


@every_engine
@pytest.mark.parametrize("routing", ["dimension-order", "lane-shift", "up-down"])
def test_a_fabric_under_full_load_without_a_cycle_never_looks_deadlocked(engine: str, routing: str) -> None:
    bed = Lossless(generate("torus", dims=(8,)), routing, vls=2, made_by=BUILT[engine])
    sent = bed.load(10)
    while bed.got < sent:
        bed.clock.advance(0.0005)
        assert find_deadlock(bed.fabric) is None


@every_engine
def test_a_host_that_reads_nothing_is_no_deadlock(engine: str) -> None:
    bed = Lossless(generate("torus", dims=(8,)), "up-down", made_by=BUILT[engine])
    bed.ports[3].stall()
    sent = bed.load(20)
    bed.clock.advance(600)
    assert bed.got < sent
    assert find_deadlock(bed.fabric) is None
    bed.ports[3].resume()
    bed.clock.advance(600)
    assert bed.got == sent


def test_both_engines_see_the_same_waits() -> None:
    seen: list[Deadlock | None] = [find_deadlock(stuck_ring(engine).fabric) for engine in BUILT]
    assert seen.count(seen[0]) == len(seen)


def held(bed: Lossless) -> list[tuple[int, int, int, int, int]]:
    """What `LanesStatus.held` says of all directions."""
    status = [way.lanes for link in bed.fabric.links for way in link.directions]
    return [row for lanes in status if lanes is not None for row in lanes.held]


@pytest.mark.parametrize(("casts", "size"), [(2, 1500), (3, 4000)])
def test_at_rest_what_waits_is_what_is_named_multicast_included(casts: int, size: int) -> None:
    seen = []
    for made_by in BUILT.values():
        bed = Lossless(generate("torus", dims=(4, 4)), "min-hop", may_deadlock=True, made_by=made_by)
        for _ in range(12):
            bed.cast(casts, size=size)
            bed.load(1 + casts % 2, size=(4000, 9000)[casts % 2])
        bed.clock.advance(0.001)
        early = held(bed)
        assert any(packet for _, _, _, packet, _ in early), "copies of some wait in several lanes"
        bed.clock.advance(600)
        found = find_deadlock(bed.fabric)
        assert found is not None
        ways = [way for link in bed.fabric.links for way in link.directions]
        waiting = {way.name for way in ways if way.lanes is not None and any(way.lanes.waiting)}
        assert {lane for lane, _ in found.waits} == waiting
        seen.append((early, held(bed), found))
    assert seen.count(seen[0]) == len(seen)


def way(
    number: int, name: str, held: Sequence[tuple[int, int, int, int, int]], occupied: int
) -> SimpleNamespace:
    """A direction with one lane, whose first packet has no room."""
    return SimpleNamespace(
        number=number,
        name=name,
        up=True,
        has_credits=True,
        lanes=LanesStatus((0,), (1000,), (occupied,), 0, (True,), tuple(held)),
        source=SimpleNamespace(buffers=None),
        planned=SimpleNamespace(flow=None),
    )


@pytest.mark.parametrize(("others", "is_stuck"), [(1000, False), (0, True)])
def test_a_packet_that_several_copies_hold_occupies_its_room_once(others: int, is_stuck: bool) -> None:
    """Two lanes wait for each other, in both of them a copy of what arrived seventh; beside it another one can move."""
    ways = [
        way(1, "in", (), 1000 + others),
        way(2, "a", [(0, 1, 0, 7, 1000), (0, 3, 0, 0, 1000)], 1000),
        way(3, "b", [(0, 1, 0, 7, 1000), (0, 2, 0, 0, 1000)], 1000),
    ]
    fabric = SimpleNamespace(links=[SimpleNamespace(directions=ways)])
    found = find_deadlock(fabric)  # type: ignore[arg-type] # all that it looks at
    assert found is not None
    circle = {("a", "b"), ("b", "a")}
    assert set(found.waits) == (circle | {("in", "a"), ("in", "b")} if is_stuck else circle)


def test_the_drawing_marks_what_waits() -> None:
    bed = stuck_ring("python")
    found = find_deadlock(bed.fabric)
    assert found is not None
    svg = drawing(Topology.of_fabric(bed.fabric), waits=found.waits).document("x")
    assert len(re.findall('<line [^>]*stroke-width="3"', svg)) == 8 + 8, (
        "the ring, and the hosts that wait for it"
    )
    first, second = found.cycle[:2]
    assert f"{first} waits for {second}".replace(">", "&gt;") in svg
