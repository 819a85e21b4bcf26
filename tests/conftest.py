"""What all tests share."""

from __future__ import annotations

import asyncio

import pytest


@pytest.fixture(scope="session", autouse=True)
def _no_implicit_event_loop() -> None:
    """Keep the virtual-time plugin from making a loop that nobody closes when it looks at synchronous tests."""
    asyncio.set_event_loop(None)
