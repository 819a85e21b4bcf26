"""The shell around an engine: what it makes of clocks."""

from __future__ import annotations

from typing import Any

from hfi_sim.clock import ManualClock
from hfi_sim.fabric import Fabric
from unit.hfi_sim.fabric_pair import make_pair


class _JumpingClock(ManualClock):
    """A manual clock that tells another time than it keeps."""

    offset = 0.0

    def time(self) -> float:
        return super().time() + self.offset

    def call_at(self, when: float, *args: Any) -> Any:
        return super().call_at(when - self.offset, *args)


def test_clock_that_goes_back_delays_packets_and_drops_none() -> None:
    clock = _JumpingClock()
    pair = make_pair(Fabric(clock))
    clock.advance(100)
    pair.a.send(pair.packet())
    clock.offset = -50
    for _ in range(5):
        pair.a.send(pair.packet())
    clock.advance(49)
    assert len(pair.received) == 0
    clock.advance(2)
    assert len(pair.received) == 6
    assert pair.fabric.drops() == {}
    assert pair.fabric.balance() == {}


def test_clock_that_goes_a_day_ahead_delivers_what_was_on_its_way() -> None:
    clock = _JumpingClock()
    pair = make_pair(Fabric(clock))
    pair.a.send(pair.packet())
    clock.offset = 86400
    pair.a.send(pair.packet())
    clock.advance(1)
    assert len(pair.received) == 2
    assert pair.fabric.balance() == {}
