"""A package from outside is installed, and its part runs in a lab of the program `opavnic`."""

from __future__ import annotations

import http.client
import json
import socket
from pathlib import Path

import outside_part

from e2e.conftest import Program


class UnixConnection(http.client.HTTPConnection):
    """HTTP over the control socket of a lab."""

    def __init__(self, path: Path) -> None:
        super().__init__("lab")
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(str(self._path))


def test_part_from_outside_runs_in_a_lab(opavnic: Program) -> None:
    outside_part.install(opavnic.directory / "site")
    opavnic.environment["PYTHONPATH"] = str(opavnic.directory / "site")
    opavnic.up(outside_part.LAB)
    assert opavnic.data("status")["parts"]["weather"]["cover"] == 3
    assert "cover" in opavnic.ok("status")
    connection = UnixConnection(opavnic.root / "wet" / "control.sock")
    connection.request("GET", "/weather")
    answer = json.loads(connection.getresponse().read())
    connection.close()
    assert answer["roofs"] == {"h1": 7}
    assert set(answer["lids"]) == {"h1", "h2"}
    log = opavnic.ok("logs")
    assert "weather.report: clouds over h1, h2" in log
    assert "barometer: it falls" in log
    opavnic.ok("down")
    assert not (opavnic.root / "wet").exists()
