"""A link that goes on in the engine of another machine: what reaches its end leaves, what comes from there is given."""

from __future__ import annotations

from hfi_sim.base.counters import Drop
from hfi_sim.engine.config import BoundaryEnd, HfiEnd, SwitchEnd
from hfi_sim.engine.events.outputs import Departed, DirectionId, Observed, PortId, packet_of, record_of
from hfi_sim.engine.link.config import FlowControl, LinkConfig
from hfi_sim.engine.link.rule import FaultKind
from unit.hfi_sim.engine.hand_made import HandMade, link, packet, rule

A = PortId(0)
LEAVES, ARRIVES = DirectionId(0), DirectionId(1)
FLOW = FlowControl(buffer_bytes=32 << 10)


def near_half(config: LinkConfig | None = None) -> HandMade:
    """Return an engine whose one port, with LID 1, is on a link to another engine."""
    bed = HandMade()
    bed.cable(HfiEnd(bed.port(1)), BoundaryEnd(), config)
    return bed


def departed(bed: HandMade) -> list[Departed]:
    return [output for output in bed.outputs if isinstance(output, Departed)]


def test_packet_leaves_after_rate_and_latency_of_its_link() -> None:
    bed = near_half()
    sent = packet(1, 2, size=1000)
    assert bed.send(0, A, sent) is None
    bed.run()
    (out,) = departed(bed)
    assert (out.time, out.direction, out.token) == (8000 + 1000, LEAVES, None)
    assert packet_of(out.record) == (sent, 0)
    bed.check_rest()


def test_packet_arrives_at_once_whatever_the_link_is_like() -> None:
    bed = near_half(link(rate_bps=1000, latency_ns=10**9))
    sent = packet(2, 1)
    bed.engine.arrive(500, ARRIVES, [record_of(sent, 3), record_of(sent, 0)])
    bed.run()
    assert [(output.time, output.packet) for output in bed.delivered(A)] == [(500, sent), (500, sent)]
    assert [output.packet for output in bed.outputs if isinstance(output, Observed)] == [sent, sent]
    bed.check_rest()


def test_faults_act_where_a_direction_begins() -> None:
    bed = near_half()
    for direction in (LEAVES, ARRIVES):
        bed.engine.set_rules(0, direction, [rule(FaultKind.LOSS)])
    bed.send(0, A, packet(1, 2))
    bed.engine.arrive(0, ARRIVES, [record_of(packet(2, 1), 0)])
    bed.run()
    assert departed(bed) == []
    assert len(bed.delivered(A)) == 1
    assert bed.drops() == {Drop.LINK_FAULT: 1}
    bed.check_rest()


def test_link_that_is_down_drops_what_arrives() -> None:
    bed = near_half()
    bed.engine.set_link(0, ARRIVES, link(), False)
    bed.engine.arrive(5, ARRIVES, [record_of(packet(2, 1), 0)])
    bed.run()
    assert bed.delivered() == []
    assert bed.drops() == {Drop.LINK_DOWN: 1}
    bed.check_rest()


def test_credit_is_back_once_the_other_engine_has_the_packet() -> None:
    bed = near_half(link(flow=FLOW))
    for number in range(40):
        bed.send(0, A, packet(1, 2, number, size=1024))
    bed.run()
    first = departed(bed)
    assert len(first) == 32, "as many as the buffer at the far end holds"
    for number, out in enumerate(first):
        assert out.token is not None
        bed.engine.release(10**9 + number, out.token)
        bed.now = 10**9 + number
    bed.run()
    rest = departed(bed)[32:]
    assert len(rest) == 8
    for out in rest:
        assert out.token is not None
        bed.engine.release(bed.now, out.token)
    bed.run()
    bed.check_rest()


def test_arrivals_wait_for_credits_of_the_receiver() -> None:
    bed = near_half(link(flow=FLOW))
    bed.takes = False
    bed.engine.arrive(0, ARRIVES, [record_of(packet(2, 1, number, size=1024), 0) for number in range(40)])
    bed.run()
    lanes = bed.engine.lanes(ARRIVES)
    assert len(bed.delivered(A)) == 32
    assert lanes is not None
    assert sum(lanes.waiting) == 8 * 1024
    bed.takes = True
    for output in bed.delivered(A):
        bed.take(output)
    bed.run()
    assert len(bed.delivered(A)) == 40
    bed.check_rest()


def test_loop_over_two_engines_ends() -> None:
    """Each switch sends LID 9 to the other one; neither has more than one switch of its own, the model has two."""
    beds = []
    for _ in range(2):
        bed = HandMade()
        here = bed.switch(2, {9: 1})
        bed.switch(2, {})  # that of the other engine, as every machine has the whole model
        bed.cable(SwitchEnd(here, 1), BoundaryEnd())
        bed.cable(HfiEnd(bed.port(1)), SwitchEnd(here, 2))
        beds.append(bed)
    beds[0].send(0, A, packet(1, 9))
    crossings = 0
    for turn in range(10):
        bed, other = beds[turn % 2], beds[1 - turn % 2]
        for out in [output for output in bed.run() if isinstance(output, Departed)]:
            crossings += 1
            other.engine.arrive(out.time, ARRIVES, [out.record])
    assert 1 <= crossings <= 3
    assert beds[0].drops() + beds[1].drops() == {Drop.SW_NO_ROUTE: 1}
    for bed in beds:
        bed.check_rest()


def test_record_keeps_packet_and_hops() -> None:
    sent = packet(1, 2)
    assert packet_of(record_of(sent, 7)) == (sent, 7)
    assert packet_of(record_of(sent, 10**6))[1] == (1 << 14) - 1


def test_switch_forwards_what_arrives() -> None:
    bed = HandMade()
    switch = bed.switch(2, {1: 2})
    bed.cable(SwitchEnd(switch, 1), BoundaryEnd())
    bed.cable(HfiEnd(bed.port(1)), SwitchEnd(switch, 2))
    bed.engine.arrive(0, ARRIVES, [record_of(packet(2, 1), 0)])
    bed.run()
    assert len(bed.delivered(A)) == 1
    bed.check_rest()
