"""The scenarios of all pages, and the sample project: what they show is run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import venv
from pathlib import Path

import pytest

from program import run_pytest
from tools.doc_blocks import blocks, pages

ROOT = Path(__file__).parents[3]
TUTORIAL = ROOT / "docs" / "tutorials" / "first-scenario.md"
SAMPLE = ROOT / "examples" / "pytest-project"


def scenarios(page: Path) -> list[str]:
    found = blocks(page.read_text(encoding="utf-8"))
    return [block.text for block in found if block.is_scenario and not block.not_run]


def passed(directory: Path, number: int) -> bool:
    result = run_pytest(directory, "-q", "-p", "no:cacheprovider", "-W", "error")
    assert result.ret == 0, result.stdout.str()[-4000:] + result.stderr.str()[-2000:]
    return f"{number} passed" in result.stdout.str()


@pytest.mark.parametrize("page", [page for page in pages() if scenarios(page)], ids=lambda page: page.name)
def test_every_scenario_of_the_page_passes(page: Path, tmp_path: Path) -> None:
    tests = scenarios(page)
    for number, test in enumerate(tests):
        (tmp_path / f"test_block_{number}.py").write_text(test, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    assert passed(tmp_path, "".join(tests).count("def test_"))


def test_faults_of_the_tutorial_are_faults() -> None:
    from hfi_sim.fabric.faults import parse_fault

    text = TUTORIAL.read_text(encoding="utf-8")
    lines = re.findall(
        r"^((?:loss|corrupt|delay|reorder|link-down|partition|crash) on .*)$", text, flags=re.M
    )
    assert len(lines) == 8
    for line in lines:
        parse_fault(re.split(r"\s{3,}", line)[0])


def test_sample_project_passes_as_it_stands() -> None:
    assert passed(SAMPLE, 15)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_sample_project_passes_with_the_two_commands_of_its_page_in_a_fresh_environment(
    tmp_path: Path,
) -> None:
    page = (SAMPLE / "README.md").read_text(encoding="utf-8")
    block = re.search(r"Two commands.*?\n\n((?:    [^\n]+\n)+)", page, flags=re.S)
    assert block is not None
    commands = [line.strip() for line in block[1].splitlines()]
    assert [command.split()[0] for command in commands] == ["pip", "pytest"]
    made = (".venv", ".git", "target", "build", "dist", "__pycache__", "*.so", "*.egg-info", ".*_cache")
    copy = tmp_path / "opavnic"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*made, ".hypothesis", ".fabric"))
    venv.create(tmp_path / "venv", with_pip=True)
    programs = tmp_path / "venv" / "bin"
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST"))}
    clean["CARGO"] = str(tmp_path / "none")  # as where no cargo is: `make venv` builds the native module
    clean["PIP_NO_COMPILE"] = "1"  # of all that it installs, little is imported
    output = ""
    for command in commands:
        name, *arguments = command.split()
        result = subprocess.run(
            [str(programs / name), *arguments],
            cwd=copy / "examples" / "pytest-project",
            capture_output=True,
            text=True,
            check=False,
            env={**clean, "PATH": f"{programs}:{os.environ['PATH']}", "VIRTUAL_ENV": str(tmp_path / "venv")},
        )
        output = result.stdout + result.stderr
        assert result.returncode == 0, f"{command}: {output[-4000:]}"
    assert "15 passed" in output
