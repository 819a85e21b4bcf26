"""A package from outside is installed, and its part runs in a lab of the program `opavnic`."""

from __future__ import annotations

import http.client
import json
import os
import socket
from pathlib import Path

import outside_part

from program import ok, run_program


class UnixConnection(http.client.HTTPConnection):
    """HTTP over the control socket of a lab."""

    def __init__(self, path: Path) -> None:
        super().__init__("lab")
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(str(self._path))


def test_part_from_outside_runs_in_a_lab(tmp_path: Path) -> None:
    outside_part.install(tmp_path / "site")
    file = tmp_path / "lab.yaml"
    file.write_text(outside_part.LAB)
    environment = {
        **os.environ,
        "OPAVNIC_RUNTIME_DIR": str(tmp_path / "run"),
        "PYTHONPATH": str(tmp_path / "site"),
    }

    def opavnic(*arguments: str) -> str:
        return ok(run_program(arguments, environment))

    opavnic("up", str(file), "-d")
    try:
        status = json.loads(opavnic("status", "--json"))
        assert status["parts"]["weather"]["cover"] == 3
        assert "cover" in opavnic("status")
        connection = UnixConnection(tmp_path / "run" / "wet" / "control.sock")
        connection.request("GET", "/weather")
        answer = json.loads(connection.getresponse().read())
        connection.close()
        assert answer["roofs"] == {"h1": 7}
        assert set(answer["lids"]) == {"h1", "h2"}
        log = opavnic("logs")
        assert "weather.report: clouds over h1, h2" in log
        assert "barometer: it falls" in log
    finally:
        opavnic("down")
    assert not (tmp_path / "run" / "wet").exists()
