"""The client of a running lab: HTTP over its Unix socket, with only the standard library.

A lab that works may take as long as it likes: what it waits for is limited by silence, the time in which the process of
the lab sleeps and does not answer. So a busy machine or a large lab is no failure, and a lab that hangs is one.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import math
import os
import select
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from opavnic.base.socket_peer import foreign_peer, peer_pid
from opavnic.lab.file.errors import ConfigError, JournalError, LabError, LabInputError
from opavnic.lab.ownership.process import WatchedProcess
from opavnic.lab.ownership.runtime import Journal, LabDir

if TYPE_CHECKING:
    from opavnic.base.state import StateModel
    from opavnic.state.job import JobState
    from vema.em.desired.problems import Problem

Model = TypeVar("Model", bound="StateModel")

SILENCE_S: Final = 10.0
"""How long, in all, the process of a lab may sleep before it answers."""
LOOK_S: Final = 0.25
"""Interval of looks at the process of a lab while waiting for its answer."""
_UNPROCESSABLE: Final = 422
THE_LAB: Final = "the lab"
"""What serves at the control socket of a lab, for messages."""


class _Patience:
    """Waits for the process of a lab for as long as it works."""

    def __init__(self, path: Path, silence_s: float, limit_s: float, whose: str) -> None:
        self._path = path
        self._lab = path.parent
        self._whose = whose
        self._silence_s = silence_s
        self._end = time.monotonic() + limit_s
        self._look_s = min(LOOK_S, silence_s, limit_s)
        self._process: WatchedProcess | None = None

    def await_data(self, sock: socket.socket) -> None:
        """Wait until there is something to read. Raises LabError: the process is silent, or stopped."""
        poll = select.poll()
        poll.register(sock, select.POLLIN)
        self.wait_until(lambda: bool(poll.poll(1000 * self._look_s)))

    def served_by(self, sock: socket.socket) -> None:
        """Watch the process at the other end, where that is no lab, which has a journal that names it."""
        if self._whose != THE_LAB and (pid := peer_pid(sock)):
            self._process = WatchedProcess(pid)

    def connect(self, sock: socket.socket, path: Path) -> None:
        """Connect. Raises LabError as `await_data`, OSError: it listens no more."""

        def connected() -> bool:
            try:
                sock.connect(str(path))
            except BlockingIOError:  # many wait already: its backlog is full
                time.sleep(self._look_s)
                return False
            return True

        sock.setblocking(False)
        self.wait_until(connected)
        sock.setblocking(True)

    def wait_until(self, happened: Callable[[], bool]) -> None:
        """Call `happened`, which waits a moment, until it is true. Raises LabError as `await_data`."""
        now, silent_s = time.monotonic(), 0.0
        while not happened():
            before, now = now, time.monotonic()
            if self._process is None and (journal := self._journal()) is not None:
                self._process = WatchedProcess(journal.pid)
            process = self._process
            if process is None or not process.worked():
                silent_s += min(
                    now - before, 2 * self._look_s
                )  # a look that comes late has missed the time between
            if (process is not None and process.is_stopped) or silent_s >= self._silence_s:
                raise LabError(self._silence())
            if now >= self._end:
                lab = f"lab {self._lab.name}" if self._whose == THE_LAB else self._whose
                raise LabError(f"{lab} is busy: it has not answered yet")

    def _journal(self) -> Journal | None:
        with contextlib.suppress(JournalError):
            return LabDir(self._lab).load()
        return None

    def _silence(self) -> str:
        """Return a message that says which lab does not answer, and what the user can do."""
        journal = self._journal()
        if journal is None:
            return f"{self._whose} at {self._path} does not answer"
        return f"lab {journal.lab} (pid {journal.pid}) does not answer; {journal.way_out()}"


class _PatientSocket(socket.socket):
    """A socket on which reading waits for as long as the other end works."""

    patience: _Patience | None = None

    def recv_into(self, *arguments: Any) -> int:
        if self.patience is not None:
            self.patience.await_data(self)
        return super().recv_into(*arguments)


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path, patience: _Patience) -> None:
        super().__init__("lab")
        self._path = path
        self._patience = patience

    def connect(self) -> None:
        self.sock = _PatientSocket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.patience = self._patience
        self._patience.connect(self.sock, self._path)
        self._patience.served_by(self.sock)
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

    def __init__(
        self,
        socket_path: Path,
        silence_s: float = SILENCE_S,
        limit_s: float = math.inf,
        *,
        whose: str = THE_LAB,
    ) -> None:
        """Prepare.

        Args:  silence_s: how long the process of the lab may sleep before it answers a call. limit_s: how long a call
               may take in any case, for callers that are themselves waited for. A call to a lab whose process is
               stopped fails earlier. whose: what serves there, for messages: a lab, or an Ethernet Manager that runs
               as a program.
        """
        self._path = socket_path
        self._silence_s = silence_s
        self._limit_s = limit_s
        self._whose = whose

    def get(self, path: str) -> Any:
        """Return the JSON at `path`. Raises LabError: no answer, or an error in it; ConfigError: a refused file."""
        return self._json("GET", path, None)

    def post(self, path: str, body: object = None) -> Any:
        """Send JSON to `path` and return the JSON of the answer. Raises LabError as `get` does."""
        return self._json("POST", path, body)

    def send(self, path: str, pieces: Iterator[bytes]) -> None:
        """Send bytes to `path` as they come, by one connection, until their end. Raises as `get`."""
        self._answer("POST", path, pieces)

    def read(self, model: type[Model], path: str) -> Model:
        """Return the state at `path`. Raises as `get`; LabError too: the lab is of another version."""
        return self._read(model, "GET", path, None)

    def change(self, model: type[Model], path: str, body: object = None) -> Model:
        """Send JSON to `path` and return the state after it. Raises as `read`."""
        return self._read(model, "POST", path, body)

    def start_job(self, method: str, path: str, body: object = None) -> JobState:
        """Start what takes long as a job of the lab, and return it. Raises as `read`."""
        from opavnic.state.job import JobState  # most commands start none

        return self._read(JobState, method, f"{path}{'&' if '?' in path else '?'}job=1", body)

    def follow_job(self, job: JobState) -> Iterator[JobState]:
        """Yield how far a job is, at each news and at least once a second, until it has ended. Raises as `read`."""
        yield job
        state = type(job)
        while not job.has_ended:
            job = self.read(state, f"/jobs/{job.number}?after={job.version}")
            yield job

    def cancel_job(self, job: JobState) -> JobState:
        """Cancel a job, if it has changed nothing yet; return how far it is. Raises as `read`."""
        return self.change(type(job), f"/jobs/{job.number}/cancel")

    def job_answer(self, model: type[Model], job: JobState) -> Model:
        """Return what a job that has ended gives. Raises as `read`: what the job was refused with."""
        return self.read(model, f"/jobs/{job.number}/answer")

    def stream(self, path: str) -> Iterator[str]:
        """Yield the lines at `path` as they arrive; the limits apply to the first."""
        for line in self.open(path):
            yield line.decode(errors="replace").rstrip("\n")

    def open(self, path: str, body: object = None) -> http.client.HTTPResponse:
        """Return the content at `path` as a stream of bytes; the limits apply to the first. Raises as `get`.

        Args:    body: sent there, with POST.
        """
        sock, response = self._ask("GET" if body is None else "POST", path, body)
        if response.status >= http.HTTPStatus.BAD_REQUEST:
            raise self._refusal(response, json.loads(response.read()))
        sock.patience = None
        return response

    def _json(self, method: str, path: str, body: object) -> Any:
        answer = self._answer(method, path, body)
        try:
            return json.loads(answer)
        except ValueError as error:
            raise LabError(f"incomplete answer from {self._whose} to {method} {path}: {error}") from error

    def _read(self, model: type[Model], method: str, path: str, body: object) -> Model:
        try:
            return model.of_json(self._answer(method, path, body))
        except ValueError as error:
            lab = f"lab {self._path.parent.name}" if self._whose == THE_LAB else self._whose
            raise LabError(f"{lab} was started by another version of opavnic: {error}") from error

    def _answer(self, method: str, path: str, body: object) -> bytes:
        """Return the JSON of an answer that is no error."""
        _, response = self._ask(method, path, body)
        try:
            answer = response.read()
            if response.status < http.HTTPStatus.BAD_REQUEST:
                return answer
            data = json.loads(answer)
        except (ValueError, OSError, http.client.HTTPException) as error:
            raise LabError(f"incomplete answer from {self._whose} to {method} {path}: {error}") from error
        raise self._refusal(response, data)

    def _refusal(self, response: http.client.HTTPResponse, data: Any) -> LabError | ConfigError:
        if response.status == _UNPROCESSABLE:
            from vema.em.desired.problems import Problem  # most commands get none

            return RefusedFileError(
                [Problem(tuple(item["path"]), item["message"]) for item in data["problems"]]
            )
        wrong = LabInputError if response.status == http.HTTPStatus.BAD_REQUEST else LabError
        return wrong(str(data.get("error", response.reason)))

    def _ask(self, method: str, path: str, body: object) -> tuple[_PatientSocket, http.client.HTTPResponse]:
        connection = _UnixConnection(
            self._path, _Patience(self._path, self._silence_s, self._limit_s, self._whose)
        )
        try:
            headers = {"Connection": "close"}  # the socket closes itself once the answer has been read
            content: Any = body
            if body is not None and not isinstance(body, Iterator):
                headers["Content-Type"] = "application/json"
                content = json.dumps(body)
            # one who refuses may not read to the end: its answer waits
            with contextlib.suppress(BrokenPipeError):
                connection.request(method, path, content, headers)
            sock = connection.sock
            assert isinstance(sock, _PatientSocket)  # noqa: S101 - it has made one
            return sock, connection.getresponse()
        except LabError:
            connection.close()
            raise
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise LabError(f"{self._whose} does not answer at {self._path}: {error}") from error
