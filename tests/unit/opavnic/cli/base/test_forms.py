"""Tables, JSON and CSV of one command, and what an error is in each."""

from __future__ import annotations

import json
from typing import Annotated

import pytest
import typer

from opavnic.cli.base.common import AsJson
from opavnic.cli.base.forms import form_asked_for, with_forms
from opavnic.cli.base.output import Form, print_json, print_line, print_table, wrong
from opavnic.cli.main import main

app = typer.Typer()


def show(name: Annotated[str, typer.Argument()] = "h1", as_json: AsJson = False) -> None:
    """Show a table."""
    if as_json:
        print_json({"name": name})
        return
    print_line("two tables")
    print_table(("name", "packets"), [(name, 7), ("h2", 1234)])
    print_table(("state",), [[wrong("down", True)]], title="links")


app.command()(with_forms(show))


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[str, str]:
    app(list(words), standalone_mode=False)
    shown = capsys.readouterr()
    return shown.out, shown.err


def test_table_is_plain_text_with_numbers_to_the_right(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = run(capsys)
    assert out == "two tables\nname  packets\nh1          7\nh2       1234\nlinks\nstate\ndown\n"
    assert err == ""
    assert run(capsys, "-o", "table")[0] == out


def test_csv_is_the_tables_alone(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = run(capsys, 'a,"b', "-o", "csv")
    assert out == 'name,packets\n"a,""b",7\nh2,1234\n\nstate\ndown\n'
    assert err == "two tables\n"


def test_json_has_two_spellings(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "--json") == run(capsys, "-o", "json") == ('{\n  "name": "h1"\n}\n', "")


def test_second_run_of_csv_begins_without_an_empty_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "-o", "csv") == run(capsys, "--output", "csv")


@pytest.mark.parametrize(
    ("words", "form"),
    [
        ("status", Form.TABLE),
        ("status --json", Form.JSON),
        ("status -o json", Form.JSON),
        ("status -ojson", Form.JSON),
        ("status --output=json", Form.JSON),
        ("status -o csv", Form.TABLE),
        ("exec h1 -- prog --json", Form.TABLE),
    ],
)
def test_form_of_an_error_is_found_before_the_line_is_parsed(words: str, form: Form) -> None:
    assert form_asked_for(words.split()) is form


@pytest.mark.parametrize(
    ("words", "code", "error", "hint"),
    [
        ("status --json", 1, "no lab is running; start one with: opavnic up FILE", None),
        ("stauts --json", 2, "No such command 'stauts'", "did you mean: opavnic status"),
        ("em show --json", 2, "Missing argument 'topic'", "see: opavnic em show --help"),
        (
            "status --json -o csv",
            2,
            "Invalid value for -o: -o csv and --json contradict each other",
            "see: opavnic status --help",
        ),
    ],
)
def test_error_is_one_json_object_on_stderr(
    words: str,
    code: int,
    error: str,
    hint: str | None,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: object,
) -> None:
    monkeypatch.setenv("OPAVNIC_RUNTIME_DIR", f"{tmp_path}/run")
    assert main(words.split()) == code
    shown = capsys.readouterr()
    assert shown.out == ""
    told = json.loads(shown.err)
    assert told["error"].startswith(error)
    assert (told["hint"], told["exit_code"]) == (hint, code)


def test_mistakes_in_a_file_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["up", "/nowhere.yaml", "--json"]) == 2
    told = json.loads(capsys.readouterr().err)
    assert told["problems"] == [told["error"]] == ["/nowhere.yaml: No such file or directory"]
