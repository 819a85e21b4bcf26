"""Rules of the suite itself: nothing is tried twice or skipped in silence, and no test fails for a busy machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

TESTS = Path(__file__).parents[1]


def test_property_test_on_a_busy_machine_has_no_deadline() -> None:
    assert settings.default is not None
    assert settings.default.deadline is None
    assert settings.default.print_blob


def test_no_test_is_tried_again_without_a_reason(request: pytest.FixtureRequest) -> None:
    marks = [(item, mark) for item in request.session.items for mark in item.iter_markers("flaky")]
    assert [item.nodeid for item, mark in marks if not mark.kwargs.get("reason")] == []


def test_session_without_the_native_module_where_it_is_required_ends_and_says_how_to_build_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['opavnic._native'] = None\n")
    environment = {**os.environ, "OPAVNIC_REQUIRE_NATIVE": "1", "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--collect-only", "-q", __file__],
        env=environment,
        cwd=TESTS.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "OPAVNIC_REQUIRE_NATIVE=1: the native datapath is not built here" in done.stderr
    assert "make native" in done.stderr
    assert "test_session" not in done.stdout
