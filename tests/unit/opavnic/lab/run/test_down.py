"""`opavnic down` from outside: what it says where it cannot end a lab."""

from __future__ import annotations

import signal

import pytest

from opavnic.cli.main import main
from opavnic.lab.ownership.runtime import Journal, LabDir


@pytest.fixture
def running(directory: LabDir) -> Journal:
    """A lab, by its journal, whose process is this one and whose sockets are not there."""
    return directory.load()


def test_lab_of_another_user_is_refused_in_one_line(
    running: Journal, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(_process: int, _number: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(signal, "pidfd_send_signal", refuse)
    assert main(["down"]) == 1
    assert capsys.readouterr().err == (
        f"opavnic: not permitted to end lab x (pid {running.pid}): run this as the user that started the lab\n"
    )
