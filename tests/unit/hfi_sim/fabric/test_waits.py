"""A fabric that has deadlocked says who waits for whom, on both engines; one that is only busy or stalled does not."""

from __future__ import annotations

import pytest

from engine_twins import built_engines
from hfi_sim.fabric.topology import generate
from hfi_sim.fabric.topology.draw import as_svg
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


def test_the_drawing_marks_what_waits() -> None:
    bed = stuck_ring("python")
    found = find_deadlock(bed.fabric)
    assert found is not None
    svg = as_svg(Topology.of_fabric(bed.fabric), waits=found.waits)
    assert svg.count('stroke-width="3"><title>') == 8 + 8, "the ring, and the hosts that wait for it"
    first, second = found.cycle[:2]
    assert f"{first} waits for {second}".replace(">", "&gt;") in svg
