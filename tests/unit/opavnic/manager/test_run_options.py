"""The options of `opavnic em run`: read at once or by the command, the same."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
import typer

from opavnic.cli.manage.em import app
from opavnic.manager.run_options import FLAGS, ManagerOptions, plain_run


def test_options_read_at_once_are_those_of_the_command() -> None:
    command = typer.main.get_command(app).commands["run"]  # type: ignore[attr-defined]
    flags = {flag: param.name for param in command.params for flag in param.opts if flag.startswith("--")}
    for flag in ("--verbose", "--help"):
        flags.pop(flag, None)
    assert flags == FLAGS
    assert set(FLAGS.values()) | {"config"} == set(inspect.signature(ManagerOptions).parameters)


def test_usual_form_is_read_at_once() -> None:
    words = [
        "em",
        "run",
        "f.yaml",
        "--device",
        "/dev/infiniband/umad1",
        "--database=d.db",
        "--only",
        "h1",
        "--only",
        "h[2-3]",
    ]
    assert plain_run(words) == ManagerOptions(
        Path("f.yaml"), device="/dev/infiniband/umad1", database="d.db", only=("h1", "h[2-3]")
    )


@pytest.mark.parametrize(
    "words",
    [
        "em run",
        "em run a b",
        "em run a --verbose",
        "em run a --device",
        "em run a --device --port x",
        "em run -h",
    ],
)
def test_other_forms_are_left_to_the_command(words: str) -> None:
    assert plain_run(words.split()) is None
