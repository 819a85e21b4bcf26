"""Links whose directions differ: how their options are given, and what each direction does, on every engine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfi_sim.base.clock import NS_PER_S
from hfi_sim.base.counters import Drop
from hfi_sim.base.errors import FabricError
from hfi_sim.base.quantities import SizeOrTime
from hfi_sim.engine.config import HfiEnd
from hfi_sim.engine.events.outputs import DirectionId, PortId
from hfi_sim.engine.link.config import PLAIN_LINK, FlowControl, LinkConfig
from hfi_sim.engine.link.two_way import TwoWay
from unit.hfi_sim.engine.hand_made import HandMade, link, number_of, packet

A, B = PortId(0), PortId(1)
THERE, BACK = DirectionId(0), DirectionId(1)
SIZE = 1000


def two_ways(up: LinkConfig, down: LinkConfig) -> HandMade:
    """Return two hosts on a cable; up is from port A to port B."""
    bed = HandMade()
    ports = bed.port(1), bed.port(2)
    bed.cable(HfiEnd(ports[0]), HfiEnd(ports[1]), TwoWay(up=up, down=down))
    return bed


# --- options -------------------------------------------------------------------------------------------------


def test_options_are_read_as_in_lab_files_and_each_direction_may_say_more() -> None:
    found = TwoWay.parse(
        rate="20M", latency="5ms", up={"rate": "1M", "queue": "64K"}, down={"latency": "1ms"}
    )
    assert found.up == LinkConfig(1e6, 5_000_000, queue=SizeOrTime(65536))
    assert found.down == LinkConfig(20e6, 1_000_000)
    assert found.back == TwoWay(up=found.down, down=found.up)
    assert TwoWay.of(PLAIN_LINK).ways == (PLAIN_LINK, PLAIN_LINK)
    assert TwoWay.of(found) is found


def test_options_of_a_cable_come_before_those_of_all_for_each_direction() -> None:
    general = TwoWay(up=LinkConfig(1e6, 7), down=LinkConfig(20e6, 9))
    own = TwoWay(up=LinkConfig(jitter_ns=3), down=LinkConfig(5e6))
    assert own.over(general) == TwoWay(up=LinkConfig(1e6, 7, 3), down=LinkConfig(5e6, 9))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LinkConfig(queue=32768), r"queue is 32768: a queue is SizeOrTime\(65536\)"),  # type: ignore[arg-type]
        (lambda: LinkConfig(rate_bps="10G"), r"rate_bps is '10G': a rate is a number of bits per second"),  # type: ignore[arg-type]
        (lambda: LinkConfig(latency_ns=0.5), r"latency_ns is 0.5: a time is a whole number of nanoseconds"),  # type: ignore[arg-type]
        (lambda: LinkConfig(flow=True), r"flow is True: credits are a FlowControl, or None"),  # type: ignore[arg-type]
        (lambda: LinkConfig.parse(rte="1M"), r'unknown option of links "rte" \(nearest: "rate"'),
        (lambda: TwoWay.parse(up={"rte": "1M"}), r'up: unknown option of links "rte"'),
        (lambda: TwoWay.parse(up={"rate": "fast"}), r"up: rate: .*fast"),
        (lambda: TwoWay.parse(down="1M"), r"down: options of one direction are expected, not '1M'"),  # type: ignore[arg-type]
        (lambda: TwoWay.of({"rate": 1}), r"not the options of a link: a LinkConfig, or a TwoWay of two"),  # type: ignore[arg-type]
    ],
)
def test_options_that_cannot_be_meant_are_refused_at_once(make: Any, message: str) -> None:
    with pytest.raises(FabricError, match=message):
        make()


def test_problem_of_one_direction_names_it() -> None:
    pair = TwoWay(up=LinkConfig(-1.0))
    assert list(pair.problems()) == ["up: rate -1 bit/s is not above 0"]
    assert list(TwoWay.of(LinkConfig(-1.0)).problems()) == ["rate -1 bit/s is not above 0"]


# --- engines -------------------------------------------------------------------------------------------------

ways = st.builds(
    LinkConfig,
    rate_bps=st.sampled_from([1e6, 7_777_777.0, 20e6, 1e9]),
    latency_ns=st.integers(0, 5_000_000),
)


@given(ways, ways, st.lists(st.tuples(st.booleans(), st.integers(0, 3_000_000)), min_size=1, max_size=30))
def test_each_direction_carries_at_its_own_rate_and_latency(
    up: LinkConfig, down: LinkConfig, sends: list[tuple[bool, int]]
) -> None:
    """An oracle of three lines says when each packet arrives: it leaves after those before it in its direction."""
    bed = two_ways(up, down)
    free = {True: 0.0, False: 0.0}
    expected: dict[int, float] = {}
    now = 0
    for number, (forth, pause) in enumerate(sends):
        now += pause
        config, (source, target) = (up, (1, 2)) if forth else (down, (2, 1))
        bed.run(now)
        assert bed.send(now, A if forth else B, packet(source, target, number, size=SIZE)) is None
        free[forth] = max(free[forth], now) + SIZE * 8 * NS_PER_S / config.rate_bps
        expected[number] = free[forth] + config.latency_ns
    bed.run()
    arrived = {number_of(output.packet): output.time for output in bed.delivered()}
    assert arrived == {number: pytest.approx(time, abs=len(sends)) for number, time in expected.items()}
    bed.check_rest()


def test_queue_of_one_direction_does_not_limit_the_other() -> None:
    bed = two_ways(link(queue_bytes=3000), link())
    for number in range(50):
        bed.send(0, A, packet(1, 2, number, size=SIZE))
        bed.send(0, B, packet(2, 1, number, size=SIZE))
    bed.run()
    assert bed.directions[0].drops == {Drop.LINK_OVERFLOW: 50 - 3}
    assert bed.directions[1].drops == {}
    bed.check_rest()


@pytest.mark.parametrize("credited", [THERE, BACK])
def test_credits_of_one_direction_stop_its_sender_alone(credited: DirectionId) -> None:
    flow, plain = link(flow=FlowControl(buffer_bytes=16_384)), link(queue_bytes=1 << 20)
    bed = two_ways(*((flow, plain) if credited == THERE else (plain, flow)))
    assert [bed.engine.lanes(DirectionId(way)) is not None for way in (0, 1)] == [
        credited == THERE,
        credited == BACK,
    ]
    bed.takes = False
    for number in range(40):
        bed.send(0, A, packet(1, 2, number, size=SIZE))
        bed.send(0, B, packet(2, 1, number, size=SIZE))
    bed.run()
    sender, receiver, other = (A, B, A) if credited == THERE else (B, A, B)
    assert bed.engine.is_stopped(sender)
    assert not bed.engine.is_stopped(receiver)
    assert len(bed.delivered(receiver)) == 16
    assert len(bed.delivered(other)) == 40
    for output in bed.delivered():
        bed.take(output)
    bed.takes = True
    bed.run()
    assert len(bed.delivered(receiver)) == 40
    bed.check_rest()


def test_one_direction_changes_or_goes_down_and_the_other_carries_on() -> None:
    bed = two_ways(link(latency_ns=1_000_000), link(latency_ns=1_000_000))
    bed.send(0, A, packet(1, 2, 1))
    bed.send(0, B, packet(2, 1, 2))
    bed.engine.set_link(500_000, THERE, link(), False)
    bed.engine.set_link(500_000, BACK, replace(link(), latency_ns=5))
    bed.send(600_000, A, packet(1, 2, 3))
    bed.send(2_000_000, B, packet(2, 1, 4))
    bed.run()
    assert [number_of(output.packet) for output in bed.delivered()] == [2, 4]
    assert bed.delivered(A)[-1].time < 2_001_000
    assert bed.directions[0].drops == {Drop.LINK_DOWN: 2}
    assert bed.directions[1].drops == {}
    bed.engine.set_link(3_000_000, THERE, link())
    bed.send(3_000_000, A, packet(1, 2, 5))
    bed.run()
    assert [number_of(output.packet) for output in bed.delivered(B)] == [5]
    bed.check_rest()


def test_direction_does_not_get_credits_later_or_lose_them() -> None:
    bed = two_ways(link(flow=FlowControl()), link())
    with pytest.raises(ValueError, match="a direction of a link gets credits when it is created, or never"):
        bed.engine.set_link(0, THERE, link())
    with pytest.raises(ValueError, match="a direction of a link gets credits when it is created, or never"):
        bed.engine.set_link(0, BACK, link(flow=FlowControl()))
