"""Two HFIs, and a manager of performance on the first of them."""

from __future__ import annotations

import pytest

from hfi_sim.base.clock import ManualClock
from hfi_sim.fabric.fabric import Fabric
from unit.hfi_sim.fabric_pair import Pair, make_pair
from unit.hfi_sim.management.pma.pm_client import PmClient


@pytest.fixture
def pair() -> Pair:
    return make_pair(Fabric(ManualClock()))


@pytest.fixture
def pm(pair: Pair) -> PmClient:
    assert isinstance(pair.fabric.clock, ManualClock)
    return PmClient(pair.a, pair.fabric.clock)
