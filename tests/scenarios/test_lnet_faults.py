"""Faults: whatever happens to ports, devices and packets, no message is lost, doubled or left without a report."""

from __future__ import annotations

import pytest

from scenarios.lnet_faults import FaultSchedule


@pytest.mark.parametrize("seed", range(24))
def test_fault_schedule_every_message_has_one_end_and_all_routes_come_back(seed: int) -> None:
    FaultSchedule(seed).run()
