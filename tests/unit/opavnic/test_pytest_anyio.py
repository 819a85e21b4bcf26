"""Tests marked for anyio run on the loop of their fabric; a forgotten await is a failure and not a warning."""

from __future__ import annotations

from pathlib import Path

import pytest

from program import run_pytest

pytest.importorskip("anyio")

IMPORTS = "import anyio, pytest\nfrom opavnic.scenario import *\n"


def run(directory: Path, source: str) -> tuple[dict[str, int], str]:
    (directory / "test_it.py").write_text(IMPORTS + source)
    (directory / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    result = run_pytest(directory, "-p", "no:cacheprovider", "-q", "-rA")
    return result.parseoutcomes(), result.stdout.str()


def test_tests_marked_anyio_run_with_their_fixtures(tmp_path: Path) -> None:
    outcomes, said = run(
        tmp_path,
        """
pytestmark = pytest.mark.anyio

@pytest.fixture
def anyio_backend():
    return "asyncio"

@pytest.fixture
async def blue(em, hosts):
    await em.vesw("blue", members=hosts)

async def test_fixture(hosts, blue):
    h1, h2 = hosts
    assert await h1.ping(h2) == 1
    await anyio.sleep(0.001)

async def test_backend(hosts, blue, anyio_backend):
    assert anyio_backend == "asyncio"

async def test_without_a_fabric():
    await anyio.sleep(0)

class TestOwnMark:
    @pytest.mark.anyio
    async def test_method(self, em, hosts):
        await em.vesw("blue", members=hosts)
""",
    )
    assert outcomes == {"passed": 4}, said


def test_each_test_marked_anyio_runs_once_where_anyio_has_its_default_backends(tmp_path: Path) -> None:
    outcomes, said = run(
        tmp_path,
        """
@pytest.mark.anyio
async def test_it(em, hosts):
    await em.vesw("blue", members=hosts)
""",
    )
    assert outcomes["passed"] == 1, said
    assert outcomes.keys() <= {"passed", "skipped"}, said


def test_forgotten_await_fails_with_the_call(tmp_path: Path) -> None:
    outcomes, said = run(
        tmp_path,
        """
async def test_dropped(em, hosts):
    em.vesw("blue", members=hosts)

async def test_kept(em, hosts):
    await em.vesw("blue", members=hosts)
    found = hosts["h1"].ping("h2")

async def test_meant(em, hosts):
    await em.vesw("blue", members=hosts)
    em.restart()
""",
    )
    assert outcomes == {"passed": 1, "failed": 2}, said
    assert "test_it.py:5: vesw(...) was called and never awaited: write await vesw(...)" in said
    assert "ping(...) was called and never awaited: write await ping(...)" in said
    assert "PASSED test_it.py::test_meant" in said
