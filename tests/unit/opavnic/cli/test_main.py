"""The command line: every failure is one line and an exit code, every command explains itself."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hfi_sim.base.errors import InputError
from opavnic.base.errors import OpavnicError
from opavnic.cli.main import COMMANDS, explain, main
from opavnic.lab.ownership.runtime import Journal, LabDir, runtime_root

pytestmark = pytest.mark.usefixtures("own_runtime")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def run_main(*arguments: str) -> tuple[int, str, str]:
        code = main(arguments)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run_main


@pytest.mark.parametrize("name", COMMANDS)
def test_command_explains_itself_with_an_example(name: str, run: Callable[..., tuple[int, str, str]]) -> None:
    code, out, err = run(name, "--help")
    assert (code, err) == (0, "")
    assert "Usage: opavnic" in out
    assert "╭" not in out, "all helps have one look"
    assert "--install-completion" not in out
    if "Commands:" not in out:
        assert f"opavnic {'ps' if name == 'labs' else name}" in out.split("Options:")[0].split("\n", 1)[1]


def test_help_lists_every_command_without_importing_it(run: Callable[..., tuple[int, str, str]]) -> None:
    code, out, _ = run("--help")
    assert code == 0
    for name in COMMANDS:
        assert f"  {name} " in out
        assert COMMANDS[name][1].split(":")[0].split(",")[0][:30] in out


@pytest.mark.parametrize("group", [[], ["mad"], ["em"], ["fault"], ["conformance"]])
def test_group_without_a_command_prints_its_help_and_fails(
    group: list[str], run: Callable[..., tuple[int, str, str]]
) -> None:
    code, out, err = run(*group)
    assert (code, out) == (2, "")
    assert err == run(*group, "--help")[1]
    assert err.count("\n") > 5


def test_nothing_to_list_and_nothing_to_prune_is_fine(run: Callable[..., tuple[int, str, str]]) -> None:
    assert run("ps") == (0, "no lab is running\n", "")
    assert run("ps", "--json") == (0, "[]\n", "")
    assert run("prune") == (0, "nothing to remove\n", "")


def test_full_disk_behind_stderr_changes_nothing_but_the_words(
    run: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(text: str) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(sys.stderr, "write", refuse)
    assert run("prune")[0] == 0
    assert run("nonsense")[0] == 2


def leave_killed(name: str) -> None:
    """Leave what a lab leaves whose process was killed."""
    lab = LabDir(runtime_root() / name)
    lab.path.mkdir(parents=True)
    lab.save(Journal(name, 2**22 + 1, 1))  # a number that no process has
    lab.log_file.write_text(f"{name} was here\n")


def test_log_of_the_only_lab_is_shown_though_it_was_killed(run: Callable[..., tuple[int, str, str]]) -> None:
    leave_killed("a")
    assert run("logs") == (0, "a was here\n", "")
    leave_killed("b")
    code, out, err = run("logs")
    assert (code, out) == (1, "")
    assert "no lab is running; a, b" in err
    assert run("logs", "--lab", "b") == (0, "b was here\n", "")
    LabDir(runtime_root() / "b").old_log_file.write_text("b began\n")
    assert run("logs", "--lab", "b") == (0, "b began\nb was here\n", "")
    assert run("prune")[0] == 0
    assert list(runtime_root().iterdir()) == []


def test_bug_is_one_line_and_its_traceback_is_kept(
    run: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken() -> None:
        raise RuntimeError("line one\nline two")

    monkeypatch.setattr("opavnic.cli.labs.inspect.ps", broken)
    log = tmp_path / "run-error.log"
    assert run("ps") == (
        1,
        "",
        f"opavnic: internal error, RuntimeError: line one line two (traceback in {log})\n",
    )
    assert "in broken" in log.read_text()


class _FailedError(OpavnicError):
    """An error of a package that the program does not know."""


class _MistakenError(_FailedError, InputError):
    """A wrong input of a person, in such a package."""


@pytest.mark.parametrize(
    ("error", "code"), [(_FailedError("it broke"), 1), (_MistakenError("no such thing"), 2)]
)
def test_error_of_any_package_is_one_line_and_a_code(
    run: Callable[..., tuple[int, str, str]],
    monkeypatch: pytest.MonkeyPatch,
    error: OpavnicError,
    code: int,
) -> None:
    def failing() -> None:
        raise error

    monkeypatch.setattr("opavnic.cli.labs.inspect.ps", failing)
    assert run("ps") == (code, "", f"opavnic: {error}\n")


def test_full_disk_is_no_bug(
    run: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def full() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("opavnic.cli.labs.inspect.ps", full)
    assert run("ps") == (1, "", "opavnic: cannot write: No space left on device\n")
    assert not (tmp_path / "run-error.log").exists()


def test_validate_as_json_lists_the_problems(
    run: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    file = tmp_path / "lab.yaml"
    file.write_text("name: x\nhosts: {h1: {}}\nem: maybe\n")
    code, out, err = run("validate", str(file), "--json")
    problem = f"{file}:3: em: should be 'builtin', 'external' or 'off', not 'maybe'"
    assert (code, err) == (2, "")
    assert json.loads(out) == {"ok": False, "problems": [problem]}
    assert run("validate", str(file)) == (2, "", problem + "\n")
    file.write_text("name: x\nhosts: {h1: {}}\n")
    assert run("validate", str(file)) == (0, f"{file}: lab x is valid: 1 host, 0 virtual switches\n", "")


def test_null_device_that_cannot_be_opened_is_no_bug(capsys: pytest.CaptureFixture[str]) -> None:
    assert explain([], PermissionError(13, "Permission denied", "/dev/null")) == 1
    assert capsys.readouterr().err == (
        "opavnic: cannot open /dev/null: Permission denied; programs read and write it: chmod 666 /dev/null, on a file "
        "system that is not mounted nodev\n"
    )
