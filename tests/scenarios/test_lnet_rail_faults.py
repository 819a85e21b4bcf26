"""Multi-Rail under faults whose times sweep across a transfer: once each, nothing twice, everything heals."""

from __future__ import annotations

import pytest

from scenarios.lnet_rail_faults import hold_the_rail_law
from scenarios.lnet_short_faults import KINDS, Traffic, sample


@pytest.mark.parametrize("traffic", KINDS, ids=str)
def test_fault_under_multi_rail_ends_each_message_once_and_heals(traffic: Traffic) -> None:
    for fault in sample(traffic, 1 if traffic.count * traffic.size > 1 << 23 else 3):
        hold_the_rail_law(traffic, fault)
