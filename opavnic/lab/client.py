"""Talk to a running lab: HTTP over its Unix socket, with nothing but the standard library."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from opavnic.lab.errors import LabError, LabInputError


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout_s: float | None) -> None:
        super().__init__("lab", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


class LabClient:
    """The control API of one lab; each call is a connection of its own."""

    def __init__(self, socket_path: Path, timeout_s: float = 30.0) -> None:
        self._path = socket_path
        self._timeout_s = timeout_s

    def get(self, path: str) -> Any:
        """Return the JSON at `path`. Raises LabError: no answer, or an error in it."""
        return self._json("GET", path, None)

    def post(self, path: str, body: object = None) -> Any:
        """Send JSON to `path` and return the JSON of the answer. Raises LabError as `get` does."""
        return self._json("POST", path, body)

    def stream(self, path: str) -> Iterator[str]:
        """Yield the lines at `path` as they come, without a time limit."""
        response = self._ask("GET", path, None, None)
        for line in response:
            yield line.decode(errors="replace").rstrip("\n")

    def _json(self, method: str, path: str, body: object) -> Any:
        response = self._ask(method, path, body, self._timeout_s)
        try:
            data = json.loads(response.read())
        except (ValueError, OSError, http.client.HTTPException) as error:
            raise LabError(f"the lab gave no whole answer to {method} {path}: {error}") from error
        if response.status >= 400:
            wrong = LabInputError if response.status == http.HTTPStatus.BAD_REQUEST else LabError
            raise wrong(str(data.get("error", response.reason)))
        return data

    def _ask(self, method: str, path: str, body: object, timeout_s: float | None) -> http.client.HTTPResponse:
        connection = _UnixConnection(self._path, timeout_s)
        try:
            headers = {"Connection": "close"}  # the socket closes itself once the answer has been read
            if body is None:
                connection.request(method, path, headers=headers)
            else:
                headers["Content-Type"] = "application/json"
                connection.request(method, path, json.dumps(body), headers)
            return connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise LabError(f"the lab does not answer at {self._path}: {error}") from error
