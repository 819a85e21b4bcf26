"""Faults, many: whatever happens, no message is lost, doubled or left without a report."""

from __future__ import annotations

import pytest

from scenarios.lnet_faults import FaultSchedule
from scenarios.lnet_rail_faults import hold_the_rail_law
from scenarios.lnet_short_faults import KINDS, Traffic, hold_the_law, sweep


def _run_of(first: int) -> object:
    """Return the parameter of 50 schedules: the first are slow, the rest long."""
    return pytest.param(first, marks=pytest.mark.slow if first == 0 else pytest.mark.long)


@pytest.mark.parametrize("first", [_run_of(first) for first in range(0, 1000, 50)])
def test_thousand_fault_schedules_every_message_has_one_end(first: int) -> None:
    for seed in range(first, first + 50):
        FaultSchedule(seed).run()


@pytest.mark.long
@pytest.mark.parametrize("traffic", KINDS, ids=str)
def test_fault_at_every_place_and_time_shorter_than_the_timeout_fails_no_message(traffic: Traffic) -> None:
    for fault in sweep(traffic, 1 if traffic.count * traffic.size > 1 << 23 else 6):
        hold_the_law(traffic, [fault])


@pytest.mark.long
@pytest.mark.parametrize("traffic", KINDS, ids=str)
def test_fault_at_every_place_and_time_under_multi_rail_ends_each_message_once_and_heals(
    traffic: Traffic,
) -> None:
    for fault in sweep(traffic, 1 if traffic.count * traffic.size > 1 << 23 else 3):
        hold_the_rail_law(traffic, fault)
