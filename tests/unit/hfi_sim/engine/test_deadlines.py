"""When an engine wants to be called: not for each step inside the fabric, and never after what it has to say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hfi_sim.engine.config import HfiEnd, SwitchEnd
from hfi_sim.engine.outputs import DirectionId, PortId
from hfi_sim.link.config import FlowControl
from unit.hfi_sim.engine.hand_made import HandMade, link, packet

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
