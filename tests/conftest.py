"""What all tests share."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

E2E = Path(__file__).with_name("e2e")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what lies in e2e/ as such, and try it again, and say so.

    Real programs and kernel timers share the machine with whatever else runs. With `-p no:rerunfailures` each test
    has one try.
    """
    tries = config.pluginmanager.hasplugin("rerunfailures")
    for item in items:
        if E2E in item.path.parents:
            item.add_marker(pytest.mark.e2e)
        if tries and item.get_closest_marker("e2e") is not None:
            item.add_marker(pytest.mark.flaky(reruns=2))


@pytest.fixture(scope="session", autouse=True)
def _no_implicit_event_loop() -> None:
    """Keep the virtual-time plugin from making a loop that nobody closes when it looks at synchronous tests."""
    asyncio.set_event_loop(None)
