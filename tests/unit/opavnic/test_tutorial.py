"""The tutorial and the sample project: what they show is run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
TUTORIAL = ROOT / "docs" / "tutorial-scenario.md"
SAMPLE = ROOT / "examples" / "pytest-project"


def run_pytest(directory: Path) -> str:
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error"],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-2000:]
    return result.stdout


def test_every_block_of_the_tutorial_runs(tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", TUTORIAL.read_text(encoding="utf-8"), flags=re.M | re.S)
    tests = [block for block in blocks if "def test_" in block]
    assert (len(blocks), len(tests)) == (8, 7)
    for number, block in enumerate(tests):
        (tmp_path / f"test_block_{number}.py").write_text(block, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    assert "7 passed" in run_pytest(tmp_path)
    for block in blocks:
        if block not in tests:
            subprocess.run([sys.executable, "-c", block], check=True)


def test_faults_of_the_tutorial_are_faults() -> None:
    from hfi_sim.faults import parse_fault

    text = TUTORIAL.read_text(encoding="utf-8")
    lines = re.findall(
        r"^    ((?:loss|corrupt|delay|reorder|link-down|partition|crash) on .*)$", text, flags=re.M
    )
    assert len(lines) == 7
    for line in lines:
        parse_fault(re.split(r"\s{3,}", line)[0])


def test_sample_project_passes_as_it_stands() -> None:
    assert "3 passed" in run_pytest(SAMPLE)
