"""A lab that does not answer: the one who asks is told which, and what can be done."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from opavnic.lab.file.errors import LabError
from opavnic.lab.ownership.client import LabClient
from opavnic.lab.ownership.process import process_start_time
from opavnic.lab.ownership.runtime import Journal, LabDir


@pytest.fixture
def silent(tmp_path: Path) -> Iterator[LabDir]:
    """A lab whose process lives and takes connections, and says nothing."""
    lab = LabDir(tmp_path / "run" / "quiet")
    lab.acquire()
    lab.save(Journal("quiet", os.getpid(), process_start_time(os.getpid()) or 0))
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(lab.control_socket))
        listener.listen(1)
        yield lab
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
