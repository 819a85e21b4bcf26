"""A lab that does not answer: the one who asks is told which, and what can be done."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from opavnic.lab.file.errors import LabError
from opavnic.lab.ownership.client import LabClient
from opavnic.lab.ownership.process import WatchedProcess, process_start_time
from opavnic.lab.ownership.runtime import Journal, LabDir

_listeners: dict[Path, socket.socket] = {}
"""Where labs take connections."""


@pytest.fixture
def silent(tmp_path: Path) -> Iterator[LabDir]:
    """A lab whose process lives and takes connections, and says nothing."""
    lab = LabDir(tmp_path / "run" / "quiet")
    lab.acquire()
    lab.save(Journal("quiet", os.getpid(), process_start_time(os.getpid()) or 0))
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(lab.control_socket))
        listener.listen(1)
        _listeners[lab.path] = listener
        yield lab
        del _listeners[lab.path]
    lab.release()


@pytest.mark.parametrize(
    "ask", [LabClient.get, LabClient.post, lambda client, path: list(client.stream(path))]
)
def test_lab_that_says_nothing_is_named_with_its_pid(silent: LabDir, ask: object) -> None:
    with pytest.raises(
        LabError, match=rf"lab quiet \(pid {os.getpid()}\) does not answer; see: opavnic logs"
    ):
        ask(LabClient(silent.control_socket, 0.05), "/status")  # type: ignore[operator]


def test_lab_with_too_many_who_wait_is_named_as_well(silent: LabDir) -> None:
    waiting = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(8)]
    try:
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(str(silent.control_socket))
        with pytest.raises(LabError, match=r"lab quiet .* does not answer"):
            LabClient(silent.control_socket, 0.05).get("/status")
    finally:
        for one in waiting:
            one.close()


def test_lab_that_is_not_there_is_told_with_its_socket(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"does not answer at .*control\.sock: .*No such file"):
        LabClient(tmp_path / "control.sock").get("/status")


def test_refusal_is_read_from_a_lab_that_has_not_read_the_whole_request(silent: LabDir) -> None:
    def refuse() -> None:
        with _listeners[silent.path].accept()[0] as asker:
            body = b'{"error": "not from m2"}'
            asker.sendall(
                b"HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b"
                % (len(body), body)
            )

    refusing = threading.Thread(target=refuse)
    refusing.start()
    try:
        with pytest.raises(LabError, match=r"^not from m2$"):
            LabClient(silent.control_socket).post("/fault", {"much": "x" * 5_000_000})
    finally:
        refusing.join()


@pytest.fixture
def slow(silent: LabDir, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """What looks at the process of the lab see, one after the other; the lab answers at the last one."""
    looks: list[bool] = []

    def worked(_: WatchedProcess) -> bool:
        if len(looks) == 1:
            with _listeners[silent.path].accept()[0] as asker:
                asker.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}")
        return looks.pop(0)

    monkeypatch.setattr(WatchedProcess, "worked", worked)
    monkeypatch.setattr("opavnic.lab.ownership.client.LOOK_S", 1e-3)
    return looks


def test_lab_that_works_may_take_as_long_as_it_likes(silent: LabDir, slow: list[bool]) -> None:
    slow += [True] * 300 + [False]
    assert LabClient(silent.control_socket, silence_s=0.05).get("/status") == {}


def test_caller_that_is_waited_for_itself_has_a_limit_and_no_harmful_advice(
    silent: LabDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WatchedProcess, "worked", lambda _: True)
    with pytest.raises(LabError) as refused:
        LabClient(silent.control_socket, limit_s=0.01).get("/status")
    assert str(refused.value) == "lab quiet is busy: it has not answered yet"


@pytest.mark.parametrize(
    ("state", "ticks", "works"),
    [("S", 0, False), ("S", 1, False), ("S", 20, True), ("R", 0, True), ("D", 0, True), ("T", 0, False)],
)
def test_process_works_if_it_runs_waits_for_a_processor_or_has_used_one(
    state: str, ticks: int, works: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = iter((100, 100 + ticks))
    monkeypatch.setattr(
        "opavnic.lab.ownership.process._fields",
        lambda pid, of: [state, *["0"] * 10, str(next(used)), "0"],
    )
    process = WatchedProcess(1)
    process.worked()
    assert (process.worked(), process.is_stopped) == (works, state == "T")
