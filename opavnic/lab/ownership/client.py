"""The client of a running lab: HTTP over its Unix socket, with only the standard library."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import select
import socket
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from opavnic.base.socket_peer import foreign_peer
from opavnic.lab.file.errors import ConfigError, JournalError, LabError, LabInputError
from opavnic.lab.ownership.runtime import Journal, LabDir

if TYPE_CHECKING:
    from opavnic.base.state import StateModel
    from vema.em.desired.problems import Problem

Model = TypeVar("Model", bound="StateModel")

QUERY_S: Final = 10.0
"""Time limit for a query of state. For requests that take work, the caller sets a longer one."""
LOOK_S: Final = 0.25
"""Interval, while waiting for an answer, of checks whether the lab's process is stopped."""
_UNPROCESSABLE: Final = 422


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout_s: float) -> None:
        super().__init__("lab", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))
        if (uid := foreign_peer(self.sock)) is not None:
            self.sock.close()
            raise LabError(
                f"{self._path} is served by uid {uid}, not by a lab of this user (uid {os.geteuid()})"
            )


class RefusedFileError(ConfigError):
    """The lab refused the content of a file; `found` lists every problem with its path in the file."""

    def __init__(self, found: Sequence[Problem]) -> None:
        super().__init__([str(problem) for problem in found])
        self.found = tuple(found)


class LabClient:
    """The control API of one lab; each call opens its own connection."""

    def __init__(self, socket_path: Path, timeout_s: float = QUERY_S) -> None:
        """Prepare.

        Args:  timeout_s: limit for the answer to a call. A call to a lab whose process is stopped fails earlier.
        """
        self._path = socket_path
        self._timeout_s = timeout_s

    def get(self, path: str) -> Any:
        """Return the JSON at `path`. Raises LabError: no answer, or an error in it; ConfigError: a refused file."""
        return self._json("GET", path, None)

    def post(self, path: str, body: object = None) -> Any:
        """Send JSON to `path` and return the JSON of the answer. Raises LabError as `get` does."""
        return self._json("POST", path, body)

    def read(self, model: type[Model], path: str) -> Model:
        """Return the state at `path`. Raises as `get`; LabError too: the lab is of another version."""
        return self._read(model, "GET", path, None)

    def change(self, model: type[Model], path: str, body: object = None) -> Model:
        """Send JSON to `path` and return the state after it. Raises as `read`."""
        return self._read(model, "POST", path, body)

    def stream(self, path: str) -> Iterator[str]:
        """Yield the lines at `path` as they arrive; the time limit applies to the first."""
        for line in self.open(path):
            yield line.decode(errors="replace").rstrip("\n")

    def open(self, path: str) -> http.client.HTTPResponse:
        """Return the content at `path` as a stream of bytes; the time limit applies to the first. Raises as `get`."""
        sock, response = self._ask("GET", path, None)
        if response.status >= http.HTTPStatus.BAD_REQUEST:
            raise self._refusal(response, json.loads(response.read()))
        sock.settimeout(None)
        return response

    def _json(self, method: str, path: str, body: object) -> Any:
        answer = self._answer(method, path, body)
        try:
            return json.loads(answer)
        except ValueError as error:
            raise LabError(f"incomplete answer from the lab to {method} {path}: {error}") from error

    def _read(self, model: type[Model], method: str, path: str, body: object) -> Model:
        try:
            return model.of_json(self._answer(method, path, body))
        except ValueError as error:
            lab = self._path.parent.name
            raise LabError(f"lab {lab} was started by another version of opavnic: {error}") from error

    def _answer(self, method: str, path: str, body: object) -> bytes:
        """Return the JSON of an answer that is no error."""
        _, response = self._ask(method, path, body)
        try:
            answer = response.read()
            if response.status < http.HTTPStatus.BAD_REQUEST:
                return answer
            data = json.loads(answer)
        except (ValueError, OSError, http.client.HTTPException) as error:
            raise LabError(f"incomplete answer from the lab to {method} {path}: {error}") from error
        raise self._refusal(response, data)

    def _refusal(self, response: http.client.HTTPResponse, data: Any) -> LabError | ConfigError:
        if response.status == _UNPROCESSABLE:
            from vema.em.desired.problems import Problem  # most commands get none

            return RefusedFileError(
                [Problem(tuple(item["path"]), item["message"]) for item in data["problems"]]
            )
        wrong = LabInputError if response.status == http.HTTPStatus.BAD_REQUEST else LabError
        return wrong(str(data.get("error", response.reason)))

    def _ask(self, method: str, path: str, body: object) -> tuple[socket.socket, http.client.HTTPResponse]:
        connection = _UnixConnection(self._path, self._timeout_s)
        try:
            headers = {"Connection": "close"}  # the socket closes itself once the answer has been read
            if body is None:
                connection.request(method, path, headers=headers)
            else:
                headers["Content-Type"] = "application/json"
                connection.request(method, path, json.dumps(body), headers)
            sock: socket.socket = connection.sock
            self._await_answer(sock)
            return sock, connection.getresponse()
        except (TimeoutError, BlockingIOError) as error:  # the latter: the backlog of its socket is full
            connection.close()
            raise LabError(self._silence()) from error
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise LabError(f"the lab does not answer at {self._path}: {error}") from error

    def _await_answer(self, sock: socket.socket) -> None:
        """Wait until the answer begins. Raises TimeoutError if it takes too long or the lab's process is stopped."""
        poll = select.poll()
        poll.register(sock, select.POLLIN)
        end = time.monotonic() + self._timeout_s
        while not poll.poll(1000 * min(LOOK_S, max(end - time.monotonic(), 0.0))):
            journal = self._journal()
            if time.monotonic() >= end or (journal is not None and journal.stopped):
                raise TimeoutError

    def _journal(self) -> Journal | None:
        with contextlib.suppress(JournalError):
            return LabDir(self._path.parent).load()
        return None

    def _silence(self) -> str:
        """Return a message that says which lab does not answer, and what the user can do."""
        journal = self._journal()
        if journal is None:
            return f"the lab at {self._path} did not answer within {self._timeout_s:g} s"
        return f"lab {journal.lab} (pid {journal.pid}) does not answer; {journal.way_out()}"
