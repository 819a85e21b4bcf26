"""Scenarios over TAPs in network namespaces: the same tests, on real time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_smoke_scenarios_pass_over_taps() -> None:
    files = [file for file in ROOT.glob("tests/scenarios/test_*.py") if "def test_smoke" in file.read_text()]
    command = [sys.executable, "-m", "pytest", *map(str, files), "--fabric-real", "-k", "smoke", "-q"]
    result = subprocess.run(
        [*command, "-p", "no:cacheprovider"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-2000:]
    assert " passed" in result.stdout
