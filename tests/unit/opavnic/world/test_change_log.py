"""What a fabric remembers of its links and faults."""

from __future__ import annotations

import pytest

from hfi_sim.base.clock import ManualClock
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.fabric.faults.manager import Faults
from hfi_sim.fabric.topology.generators import generate
from opavnic.world import change_log
from opavnic.world.change_log import ChangeLog


@pytest.fixture
def clock() -> ManualClock:
    """Seconds that the test moves on."""
    return ManualClock()


@pytest.fixture
def faults(clock: ManualClock) -> Faults:
    """Of a fabric of two hosts on a switch."""
    return Faults(generate("single-switch", hosts=2).build(Fabric(clock)))


def test_fault_and_the_link_that_it_cuts_are_there_with_the_time_of_each_state(
    faults: Faults, clock: ManualClock
) -> None:
    log = ChangeLog(faults.fabric, faults, clock.time)
    number = faults.add("link-down on h2 after=1s for=2s").number
    clock.advance(5)
    faults.remove(number)
    cable = next(link.name for link in faults.fabric.links if "h2" in link.name)
    assert [(change.time, change.name, change.state) for change in log] == [
        (0, "1", "waiting"),
        (1, "1", "active"),
        (1, cable, "down"),
        (3, cable, "up"),
        (3, "1", "over"),
    ]
    assert [change.state for change in log.after(3)] == ["up", "over"]
    assert [change.number for change in log.after(0, 2)] == [4, 5]
    assert log.after(5) == log.after(99) == []


def test_oldest_changes_are_forgotten_and_their_numbers_are_not_given_again(
    faults: Faults, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_log, "CHANGES_KEPT", 4)
    log = ChangeLog(faults.fabric, faults, clock.time)
    for _ in range(3):
        faults.remove(faults.add("loss on h1 10%").number)
    assert [change.number for change in log.after(0)] == [3, 4, 5, 6]
