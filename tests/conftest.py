"""What all tests share."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from opavnic.datapath.selection import NOT_BUILT, load_native

E2E = Path(__file__).with_name("e2e")

# A machine that is busy with other things is no failure: no example has a deadline. Examples are new ones each time,
# so that many runs see more than one; a failure prints how to play it again.
settings.register_profile(
    "opavnic", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("opavnic")


def pytest_configure(config: pytest.Config) -> None:
    """End at once where the native module is required and missing: its tests would only be skipped."""
    if os.environ.get("OPAVNIC_REQUIRE_NATIVE") == "1" and load_native() is None:
        raise pytest.UsageError(f"OPAVNIC_REQUIRE_NATIVE=1: {NOT_BUILT}")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what lies in e2e/ as such."""
    for item in items:
        if E2E in item.path.parents:
            item.add_marker(pytest.mark.e2e)


@pytest.fixture(scope="session", autouse=True)
def _no_implicit_event_loop() -> None:
    """Keep the virtual-time plugin from making a loop that nobody closes when it looks at synchronous tests."""
    asyncio.set_event_loop(None)
