"""A runtime directory that somebody else has made first: no command believes what it finds there."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from opavnic.cli.main import main
from opavnic.lab.file.errors import LabError
from opavnic.lab.ownership.client import LabClient
from opavnic.lab.ownership.process import process_start_time
from opavnic.lab.ownership.runtime import Journal, LabDir
from opavnic.management.mad_client import MadClient, MadSocketError

STRANGER = 4711


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A runtime directory in which a lab seems to run: as this process."""
    root = tmp_path / "run"
    monkeypatch.setenv("OPAVNIC_RUNTIME_DIR", str(root))
    lab = LabDir(root / "false")
    lab.acquire()
    lab.save(Journal("false", os.getpid(), process_start_time(os.getpid()) or 0))
    lab.log_file.write_text("believe me\n")
    lab.release()
    return root


COMMANDS_OF_LABS = [
    "ps",
    "status",
    "status --lab false",
    "down",
    "down false",
    "prune",
    "logs",
    "logs --lab false",
    "top -c 1",
    "exec h1 -- true",
    "shell h1",
    "capture -c 1",
    "topo",
    "fault show",
    "em show vports",
    "mad get vesw-port-info",
    "mad record /dev/null",
    "lnetctl net show --host h1",
]


@pytest.mark.parametrize("command", COMMANDS_OF_LABS)
def test_directory_of_another_user_is_refused_in_one_line(
    command: str, root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: STRANGER)
    assert main(command.split()) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == (
        f"opavnic: {root} must belong to this user (uid {STRANGER}) and be closed to others; it belongs to "
        f"uid {owner} with mode drwx------ and is left alone (select another directory with OPAVNIC_RUNTIME_DIR)\n"
    )


@pytest.mark.parametrize("command", COMMANDS_OF_LABS)
def test_directory_open_to_others_is_refused_in_one_line(
    command: str, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root.chmod(0o777)
    assert main(command.split()) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "with mode drwxrwxrwx and is left alone" in captured.err
    assert captured.err.count("\n") == 1


def test_link_in_place_of_the_directory_is_refused(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    link = root.with_name("link")
    link.symlink_to(root)
    monkeypatch.setenv("OPAVNIC_RUNTIME_DIR", str(link))
    assert main(["ps"]) == 1
    assert f"{link} must belong to this user" in capsys.readouterr().err


def test_lab_in_a_directory_open_to_others_is_passed_over(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "false").chmod(0o770)
    assert main(["ps"]) == 0
    assert capsys.readouterr().out == "no lab is running\n"


@pytest.fixture
def served_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Path, socket.socket]]:
    """A socket at which another user listens."""
    path = tmp_path / "control.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        if os.geteuid() == 0:
            os.seteuid(STRANGER)
            listener.listen()
            os.seteuid(0)
        else:
            listener.listen()
            monkeypatch.setattr(os, "geteuid", lambda: STRANGER)
        yield path, listener


def test_control_socket_of_another_user_is_told_nothing(
    served_by_another: tuple[Path, socket.socket],
) -> None:
    path, listener = served_by_another
    with pytest.raises(LabError, match=rf"^{path} is served by uid \d+, not by a lab of this user"):
        LabClient(path).post("/em/apply", {"secret": 1})
    connection, _ = listener.accept()
    with connection:
        assert connection.recv(1) == b""


def test_mad_socket_of_another_user_is_told_nothing_unless_a_person_named_it(
    served_by_another: tuple[Path, socket.socket],
) -> None:
    path, _ = served_by_another
    with pytest.raises(MadSocketError, match=rf"^{path} is served by uid \d+, not by this user"):
        MadClient(path, own=True)
    MadClient(path).close()


@pytest.mark.parametrize("what", ["pipe", "pipe that is read", "link", "file open to others"])
def test_traceback_is_not_written_to_what_somebody_put_in_its_place(
    what: str, root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> None:
        raise RuntimeError("a secret")

    monkeypatch.setattr("opavnic.cli.labs.inspect.ps", broken)
    log = root.with_name("run-error.log")
    reader = None
    if what.startswith("pipe"):
        os.mkfifo(log)
        reader = os.open(log, os.O_RDONLY | os.O_NONBLOCK) if "read" in what else None
    elif what == "link":
        log.symlink_to(root / "target")
    else:
        log.touch()
        log.chmod(0o666)
    assert main(["ps"]) == 1
    assert capsys.readouterr().err == "opavnic: internal error, RuntimeError: a secret\n"
    assert not (root / "target").exists()
    assert reader is None or os.read(reader, 1) == b""
    if reader is not None:
        os.close(reader)
    assert log.is_symlink() or log.stat().st_size == 0
