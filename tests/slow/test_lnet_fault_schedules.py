"""Faults, many: whatever happens, no message is lost, doubled or left without a report."""

from __future__ import annotations

import pytest

from scenarios.lnet_faults import FaultSchedule


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 1000, 50))
def test_thousand_fault_schedules_every_message_has_one_end(first: int) -> None:
    for seed in range(first, first + 50):
        FaultSchedule(seed).run()
