"""Runs a program in the kernel of a lab's host from another process: `python -m opavnic.kernel.client`.

The process of the lab passes messages on (`opavnic.kernel.programs`). A client says the name of the host and a newline,
then it speaks as to the agent, with session 0.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import socket
import struct
import sys
import termios
import tty
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from opavnic.base.errors import OpavnicError
from opavnic.kernel.messages import (
    PIECE,
    WINDOW,
    AgentMessage,
    AgentVerb,
    Messages,
    number_message,
    size_message,
    start_message,
)

NOT_FOUND: Final = 127
NOT_RUNNABLE: Final = 126
_ENOENT: Final = 2
_PASSED_ON: Final = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
_READ: Final = 1 << 16


class KernelProgramError(OpavnicError):
    """A program was not started in a kernel, or the kernel has ended under it; `status` is the exit status."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


def run_there(path: Path, host: str, command: Sequence[str], *, ignore_sigint: bool = False) -> int:
    """Run a program in the kernel of a host with the streams of this process; return its exit status.

    Args:    path: the socket of the lab. ignore_sigint: do not pass SIGINT on.
    Raises:  KernelProgramError: it cannot be reached or started, or the kernel has ended.
    """
    environment = {**os.environ, "OPAVNIC_HOST": host}
    has_terminal = os.isatty(0) and os.isatty(1)
    with contextlib.ExitStack() as ends, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as lab:
        try:
            lab.connect(str(path))
            lab.sendall(host.encode() + b"\n")
            start = start_message(
                0,
                command,
                directory=_directory(),
                environment=environment,
                terminal=_size() if has_terminal else None,
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise KernelProgramError(
                f"{command[0]}: cannot be run on host {host}: {reason}", NOT_RUNNABLE
            ) from error
        woken = ends.enter_context(_signals(ignore_sigint, has_terminal))
        if has_terminal:
            ends.enter_context(_raw())
        with contextlib.suppress(OSError):  # a host without a kernel: the end is read soon
            lab.sendall(start.build(), socket.MSG_NOSIGNAL)
        return _Relay(lab, host, command[0], woken).run()


def _directory() -> str:
    try:
        return os.getcwd()
    except OSError:
        return "/"


def _size() -> tuple[int, int]:
    rows, columns, _, _ = struct.unpack("4H", fcntl.ioctl(1, termios.TIOCGWINSZ, bytes(8)))
    return rows, columns


@contextlib.contextmanager
def _raw() -> Iterator[None]:
    before = termios.tcgetattr(0)
    tty.setraw(0)
    try:
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)


@contextlib.contextmanager
def _signals(ignore_sigint: bool, has_terminal: bool) -> Iterator[int]:
    """Yield a descriptor where the numbers of signals come that are to be passed on, or that say a new size."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it
    here, there = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    wanted = {*_PASSED_ON, *([signal.SIGWINCH] if has_terminal else [])} - (
        {signal.SIGINT} if ignore_sigint else set()
    )
    for number in wanted:
        signal.signal(number, lambda *_: None)
    before = signal.set_wakeup_fd(there, warn_on_full_buffer=False)
    try:
        yield here
    finally:
        signal.set_wakeup_fd(before)
        for number in wanted:
            signal.signal(number, signal.SIG_DFL)
        os.close(here)
        os.close(there)


class _Relay:
    """The streams of this process on one side, a program on the other."""

    def __init__(self, lab: socket.socket, host: str, program: str, woken: int) -> None:
        self._lab = lab
        self._host = host
        self._program = program
        self._woken = woken
        self._messages = Messages()
        self._room = WINDOW
        self._reads = True

    def run(self) -> int:
        while True:
            watched = [self._lab.fileno(), self._woken, *([0] if self._reads and self._room else [])]
            readable, _, _ = select.select(watched, [], [])
            if self._woken in readable:
                for number in os.read(self._woken, _READ):
                    self._tell(self._of_signal(number))
            if 0 in readable:
                self._read_input()
            if self._lab.fileno() in readable:
                status = self._hear()
                if status is not None:
                    return status

    def _of_signal(self, number: int) -> AgentMessage:
        if number == signal.SIGWINCH:
            return size_message(0, *_size())
        return AgentMessage(0, AgentVerb.SIGNAL, bytes([number]))

    def _read_input(self) -> None:
        try:
            data = os.read(0, min(self._room, PIECE))
        except OSError:
            data = b""
        self._reads = bool(data)
        self._room -= len(data)
        self._tell(AgentMessage(0, AgentVerb.INPUT, data))

    def _hear(self) -> int | None:
        try:
            data = self._lab.recv(_READ)
        except OSError:
            data = b""
        if not data:
            raise KernelProgramError(
                f"{self._program}: the kernel of host {self._host} has ended", NOT_RUNNABLE
            )
        for message in self._messages.take(data):
            if message.kind in (AgentVerb.OUTPUT, AgentVerb.ERRORS):
                _write(1 if message.kind == AgentVerb.OUTPUT else 2, message.body)
                self._tell(number_message(0, AgentVerb.TAKEN, len(message.body)))
            elif message.kind == AgentVerb.READ:
                self._room += message.number
            elif message.kind == AgentVerb.EXITED:
                return message.number
            elif message.kind == AgentVerb.FAILED:
                raise self._failed(message.number)
        return None

    def _failed(self, number: int) -> KernelProgramError:
        if number == _ENOENT:
            return KernelProgramError(f"{self._program}: no such program on host {self._host}", NOT_FOUND)
        return KernelProgramError(f"{self._program}: cannot be run: {os.strerror(number)}", NOT_RUNNABLE)

    def _tell(self, message: AgentMessage) -> None:
        with contextlib.suppress(OSError):  # the end is read soon
            self._lab.sendall(message.build(), socket.MSG_NOSIGNAL)


def _write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def client_words(path: Path, host: str) -> list[str]:
    """Return the program that runs its arguments in the kernel of a host. Args:  path: the socket of the lab."""
    return [sys.executable, "-P", "-m", __name__, str(path), host]


def main() -> int:
    """Run the program that the command line names: SOCKET HOST PROGRAM [ARGUMENT ...]."""
    path, host, *command = sys.argv[1:]
    try:
        return run_there(Path(path), host, command)
    except KernelProgramError as error:
        sys.stderr.write(f"opavnic: {error}\n")
        return error.status


if __name__ == "__main__":
    sys.exit(main())
