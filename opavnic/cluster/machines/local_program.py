"""One program that runs here for another machine, with pipes or on a terminal of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pty
import signal
import subprocess
import sys
import termios
from collections.abc import Mapping
from typing import Final

from opavnic.cluster.errors import ClusterError
from opavnic.cluster.protocol.transport import NodeName
from opavnic.lab.run.programs_route import Frame

PIECE: Final = 256 << 10
"""Bytes of a reply; further output waits in the program's pipe, which blocks the program."""
WAIT_S: Final = 2.0
"""How long a request waits for output."""
_KILL_S: Final = 2.0
_MAX_SIDE: Final = 10_000


class LocalProgram:
    """A program that runs here for another machine."""

    def __init__(
        self,
        owner: NodeName,
        command: list[str],
        environment: Mapping[str, str],
        size: tuple[int, int] | None,
    ) -> None:
        """Start it. Raises OSError. Args: size: rows and columns of its terminal; None: no terminal."""
        self._loop = asyncio.get_running_loop()
        self.owner = owner
        self.asked_at = self._loop.time()
        """Time of the last request about it, on the loop's clock."""
        self.ended = asyncio.Event()
        self._news = asyncio.Event()
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._input = bytearray()
        self._is_writing = False
        self._eof = False
        self._ready: set[int] = set()
        if size is None:
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment, start_new_session=True
            )
            assert self._process.stdin and self._process.stdout and self._process.stderr  # noqa: S101, PT018 - pipes
            self._outputs = {
                os.dup(self._process.stdout.fileno()): Frame.OUT,
                os.dup(self._process.stderr.fileno()): Frame.ERR,
            }
            self._stdin = os.dup(self._process.stdin.fileno())
            for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
                stream.close()
        else:
            master, slave = pty.openpty()
            termios.tcsetwinsize(master, size)
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-c", _WITH_TERMINAL, *command],
                    stdin=slave, stdout=slave, stderr=slave, env=environment, start_new_session=True,
                )  # fmt: skip
            except OSError:
                os.close(master)
                raise
            finally:
                os.close(slave)
            self._outputs = {master: Frame.OUT}
            self._stdin = os.dup(master)
        self._has_terminal = size is not None
        for fd in (*self._outputs, self._stdin):
            os.set_blocking(fd, False)
        for fd in self._outputs:
            self._loop.add_reader(fd, self._readable, fd)
        # not in a worker thread: the loop has few of them, and a program may run for days
        self._pidfd = os.pidfd_open(self._process.pid)
        self._loop.add_reader(self._pidfd, self._has_ended)

    def _has_ended(self) -> None:
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._process.wait()
        self.ended.set()
        self._news.set()

    def _readable(self, fd: int) -> None:
        self._loop.remove_reader(fd)  # until the next request
        self._ready.add(fd)
        self._news.set()

    async def more(self) -> list[tuple[Frame, bytes]]:
        """Wait for output."""
        if not self._ready and not (self.ended.is_set() and not self._outputs):
            self._news.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), WAIT_S)
        self.asked_at = self._loop.time()
        found: list[tuple[Frame, bytes]] = []
        for fd in sorted(self._ready):
            self._ready.discard(fd)
            data = self._read(fd)
            if data:
                found.append((self._outputs[fd], data))
                self._loop.add_reader(fd, self._readable, fd)
            elif data is not None:
                del self._outputs[fd]
                os.close(fd)
            else:
                self._loop.add_reader(fd, self._readable, fd)
        if not found and self.ended.is_set():
            # output that its children still hold open is not waited for, as after a hang-up
            left = ((kind, self._read(fd)) for fd, kind in self._outputs.items())
            found = [(kind, data) for kind, data in left if data]
        if not found and self.ended.is_set():
            found.append((Frame.EXIT, str(_exit_code(self._process.returncode)).encode()))
            self.close()
        return found

    def _read(self, fd: int) -> bytes | None:
        """Return output, b"" at its end, None if there is none yet."""
        try:
            return os.read(fd, PIECE // 2)
        except BlockingIOError:
            return None
        except OSError:  # no program has the terminal open
            return b""

    def give(self, data: bytes, *, eof: bool, size: tuple[int, int] | None) -> None:
        """Give it input, which is kept until the program reads it. Raises ClusterError if too much is waiting."""
        if data and not self.has_room:
            raise ClusterError(f"{len(self._input)} bytes of input are waiting: the program is not reading")
        self.asked_at = self._loop.time()
        if size is not None and self._has_terminal and self._stdin >= 0:
            rows, columns = size
            termios.tcsetwinsize(self._stdin, (side(rows, 24), side(columns, 80)))
        self._input += data
        self._eof = self._eof or eof
        self._write()

    @property
    def has_room(self) -> bool:
        """Whether input is being read rather than kept."""
        return self._has_room.is_set()

    async def room(self) -> bool:
        """Wait for a while until there is room for input; return whether there is."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._has_room.wait(), WAIT_S)
        return self.has_room

    def _write(self) -> None:
        if self._stdin < 0:
            return
        if self._is_writing:
            self._loop.remove_writer(self._stdin)
            self._is_writing = False
        try:
            while self._input:
                del self._input[: os.write(self._stdin, self._input)]
        except BlockingIOError:
            self._is_writing = True
            self._loop.add_writer(self._stdin, self._write)
        except OSError:  # it no longer reads
            self._input.clear()
            self._eof = True
        if len(self._input) < PIECE:
            self._has_room.set()
        else:
            self._has_room.clear()
        if self._is_writing:
            return
        if self._eof and not self._has_terminal:
            os.close(self._stdin)
            self._stdin = -1

    def close(self) -> None:
        """Hang up; a program that does not end then is killed. May be called twice."""
        for fd in self._outputs:
            self._loop.remove_reader(fd)
            os.close(fd)
        self._outputs.clear()
        self._ready.clear()
        if self._stdin >= 0:
            if self._is_writing:
                self._loop.remove_writer(self._stdin)
            os.close(self._stdin)
            self._stdin = -1
        self._input.clear()
        self._has_room.set()
        if not self.ended.is_set():
            self._signal(signal.SIGHUP)
            self._loop.call_later(_KILL_S, self._signal, signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if not self.ended.is_set():  # its pid is not reused before that
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)  # it leads its own session


_WITH_TERMINAL: Final = """\
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Makes a terminal the controlling one of its session, then becomes the program."""


def side(value: object, default: int) -> int:
    """Return a number of rows or columns that a terminal can have; `default` if the value is not a number."""
    return max(1, min(value, _MAX_SIDE)) if type(value) is int else default


def _exit_code(returned: int) -> int:
    """Return the exit code as a shell reports it: 128 plus the signal for a program ended by a signal."""
    return 128 - returned if returned < 0 else returned
