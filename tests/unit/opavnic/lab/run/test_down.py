"""`opavnic down` from outside: what it says where it cannot end a lab."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from opavnic.cli.main import main
from opavnic.lab.ownership.process import process_start_time
from opavnic.lab.ownership.runtime import Journal, LabDir, runtime_root


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Journal:
    """A lab, by its journal, whose process is this one and whose sockets are not there."""
    monkeypatch.setenv("OPAVNIC_RUNTIME_DIR", str(tmp_path / "run"))
    lab = LabDir(runtime_root() / "theirs")
    lab.path.mkdir(parents=True)
    journal = Journal("theirs", os.getpid(), process_start_time(os.getpid()) or 0)
    lab.save(journal)
    return journal


def test_lab_of_another_user_is_refused_in_one_line(
    running: Journal, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(_process: int, _number: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(signal, "pidfd_send_signal", refuse)
    assert main(["down"]) == 1
    assert capsys.readouterr().err == (
        f"opavnic: not permitted to end lab theirs (pid {running.pid}): run this as the user that started the lab\n"
    )
