"""The usual form of `opavnic exec`: what is read without the library of the command line, and what is left to it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from opavnic.cli.enter_at_once import PlainExec, plain_exec


@pytest.fixture(autouse=True)
def no_lab_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPAVNIC_LAB", raising=False)


@pytest.mark.parametrize(
    ("words", "lab", "devices"),
    [
        ("exec h1 -- ls --lab other", None, None),
        ("exec --lab two h1 -- ls --lab other", "two", None),
        ("exec h1 --lab two -- ls --lab other", "two", None),
        ("exec --umad h1 -- ls --lab other", None, True),
        ("exec h1 --no-umad -- ls --lab other", None, False),
    ],
)
def test_what_follows_two_dashes_is_the_programs(words: str, lab: str | None, devices: bool | None) -> None:
    assert plain_exec(words.split()) == PlainExec("h1", ["ls", "--lab", "other"], lab, devices)


def test_lab_of_the_environment_stands_for_the_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPAVNIC_LAB", "two")
    assert plain_exec(["exec", "h1", "--", "ls"]) == PlainExec("h1", ["ls"], "two", None)


@pytest.mark.parametrize(
    "words",
    [
        "exec h1 ls -l",
        "exec --help",
        "exec h1 --print -- ls",
        "exec --lab=two h1 -- ls",
        "exec h1 h2 -- ls",
        "exec -- h1 ls",
        "exec h1 --",
        "exec h1 --lab -- ls",
        "shell h1",
    ],
)
def test_other_forms_are_left_to_the_full_command(words: str) -> None:
    assert plain_exec(words.split()) is None


def test_usual_form_needs_no_library_that_takes_longer_to_import_than_python_to_start() -> None:
    imports = "import sys, opavnic.cli.enter_at_once; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", imports], check=True, capture_output=True, text=True
    ).stdout.split()
    assert not {"typer", "pydantic", "asyncio", "logging", "hashlib", "difflib", "subprocess"} & set(loaded)


def test_program_enters_the_devices_without_the_declared_wire_formats() -> None:
    imports = "import sys, opavnic.devices.kernel.entry, opavnic.devices.kernel.seccomp; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", imports], check=True, capture_output=True, text=True
    ).stdout.split()
    assert not {"construct", "hfi_sim.wire.header"} & set(loaded)
