"""The unit template, the Containerfile and the page about installing: what they call and name exists."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import typer

from opavnic.cli.main import app

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "deploy" / "opavnic@.service"
CONTAINERFILE = ROOT / "deploy" / "Containerfile"
INSTALL = ROOT / "docs" / "install.md"


def command(name: str) -> typer.core.TyperCommand:
    group = typer.main.get_command(app)
    found = group.get_command(typer.Context(group), name)  # type: ignore[attr-defined]
    assert found is not None, f"opavnic has no command {name}"
    return found  # type: ignore[no-any-return]


def calls() -> list[list[str]]:
    lines = re.findall(r"^Exec\w+=(.*)$", UNIT.read_text(), re.MULTILINE)
    return [shlex.split(line) for line in lines]


def test_unit_calls_commands_that_exist_with_arguments_they_take() -> None:
    assert len(calls()) == 3
    for program, name, *arguments in calls():
        assert program == "/usr/local/bin/opavnic"
        command(name).make_context(name, [*arguments])  # a wrong option or argument raises


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_unit_is_accepted_by_systemd(tmp_path: Path) -> None:
    program = tmp_path / "opavnic"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/usr/local/bin/opavnic", str(program)))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_containerfile_copies_what_is_here_and_runs_a_command() -> None:
    text = CONTAINERFILE.read_text()
    for sources in re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.MULTILINE):
        for source in sources.split():
            assert (ROOT / source).exists()
    default = re.search(r'^CMD \["(\w+)"\]$', text, re.MULTILINE)
    assert default is not None
    command(default[1])


def test_commands_of_the_page_about_installing_exist() -> None:
    lines = re.findall(r"^(?:\S+/)?opavnic ([a-z]+)\b", INSTALL.read_text(), re.MULTILINE)
    assert {"prune", "up", "down"} <= set(lines)
    for name in set(lines):
        command(name)


def test_files_that_the_page_about_installing_names_exist() -> None:
    for link in re.findall(r"\]\(([^)#]+)", INSTALL.read_text()):
        assert (INSTALL.parent / link).exists(), link
