"""What an engine is never told in a sane lab: every packet is accounted for, none is early, memory is bounded."""

from __future__ import annotations

import pytest

from hfi_sim.base.counters import Drop
from hfi_sim.engine.config import HfiEnd, SwitchEnd
from hfi_sim.engine.events import queue
from hfi_sim.engine.events.outputs import DirectionId, PortId
from hfi_sim.engine.link.config import FlowControl
from hfi_sim.engine.link.rule import FaultKind
from hfi_sim.engine.python import PythonEngine
from unit.hfi_sim.engine.hand_made import (
    GBIT,
    SECOND,
    HandMade,
    link,
    number_of,
    packet,
    rule,
    star,
    table,
    two_hosts,
)

HOUR = 3600 * SECOND
DAY = 24 * HOUR
A, B = PortId(0), PortId(1)
THERE = DirectionId(0)


# --- rates and latencies at their ends -------------------------------------------------------------------------


@pytest.mark.parametrize("latency_ns", [0, HOUR])
@pytest.mark.parametrize("rate_bps", [1, 1000 * GBIT])
def test_extreme_rates_and_latencies_keep_time_to_the_nanosecond(rate_bps: int, latency_ns: int) -> None:
    bed = two_hosts(link(rate_bps=rate_bps, latency_ns=latency_ns))
    for number in range(3):
        assert bed.send(0, A, packet(1, 2, number, size=1496)) is None
    bed.run()
    bits = 1496 * 8
    assert [(output.time, number_of(output.packet)) for output in bed.delivered()] == [
        (-(-(number + 1) * bits * SECOND // rate_bps) + latency_ns, number) for number in range(3)
    ]
    bed.check_rest()


def test_16_mib_at_1_bit_per_second_are_sent_in_four_years() -> None:
    bed = two_hosts(link(rate_bps=1, latency_ns=0))
    for number in range(1100):
        bed.send(0, A, packet(1, 2, number, size=16376))
    bed.run()
    sent = bed.delivered()
    assert len(sent) == (16 << 20) // 16376
    assert sent[-1].time == len(sent) * 16376 * 8 * SECOND
    assert bed.drops() == {Drop.LINK_OVERFLOW: 1100 - len(sent)}
    bed.check_rest()


@pytest.mark.parametrize(("before", "after"), [(1, 1000 * GBIT), (1000 * GBIT, 8000), (8000, 16_000)])
def test_what_waits_when_a_rate_changes_is_sent_at_the_new_one(before: int, after: int) -> None:
    bed = two_hosts(link(rate_bps=before, latency_ns=7))
    for number in range(4):
        bed.send(0, A, packet(1, 2, number, size=1000))
    when = 500 * 8 * SECOND // before  # half of the first has left
    bed.run(when)
    bed.engine.set_link(when, THERE, link(rate_bps=after, latency_ns=7))
    bed.run()
    due = [when - (-(500 + 1000 * number) * 8 * SECOND // after) + 7 for number in range(4)]
    assert [output.time for output in bed.delivered()] == due
    bed.check_rest()


def test_packet_that_has_left_when_a_rate_changes_arrives_as_it_was_to() -> None:
    bed = two_hosts(link(rate_bps=GBIT, latency_ns=HOUR))
    bed.send(0, A, packet(1, 2, size=1000))
    bed.run(8000)
    bed.engine.set_link(8000, THERE, link(rate_bps=1, latency_ns=HOUR))
    bed.run()
    assert [output.time for output in bed.delivered()] == [8000 + HOUR]


def test_queue_counts_the_bytes_that_wait_after_a_rate_has_changed() -> None:
    bed = two_hosts(link(rate_bps=1, queue_bytes=3000))
    for number in range(3):
        assert bed.send(0, A, packet(1, 2, number, size=1000)) is None
    bed.engine.set_link(0, THERE, link(rate_bps=100 * GBIT, queue_bytes=3000))
    bed.send(40, A, packet(1, 2, 3, size=1000))  # 500 bytes have left
    bed.send(40, A, packet(1, 2, 4, size=1000))
    assert bed.drops() == {Drop.LINK_OVERFLOW: 2}
    bed.send(80, A, packet(1, 2, 5, size=1000))
    bed.run()
    assert [number_of(output.packet) for output in bed.delivered()] == [0, 1, 2, 5]
    bed.check_rest()


def test_lanes_that_wait_for_a_slow_wire_go_on_when_it_gets_fast() -> None:
    flow = FlowControl(vls=2, weights=(1, 1))
    bed = two_hosts(link(rate_bps=1, flow=flow))
    for number in range(6):
        bed.send(0, A, packet(1, 2, number, size=1000, sc=number % 2))
    bed.engine.set_link(SECOND, THERE, link(rate_bps=100 * GBIT, flow=flow))
    bed.run()
    assert max(output.time for output in bed.delivered()) < 2 * SECOND
    assert [number_of(output.packet) for output in bed.delivered()] == list(range(6))
    bed.check_rest()


# --- queues ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flow", [None, FlowControl()])
def test_queue_of_one_packet_takes_one_beside_that_on_the_wire(flow: FlowControl | None) -> None:
    bed = two_hosts(link(rate_bps=8000, queue_bytes=2000, flow=flow))
    for number in range(100):
        bed.send(0, A, packet(1, 2, number, size=1000))
    bed.run()
    sent = [number_of(output.packet) for output in bed.delivered()]
    # credits let as much go as the buffer at the far end holds, and then the queue waits for room
    assert sent == list(range(2 if flow is None else 67))
    assert bed.drops() == {Drop.LINK_OVERFLOW: 100 - len(sent)}
    bed.check_rest()


@pytest.mark.parametrize("flow", [None, FlowControl(vls=2)])
def test_64_hosts_that_flood_one_are_all_accounted_for(flow: FlowControl | None) -> None:
    bed = star(65, link(flow=flow), link(rate_bps=GBIT, queue_bytes=64 << 10, flow=flow))
    for number in range(40):
        for host in range(64):
            bed.send(number * 100, PortId(host), packet(host + 1, 65, number, size=1000, sc=host % 2))
    bed.run()
    got = bed.delivered()
    assert len(got) + sum(bed.drops().values()) == 64 * 40
    assert len(got) == 64 * 40 if flow is not None else len(got) < 64 * 40
    for host in range(64):
        own = [number_of(output.packet) for output in got if output.packet[0] == host + 1]
        assert own == sorted(own)
    bed.check_rest()


def test_flood_from_links_without_credits_into_a_stalled_lane_keeps_to_its_queue() -> None:
    bed = star(9, link(), link(queue_bytes=100_000, flow=FlowControl()))
    bed.engine.stall_port(0, PortId(8), True)
    for number in range(1000):
        for host in range(8):
            bed.send(number * 8000, PortId(host), packet(host + 1, 9, number, size=1000))
    bed.run()
    lanes = bed.engine.lanes(DirectionId(17))
    assert lanes is not None
    assert 99_000 < sum(lanes.waiting) <= 100_000
    bed.engine.stall_port(SECOND, PortId(8), False)
    bed.run()
    assert len(bed.delivered()) + bed.drops()[Drop.LINK_OVERFLOW] == 8000
    bed.check_rest()


def test_bytes_that_are_no_packet_are_counted_with_their_length() -> None:
    bed = two_hosts(link())
    assert bed.engine.send(0, A, bytes(10)) is Drop.TX_MALFORMED
    assert [counters.in_bytes for counters in bed.counters() if counters.in_bytes] == [10]
    bed.check_rest()


def test_copies_keep_to_the_queue() -> None:
    bed = two_hosts(link(rate_bps=8000, queue_bytes=5000))
    bed.engine.set_rules(0, THERE, [rule(FaultKind.DUPLICATE, copies=1000)])
    bed.send(0, A, packet(1, 2, size=1000))
    bed.run()
    assert len(bed.delivered()) == 5
    assert bed.drops() == {Drop.LINK_OVERFLOW: 996}
    assert [output.drop for output in bed.observed(THERE)].count(Drop.LINK_OVERFLOW) == 996
    bed.check_rest()


def test_packets_that_were_held_back_keep_to_the_queue() -> None:
    bed = two_hosts(link(rate_bps=8000, queue_bytes=5000))
    bed.engine.set_rules(0, THERE, [rule(FaultKind.REORDER, behind=1000, hold_ns=SECOND)])
    for number in range(20):
        bed.send(0, A, packet(1, 2, number, size=1000))
    bed.run()
    assert [number_of(output.packet) for output in bed.delivered()] == [0, 1, 2, 3, 4]
    assert bed.drops() == {Drop.LINK_OVERFLOW: 15}
    bed.check_rest()


# --- memory ----------------------------------------------------------------------------------------------------


def test_wire_of_an_hour_holds_no_more_than_the_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "POOL_BYTES", 100_000)
    bed = two_hosts(link(rate_bps=100 * GBIT, latency_ns=HOUR), PythonEngine)
    for number in range(1000):
        bed.send(number * 1000, A, packet(1, 2, number, size=1000))
    assert bed.directions[0].in_flight == 100
    bed.run()
    assert bed.drops() == {Drop.LINK_OVERFLOW: 900}
    assert bed.send(2 * HOUR, A, packet(1, 2, 1000, size=1000)) is None
    bed.run()
    assert len(bed.delivered()) == 101
    bed.check_rest()


@pytest.mark.parametrize("flow", [None, FlowControl(vls=2)])
def test_copies_on_each_link_of_a_loop_keep_to_the_pool(
    monkeypatch: pytest.MonkeyPatch, flow: FlowControl | None
) -> None:
    monkeypatch.setattr(queue, "POOL_BYTES", 50_000)
    bed = _ring(12, flow)
    for direction in range(len(bed.directions)):
        bed.engine.set_rules(0, DirectionId(direction), [rule(FaultKind.DUPLICATE, copies=3)])
    bed.send(0, A, packet(1, 0x77, size=1000))
    most = 0
    while (deadline := bed.engine.deadline) is not None:
        bed.run(deadline)
        most = max(most, sum(counters.in_flight for counters in bed.directions))
    assert most <= 50
    assert bed.drops()[Drop.SW_NO_ROUTE] > 0
    bed.check_rest()


def _ring(switches: int, flow: FlowControl | None) -> HandMade:
    """Return switches in a ring whose tables lead LID 0x77 around it, and a host at the first."""
    bed = HandMade(PythonEngine)
    numbers = [bed.switch(3, table({0x77: 2})) for _ in range(switches)]
    for here, there in zip(numbers, [*numbers[1:], numbers[0]], strict=True):
        bed.cable(SwitchEnd(here, 2), SwitchEnd(there, 3), link(flow=flow))
    bed.cable(HfiEnd(bed.port(1)), SwitchEnd(numbers[0], 1), link(flow=flow))
    return bed


# --- changes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flow", [None, FlowControl(), FlowControl(vls=4)])
@pytest.mark.parametrize("latency_ns", [0, 400_000, HOUR])
def test_link_that_flaps_1000_times_a_second_loses_what_was_on_its_way_and_leaves_nothing(
    latency_ns: int, flow: FlowControl | None
) -> None:
    config = link(latency_ns=latency_ns, flow=flow)
    bed = two_hosts(config)
    hold = rule(FaultKind.REORDER, chance=0.3, behind=3, hold_ns=HOUR)
    bed.engine.set_rules(0, THERE, [hold])
    sent = 0
    for flap in range(1000):
        now = flap * 1_000_000
        bed.engine.set_link(now, THERE, config)
        for _ in range(3):
            bed.send(now, A, packet(1, 2, sent, size=504, sc=sent % 4))
            sent += 1
        bed.run(now + 500_000)
        bed.engine.set_link(now + 500_000, THERE, config, False)
        bed.run(now + 500_000)
        assert bed.engine.deadline is None
        bed.send(now + 500_000, A, packet(1, 2, sent))
        sent += 1
    bed.run()
    assert len(bed.delivered()) + bed.drops()[Drop.LINK_DOWN] == sent
    assert bool(bed.delivered()) == (latency_ns < HOUR)
    bed.check_rest()


def test_packets_that_overtake_leave_nothing_behind_of_those_held_back() -> None:
    bed = two_hosts(link(latency_ns=0))
    bed.engine.set_rules(0, THERE, [rule(FaultKind.REORDER, chance=0.5, behind=1, hold_ns=HOUR)])
    for number in range(1000):
        bed.send(number * 1000, A, packet(1, 2, number))
        bed.run(number * 1000 + 999)
    bed.engine.set_rules(SECOND, THERE, [])
    bed.send(SECOND, A, packet(1, 2, 1000))
    bed.run(2 * SECOND)
    assert bed.engine.deadline is None
    assert len(bed.delivered()) == 1001
    bed.check_rest()


@pytest.mark.parametrize("flow", [None, FlowControl(vls=2)])
@pytest.mark.parametrize(
    "kind", [FaultKind.LOSS, FaultKind.DUPLICATE, FaultKind.REORDER, FaultKind.CORRUPT, FaultKind.DELAY]
)
def test_fault_on_each_link_leaves_every_packet_accounted_for(
    kind: FaultKind, flow: FlowControl | None
) -> None:
    bed = star(8, link(flow=flow))
    fault = rule(kind, chance=0.4, copies=2, bits=3, delay_ns=5000, behind=2, hold_ns=100_000)
    for direction in range(16):
        bed.engine.set_rules(0, DirectionId(direction), [fault])
    for number in range(30):
        for host in range(8):
            target = (host + number % 7 + 1) % 8 + 1
            bed.send(number * 500, PortId(host), packet(host + 1, target, number, sc=number % 2))
    bed.run()
    copies = sum(counters.copies for counters in bed.counters())
    assert len(bed.delivered()) + sum(bed.drops().values()) == 240 + copies
    assert fault.tally.hits > 100
    bed.check_rest()


# --- time ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flow", [None, FlowControl(vls=2)])
def test_clock_that_jumps_forward_by_a_day_does_what_was_due_in_its_order(flow: FlowControl | None) -> None:
    bed, late = (star(4, link(jitter_ns=700, flow=flow)) for _ in range(2))
    for each in (bed, late):
        for number in range(50):
            each.send(0, PortId(number % 3), packet(number % 3 + 1, 4, number, sc=number % 2))
    bed.run()
    late.takes = flow is None
    late.engine.handle_timeout(DAY)
    late.run(DAY)
    got = [(output.time, output.packet) for output in late.delivered()]
    if flow is None:
        assert got == [(output.time, output.packet) for output in bed.delivered()]
    for output in late.delivered():
        if output.token is not None:
            late.take(output)
    late.run()
    late.send(DAY, A, packet(1, 4, 99))
    late.run()
    assert len(late.delivered()) == 51
    assert late.delivered()[-1].time >= DAY + 2000
    bed.check_rest()


@pytest.mark.parametrize("flow", [None, FlowControl(vls=2)])
def test_clock_that_jumps_back_loses_count_of_no_packet_and_delivers_none_early(
    flow: FlowControl | None,
) -> None:
    bed = star(4, link(flow=flow))
    sent_at: dict[int, int] = {}
    for number, now in enumerate([DAY, DAY + 100, 0, 50, 2 * DAY, DAY, DAY + 7] * 5):
        bed.send(now, PortId(number % 3), packet(number % 3 + 1, 4, number))
        sent_at[number] = now
        bed.engine.handle_timeout(now)
    bed.run()
    for output in bed.delivered():
        assert output.time >= sent_at[number_of(output.packet)] + 2000
    assert len(bed.delivered()) + sum(bed.drops().values()) == len(sent_at)
    bed.check_rest()
