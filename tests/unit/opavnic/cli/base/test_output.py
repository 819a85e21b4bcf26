"""What programs, files and peers say is shown on a terminal, and never obeyed by it."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lab_states import host_state, lab_state, link_state, vnic_state

from hfi_sim.base.text import visible
from opavnic.base.state import StateModel
from opavnic.cli.base.output import print_json, print_line, print_rich, print_table, print_text, say
from opavnic.cli.main import main
from opavnic.lab.ownership.runtime import Journal, LabDir
from opavnic.state.job import JobPhase, JobState
from opavnic.state.removed import Program, Removed

RUDE = "\x1b]0;owned\x07\x9b31m[red]x[/red]\x7f\u202eevil\u2028\u200b:ab:"
SHOWN = r"\x1b]0;owned\x07\x9b31m[red]x[/red]\x7f\u202eevil\u2028\u200b:ab:"


@given(st.text())
def test_visible_text_has_nothing_that_a_terminal_obeys(text: str) -> None:
    shown = visible(text)
    assert not [char for char in shown if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")]
    assert visible(shown) == shown


@pytest.mark.parametrize(
    ("show", "lines"),
    [
        (print_line, 1),
        (print_text, 1),
        (print_rich, 1),
        (say, 1),
        (lambda text: print_text(f"a\n{text}\n"), 2),
        (lambda text: print_table(("what",), [[text]]), 2),
        (lambda text: print_table((text,), [["a"]]), 2),
        (lambda text: print_table(("what",), [["a" * 90]], title=text), 3),
    ],
)
def test_text_of_others_is_shown_and_not_obeyed(
    show: Callable[[str], None], lines: int, capsys: pytest.CaptureFixture[str]
) -> None:
    show(RUDE)
    captured = capsys.readouterr()
    printed = captured.out + captured.err
    assert SHOWN in printed
    assert printed.count("\n") == lines
    assert all(char.isprintable() or char == "\n" for char in printed)


def test_empty_text_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    print_text("")
    assert capsys.readouterr().out == ""


def test_json_has_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"name": RUDE})
    printed = capsys.readouterr().out
    assert printed.isascii()
    assert all(char.isprintable() or char == "\n" for char in printed)
    assert json.loads(printed) == {"name": RUDE}


@pytest.mark.parametrize("command", ["down", "prune"])
def test_names_of_programs_that_were_ended_are_shown_and_not_obeyed(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    removed = Removed("x", programs=[Program(7, "\x1b[2Jsleep")], directory="/run/x")
    monkeypatch.setattr("opavnic.lab.run.down.end_lab", lambda *_: removed)
    monkeypatch.setattr("opavnic.lab.ownership.cleanup.prune", lambda **_: [removed])
    assert main([command]) == 0
    assert r"program \x1b[2Jsleep (pid 7)" in capsys.readouterr().out


def test_log_of_a_killed_lab_is_shown_and_not_obeyed(
    own_runtime: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lab = LabDir(tmp_path / "run" / "x")
    lab.acquire()
    lab.save(Journal("x", 2**22 + 1, 1))
    lab.log_file.write_text("first\n\x1b[2Jsecond\n")
    lab.release()
    assert main(["logs"]) == 0
    assert capsys.readouterr().out == "first\n\\x1b[2Jsecond\n"


def ended_job() -> JobState:
    return JobState(
        number=1,
        name=RUDE,
        phase=JobPhase.DONE,
        doing="",
        done=0,
        total=0,
        can_cancel=False,
        seconds=0.1,
        silent_s=0.0,
        version=1,
        error="",
    )


@pytest.mark.parametrize("command", ["logs", "logs -f", "em verify", "fault show", "status"])
def test_what_a_lab_says_is_shown_and_not_obeyed(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPAVNIC_RUNTIME_DIR", str(tmp_path / "run"))
    vnic = vnic_state(vesw=RUDE, interface=RUDE, state=RUDE)
    state = lab_state(
        lab=RUDE,
        em=RUDE,
        datapath_reason=RUDE,
        engine={"name": RUDE, "workers": [{"engine": RUDE, "vnics": 1, "links": 1}]},
        hosts=[host_state(RUDE, vnic)],
        links=[link_state(RUDE)],
        apps=[{"kind": RUDE, "host": RUDE, "note": RUDE}],
        balance={RUDE: 1},
    )
    fault = {"number": 1, "fault": RUDE, "kind": RUDE, "on": RUDE, "state": RUDE, "seen": 1, "hits": 1}
    answer = {"differences": [RUDE], "faults": [fault], **state.as_json()}

    class Client:
        def __init__(self, *_: object) -> None: ...

        def read(self, model: type[StateModel], *_: object) -> StateModel:
            return model.of_json(answer)

        change = read

        def start_job(self, *_: object) -> JobState:
            return ended_job()

        def follow_job(self, job: JobState) -> list[JobState]:
            return [job]

        def job_answer(self, model: type[StateModel], _: JobState) -> StateModel:
            return model.of_json(answer)

        def stream(self, *_: object) -> list[str]:
            return [RUDE]

    lab = LabDir(Path("/nowhere/x"))
    monkeypatch.setattr("opavnic.lab.ownership.client.LabClient", Client)
    monkeypatch.setattr("opavnic.lab.ownership.runtime.running_lab", lambda _: (lab, None))
    monkeypatch.setattr("opavnic.lab.ownership.runtime.all_labs", list)
    main(command.split())
    captured = capsys.readouterr()
    printed = captured.out + captured.err
    assert "internal error" not in printed
    assert all(char.isprintable() or char == "\n" for char in printed)
    assert r"\x1b]0;owned" in printed
