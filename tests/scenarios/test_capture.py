"""What a capture keeps of a scenario is what entered its links, on either engine, with every byte and every reason."""

from __future__ import annotations

import io

import pytest

from hfi_sim.fabric.faults import parse_match
from hfi_sim.fabric.notices import TracedPacket
from opavnic.observe.capture import Capture
from opavnic.observe.trace_file import TraceReader
from opavnic.scenario import Hosts, Scenario, ScenarioEm


def captured(capture: Capture) -> list[TracedPacket]:
    data = capture.head
    while piece := capture.take(True):
        data += piece
    return list(TraceReader(io.BytesIO(data + capture.statistics(final=True))).records())


@pytest.mark.topology("single-switch", hosts=3)
async def test_capture_keeps_what_the_trace_has_seen(lab: Scenario, hosts: Hosts, em: ScenarioEm) -> None:
    await em.vesw("blue", members=hosts)
    before = lab.trace.packets
    everything = Capture(lab.fabric, "*", parse_match([]))
    lab.faults.add("loss on h2 50% l4=ethernet")
    lab.faults.add("duplicate on h3 count=3")
    h1, h2, h3 = hosts
    for _ in range(10):
        await h1.ping(h2)
        assert await h1.ping(h3) == 1
    seen = list(lab.trace.records)[before - lab.trace.packets :]
    found = captured(everything)
    assert len(found) == len(seen) > 80
    for copy, record in zip(found, seen, strict=True):
        assert (copy.direction, copy.packet, copy.drop) == (record.direction, record.packet, record.drop)
        assert copy.time_s == pytest.approx(record.time_s, abs=1e-9)
    assert {str(record.drop) for record in found} == {"None", "link_fault"}
