"""The comparison of engines, with engines that go wrong in one thing each."""

from __future__ import annotations

import pytest

from engine_twins import Twins
from hfi_sim.engine.api import Engine
from hfi_sim.engine.config import HfiEnd
from hfi_sim.engine.events.outputs import Delivered, DirectionId, Output, PortId
from hfi_sim.engine.link.rule import FaultKind
from hfi_sim.engine.python import PythonEngine
from hfi_sim.wire.icrc import Icrc
from unit.hfi_sim.engine.hand_made import HandMade, link, packet, rule


class _Late(PythonEngine):
    """Delivers the third packet a nanosecond late."""

    delivered = 0

    def poll_output(self) -> Output | None:
        output = super().poll_output()
        if isinstance(output, Delivered):
            self.delivered += 1
            if self.delivered == 3:
                return output._replace(time=output.time + 1)
        return output


class _Forgetful(PythonEngine):
    """Does not count what entered links."""

    def count(self) -> None:
        for direction in self._directions.values():
            direction.counters.in_packets = 0


class _Broken(PythonEngine):
    """Raises where a fault is set."""

    def set_rules(self, *_arguments: object) -> None:
        raise ZeroDivisionError("by hand")


def _compare(other: type[PythonEngine]) -> Twins:
    twins: list[Twins] = []

    def make(icrc: Icrc) -> Engine:
        twins.append(Twins({"python": PythonEngine, "other": other}, icrc))
        return twins[0]

    bed = HandMade(make)
    bed.cable(HfiEnd(bed.port(1)), HfiEnd(bed.port(2)), link(jitter_ns=100))
    bed.engine.set_rules(0, DirectionId(0), [rule(FaultKind.CORRUPT, chance=0.5)])
    for number in range(10):
        bed.send(number * 300, PortId(0), packet(1, 2, number))
    bed.run()
    twins[0].compare_counters()
    return twins[0]


def test_engines_that_do_the_same_do_not_differ() -> None:
    twins = _compare(PythonEngine)
    assert twins.difference is None
    assert twins.events > 10


@pytest.mark.parametrize(
    ("other", "text"),
    [
        (_Late, "poll_output():\npython: Delivered(time=.*\nother: Delivered(time="),
        (_Forgetful, "counters of a link from HfiEnd.port=0., element 0"),
        (_Broken, "set_rules(0, 0, .*\npython: None\nother: raised ZeroDivisionError: by hand\nafter input"),
    ],
)
def test_first_difference_is_named(other: type[PythonEngine], text: str) -> None:
    difference = _compare(other).difference
    assert difference is not None
    for part in text.split(".*"):
        assert part.replace("HfiEnd.port=0.", "HfiEnd(port=0)") in difference
