"""Both datapaths do the same where links differ, faults strike, tables change or lead in circles."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfi_sim.base.counters import Drop
from hfi_sim.engine.link.capture import MAX_SNAP
from native_module import needs_native
from unit.hfi_sim.rings import LOST_LID
from unit.opavnic.datapath.mixed import KINDS, Mixed, Plan, Worlds

pytestmark = needs_native

Change = Callable[[Mixed], None]
LONGEST = 1514
"""Bytes of a frame; more are sent as segments of TCP."""


# --- changes -----------------------------------------------------------------------------------------------


def set_link(number: int, up: bool, world: Mixed) -> None:
    links = world.fabric.links
    world.fabric.set_link(links[number % len(links)], up)


def add_fault(kind: str, number: int, options: str, world: Mixed) -> None:
    ways = [way for link in world.fabric.links for way in link.directions]
    world.faults.add(f"{kind} on {ways[number % len(ways)].name} {options}")


def clear_faults(world: Mixed) -> None:
    world.faults.clear()


def observe(way: int, world: Mixed) -> None:
    world.observe(way)


def capture(way: int, snap: int, world: Mixed) -> None:
    world.capture(way, snap)


def move_group(number: int, world: Mixed) -> None:
    port = world.ports[number % len(world.ports)]
    groups = world.sm.groups
    (groups.leave if world.group in port.multicast_lids else groups.join)(world.group, port)


def lead_around(lid: int, world: Mixed) -> None:
    """Send what is for `lid`, or for the group, around and around."""
    for switch in world.switches:
        lft = dict(switch.lft) | {lid: 7}
        switch.program(lft, {world.group: frozenset((1, 7, 8))})


def sweep(world: Mixed) -> None:
    world.sm.sweep()


numbers = st.integers(0, 20)
percents = st.sampled_from(["1%", "20%", "50%", "100%"])
plain_faults: st.SearchStrategy[Change] = st.one_of(
    st.builds(partial, st.just(add_fault), st.just("loss"), numbers, percents),
    st.builds(
        lambda number, percent, bits: partial(add_fault, "corrupt", number, f"{percent} bits={bits}"),
        numbers,
        percents,
        st.sampled_from([1, 2, 40, 400, 100_000]),
    ),
)
other_faults: st.SearchStrategy[Change] = st.builds(
    lambda kind, number: partial(add_fault, *kind[:1], number, kind[1]),
    st.sampled_from(
        [
            ("loss", "50% count=3"),
            ("loss", "30% skip=4"),
            ("duplicate", "30% copies=2"),
            ("delay", "50% delay=2ms"),
            ("reorder", "30% behind=2 hold=1ms"),
            ("corrupt", "50% sc=0"),
            ("loss", "40% for=3ms"),
        ]
    ),
    numbers,
)
wiring: st.SearchStrategy[Change] = st.one_of(
    st.builds(partial, st.just(set_link), numbers, st.booleans()),
    st.builds(partial, st.just(observe), numbers),
    st.builds(partial, st.just(capture), numbers, st.sampled_from([MAX_SNAP, 100, 20])),
    st.builds(partial, st.just(move_group), numbers),
    st.just(sweep),
)
changes = st.one_of(plain_faults, plain_faults, other_faults, wiring, st.just(clear_faults))
plans = st.builds(
    Plan,
    switches=st.integers(1, 4),
    hosts=st.integers(2, 5),
    ring=st.booleans(),
    trunks=st.lists(st.sampled_from(list(KINDS)), min_size=1, max_size=4),
    host_link=st.lists(st.sampled_from(["fast", "fast", "fast", "slow", "narrow", "credits"]), max_size=5),
    in_python=st.sampled_from([0, 0, 1, 2]),
    lmc=st.integers(0, 2),
    adaptive=st.booleans(),
    seed=st.integers(0, 1 << 66),
)
sends = st.tuples(
    numbers,
    st.one_of(st.none(), numbers),
    st.sampled_from([60, 100, 1514, 3000, 20_000]),
    st.sampled_from([None, 0, 3, 7]),
)
waits = st.sampled_from([0.0, 10e-6, 1e-3, 0.1])


def send(worlds: Worlds, sender: int, target: int | None, size: int, tag: int | None) -> None:
    lids = worlds.reference.lids()
    sender, lid = sender % len(worlds.reference.ports), None if target is None else lids[target % len(lids)]
    if size > LONGEST:
        worlds.send_large(sender, lid, size, 1448 if tag is None else 536)
    else:
        worlds.send(sender, lid, size, tag)


# --- what has to agree -------------------------------------------------------------------------------------


Steps = list[tuple[int, int | None, int, int | None] | float | Change]
some_steps = st.lists(st.one_of(sends, sends, sends, sends, waits, changes), min_size=5, max_size=60)


@given(plans, some_steps)
def test_both_datapaths_agree_whatever_links_faults_and_tables_become(plan: Plan, steps: Steps) -> None:
    hold_to_each_other(plan, steps)


@given(plans, st.integers(2, 4), some_steps)
def test_several_workers_agree_with_the_reference_as_well(plan: Plan, workers: int, steps: Steps) -> None:
    hold_to_each_other(replace(plan, workers=workers), steps)


def hold_to_each_other(plan: Plan, steps: Steps) -> None:
    """Let the same happen in both."""
    worlds = Worlds(plan)
    for step in steps:
        if isinstance(step, tuple):
            send(worlds, *step)
        elif isinstance(step, float):
            worlds.advance(step)
        else:
            worlds.change(step)
    worlds.finish()


@pytest.mark.parametrize("seed", range(10))
def test_same_seed_loses_and_damages_the_same_packets_in_both_datapaths(seed: int) -> None:
    """What goes on after the faults is observed on a slow link: the damaged packets are equal, bit by bit."""
    worlds = Worlds(Plan(switches=2, hosts=4, trunks=["slow"], seed=seed))
    for way in (0, 1):
        worlds.change(partial(observe, way))
    worlds.change(partial(add_fault, "loss", 2, "20%"))
    worlds.change(partial(add_fault, "corrupt", 2, "30% bits=5"))
    worlds.change(partial(add_fault, "loss", 6, "10%"))
    worlds.change(partial(add_fault, "corrupt", 6, "100% bits=1"))
    lid = worlds.reference.ports[1].lid
    for number in range(200):
        worlds.send(2 * (number % 2), lid, 60 + number)
    worlds.advance(0.1)
    assert 100 < sum(map(len, worlds.reference.observed.values())) < 200
    worlds.finish()


@pytest.mark.parametrize("place", ["observed", "captured"])
def test_place_that_shows_packets_without_their_sum_is_noticed(place: str) -> None:
    """What enters a link is looked at while packets are on their way; a world that forgets the sum there is another."""
    for forgets in (False, True):
        worlds = Worlds(Plan(switches=2, trunks=["slow"]))
        worlds.send_large(0, worlds.reference.ports[1].lid, 9000, 1448)
        worlds.advance(1e-5)  # on the way to the second switch
        if forgets:
            forget_sums(worlds.native)
        worlds.change(partial(observe, 5) if place == "observed" else partial(capture, 5, MAX_SNAP))
        with pytest.raises(AssertionError) if forgets else nullcontext():
            worlds.finish()


def forget_sums(world: Mixed) -> None:
    """Show what is observed and captured in this world with an ICRC of 0."""
    note, captured = world.note, world.captured
    world.note = lambda seen: note(replace(seen, packet=seen.packet[:-5] + bytes(4) + seen.packet[-1:]))  # type: ignore[method-assign]
    # behind a packet are the four bytes with which its block ends
    world.captured = lambda: [kept[:-9] + bytes(4) + kept[-5:] for kept in captured()]  # type: ignore[method-assign]


def test_other_seed_loses_other_packets() -> None:
    lost = []
    for seed in (1, 2):
        worlds = Worlds(Plan(seed=seed))
        worlds.change(partial(add_fault, "loss", 0, "50%"))
        marks = []
        for _ in range(64):
            before = worlds.delivered
            worlds.send(0, worlds.reference.ports[1].lid)
            worlds.advance(1e-3)
            marks.append(worlds.delivered - before)
        lost.append(marks)
    assert lost[0] != lost[1]


@pytest.mark.parametrize("trunk", list(KINDS))
@pytest.mark.parametrize("switches", [1, 2, 3, 6])
def test_circle_ends_the_same_in_both_datapaths(switches: int, trunk: str) -> None:
    worlds = Worlds(Plan(switches=switches, hosts=max(2, switches), ring=True, trunks=[trunk]))
    worlds.send(0, worlds.reference.ports[1].lid)
    worlds.change(partial(lead_around, LOST_LID))
    worlds.send(0, LOST_LID)
    worlds.send(0, None)
    worlds.send(1, LOST_LID)
    worlds.finish()
    drops = [reason for reasons in worlds.native.fabric.drops().values() for reason in reasons]
    assert drops.count(Drop.SW_NO_ROUTE) >= 1
    assert drops.count(Drop.SW_NO_GROUP) >= 1


def send_all_ways(worlds: Worlds) -> None:
    """Let every host send to every LID, twice."""
    for _ in range(2):
        for sender in range(len(worlds.reference.ports)):
            for lid in worlds.reference.lids():
                worlds.send(sender, lid)
                worlds.advance(1e-3)


@pytest.mark.parametrize("switches", [2, 3])
def test_congestion_is_answered_in_both_datapaths(switches: int) -> None:
    """Every packet on a trunk is marked, so every receiver owes an answer."""
    worlds = Worlds(Plan(switches=switches, hosts=switches * 2, trunks=["marks"]))
    send_all_ways(worlds)
    worlds.finish()
    assert sum(port.congestion.becn_received for port in worlds.native.ports) > 10


def test_congestion_is_answered_on_a_way_without_credits() -> None:
    """Two trunks between two switches, one of them with credits: what comes marked is answered over the other."""
    worlds = Worlds(Plan(switches=2, hosts=4, ring=True, trunks=["marks", "fast"]))
    send_all_ways(worlds)
    worlds.finish()
