"""`burst` of loss: packets lost in a row."""

from __future__ import annotations

from itertools import groupby

from hfi_sim.engine.config import HfiEnd
from hfi_sim.engine.events.outputs import DirectionId
from hfi_sim.engine.link.rule import FaultKind
from hfi_sim.fabric.faults import parse_fault, spec_text
from unit.hfi_sim.engine.hand_made import HandMade, link, number_of, packet, rule

PACKETS = 400


def test_each_hit_takes_as_many_packets_in_a_row() -> None:
    bed = HandMade()
    near = bed.port(1)
    bed.cable(HfiEnd(near), HfiEnd(bed.port(2)), link())
    fault = rule(FaultKind.LOSS, chance=0.1, burst=3)
    bed.engine.set_rules(0, DirectionId(0), [fault])
    for number in range(PACKETS):
        bed.send(number * 10_000, near, packet(1, 2, number))
    bed.run()
    arrived = {number_of(each.packet) for each in bed.delivered()}
    runs = [len(list(run)) for lost, run in groupby(range(PACKETS), lambda n: n not in arrived) if lost]
    assert len(runs) > 20
    assert all(run % 3 == 0 for run in runs[:-1])
    assert fault.tally.hits == PACKETS - len(arrived)


def test_burst_is_written_as_it_is_read() -> None:
    assert spec_text(parse_fault("loss on h1 1% burst=3")) == "loss on h1 probability=1% burst=3"
