"""A program that the agent of a kernel runs, as the other end sees it: its streams and its end. Sans-IO."""

from __future__ import annotations

import os
import subprocess
from collections import deque
from collections.abc import Sequence
from typing import Final

from opavnic.kernel.cache import KernelError
from opavnic.kernel.messages import PIECE, WINDOW, AgentMessage, AgentVerb, number_message, start_message

SESSION: Final = 1
_NOT_STARTED: Final = 127


class AgentProgram:
    """A session of an agent, from its start."""

    def __init__(self, command: Sequence[str], session: int = SESSION) -> None:
        """Begin with what starts it. Raises ValueError: a word that cannot be passed on."""
        self._command = list(command)
        self._session = session
        self._input: deque[bytes] = deque()
        self._room = WINDOW
        self.unsent = start_message(session, command, environment=os.environ).build()
        """What the agent is to be told; who tells it takes that away."""
        self.output = bytearray()
        """What the program has written to its standard output, and that has not been taken away."""
        self.errors = bytearray()
        self.status: int | None = None
        """Its exit status, 127 where it was not started; None: it runs."""
        self._errno = 0

    def write(self, data: bytes) -> None:
        """Give the program input."""
        self._input.extend(data[at : at + PIECE] for at in range(0, len(data), PIECE))
        self._send_input()

    def end_input(self) -> None:
        """Let the program read the end of its input."""
        self._input.append(b"")
        self._send_input()

    def _send_input(self) -> None:
        while self._input and len(self._input[0]) <= self._room:
            self._room -= len(self._input[0])
            self.unsent += AgentMessage(self._session, AgentVerb.INPUT, self._input.popleft()).build()

    def take(self, message: AgentMessage) -> None:
        """Take a message of the agent."""
        if message.kind in (AgentVerb.OUTPUT, AgentVerb.ERRORS):
            stream = self.output if message.kind == AgentVerb.OUTPUT else self.errors
            stream += message.body
            self.unsent += number_message(self._session, AgentVerb.TAKEN, len(message.body)).build()
        elif message.kind == AgentVerb.READ:
            self._room += message.number
            self._send_input()
        elif message.kind == AgentVerb.FAILED:
            self._errno, self.status = message.number, _NOT_STARTED
        elif message.kind == AgentVerb.EXITED:
            self.status = message.number

    def completed(self) -> subprocess.CompletedProcess[bytes]:
        """Return what it was, once it has ended. Raises KernelError: it was not started."""
        if self._errno:
            raise KernelError(f"{self._command[0]}: not started: {os.strerror(self._errno)}")
        assert self.status is not None  # noqa: S101 - the caller has waited
        return subprocess.CompletedProcess(self._command, self.status, bytes(self.output), bytes(self.errors))
