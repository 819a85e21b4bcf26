"""When an engine wants to be called: not for each step inside the fabric, and never after what it has to say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from hfi_sim.base.clock import FOREVER
from hfi_sim.engine.config import HfiEnd, SwitchEnd
from hfi_sim.engine.events.outputs import Delivered, DirectionId, PortId
from hfi_sim.engine.link.config import FlowControl
from hfi_sim.engine.link.rule import FaultKind, FaultRule
from unit.hfi_sim.engine.hand_made import SECOND, HandMade, link, number_of, packet, rule, two_hosts

ONE = FlowControl(buffer_bytes=16_376)
SEVERAL = FlowControl(vls=3, buffer_bytes=16_376, shared_bytes=1000)
LATENCY_NS = 1_000_000
ODD_NS = 3_333
"""By so much the last cable is shorter: what arrives at a host comes at other times than what arrives at switches."""


def a_line(flow: FlowControl) -> HandMade:
    """Return two hosts, LIDs 1 and 2, at two switches, with nobody who looks at the cables."""
    bed = HandMade()
    ports = [bed.port(lid) for lid in (1, 2)]
    switches = [bed.switch(2, {1: 1, 2: 2}) for _ in range(2)]
    config = link(rate_bps=1_000_000_000, latency_ns=LATENCY_NS, flow=flow)
    last = replace(config, latency_ns=LATENCY_NS - ODD_NS)
    bed.cable(HfiEnd(ports[0]), SwitchEnd(switches[0], 1), config)
    bed.cable(SwitchEnd(switches[0], 2), SwitchEnd(switches[1], 1), config)
    bed.cable(SwitchEnd(switches[1], 2), HfiEnd(ports[1]), last)
    for number in range(len(bed.directions)):
        bed.engine.observe(0, DirectionId(number), False)
    return bed


@pytest.mark.parametrize("flow", [ONE, SEVERAL])
def test_links_with_credits_need_no_call_for_each_switch(flow: FlowControl) -> None:
    bed = a_line(flow)
    bed.send(0, PortId(0), packet(1, 2, size=1000))
    called = []
    while (deadline := bed.engine.deadline) is not None:
        called.append(deadline)
        bed.engine.handle_timeout(deadline)
        if (output := bed.engine.poll_output()) is not None:
            assert output.time == deadline == 3 * (LATENCY_NS + 8000) - ODD_NS
            break
    assert len(called) <= 3


@pytest.mark.parametrize("flow", [ONE, SEVERAL])
def test_sender_that_was_stopped_goes_on_when_its_credit_comes_and_not_later(flow: FlowControl) -> None:
    bed = a_line(flow)
    for number in range(200):
        bed.send(0, PortId(0), packet(1, 2, number, size=1000))
    bed.run()  # which holds that nothing comes out after its time
    assert bed.flow() == [True, False]
    assert len(bed.delivered()) == 200
    bed.check_rest()


def calls(rules: Sequence[FaultRule]) -> int:
    """Return how many calls twenty packets need until the last is delivered, with rules on all cables."""
    bed = a_line(ONE)
    for number in range(len(bed.directions)):
        bed.engine.set_rules(0, DirectionId(number), rules)
    for number in range(20):
        bed.send(0, PortId(0), packet(1, 2, number, size=1000))
    called = 0
    while (deadline := bed.engine.deadline) is not None:
        called += 1
        bed.engine.handle_timeout(deadline)
        while (output := bed.engine.poll_output()) is not None:
            assert output.time == deadline
            if isinstance(output, Delivered) and output.token is not None:
                bed.engine.release(deadline, output.token)
    return called


@pytest.mark.parametrize(
    ("kind", "count", "tells"),
    [
        (FaultKind.DELAY, None, False),
        (FaultKind.DUPLICATE, None, False),
        (FaultKind.DELAY, 5, True),
        (FaultKind.REORDER, None, True),
    ],
)
def test_faults_of_which_nothing_comes_out_at_once_need_no_call_for_each_switch(
    kind: FaultKind, count: int | None, tells: bool
) -> None:
    disturbed = calls([rule(kind, count=count, chance=0.0)])
    assert disturbed > calls([]) if tells else disturbed == calls([])


def test_packets_delayed_beyond_all_time_are_due_at_its_end_in_order() -> None:
    bed = two_hosts(link())
    bed.engine.set_rules(0, DirectionId(0), [rule(FaultKind.DELAY, delay_ns=FOREVER)])
    for number in range(2):
        bed.send(SECOND, PortId(0), packet(1, 2, number))
    bed.run(FOREVER - 1)
    assert bed.delivered() == []
    assert bed.engine.deadline == FOREVER
    bed.run()
    assert [(output.time, number_of(output.packet)) for output in bed.delivered()] == [
        (FOREVER, 0),
        (FOREVER, 1),
    ]
    bed.check_rest()
