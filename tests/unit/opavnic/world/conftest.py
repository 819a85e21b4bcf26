"""What tests of a running lab share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import ClientSession

from lab_in_memory import lab_in_memory, served
from opavnic.lab.run.lab import Lab


@pytest.fixture
async def lab(request: pytest.FixtureRequest, own_runtime: None) -> AsyncIterator[Lab]:
    """The lab in memory whose file is the `TEXT` of the test's module."""
    async with lab_in_memory(request.module.TEXT) as running:
        yield running


@pytest.fixture
async def http(lab: Lab, tmp_path: Path) -> AsyncIterator[ClientSession]:
    """A client of its control API."""
    async with served(lab.routes(), tmp_path) as session:
        yield session
