"""A kernel on virtual time: it runs when its port's clock says so, and that is a moment that no time passes in.

While it runs, nothing else of this process does; it comes back once nothing is to be done before a later time. What it
gets, it gets one by one, when it has come back: so the same is sent at the same times in each run.

User-mode Linux takes its random numbers from getrandom, and mixes its command line into them. So seeded.c stands in
getrandom's place, and the command line is the same each time.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import select
import socket
import subprocess
import termios
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Final

from hfi_sim.base.clock import Clock, TimerHandle
from opavnic.kernel.agent_program import AgentProgram
from opavnic.kernel.cache import BuiltKernel, KernelError
from opavnic.kernel.drivers import OPA_VNIC, LinuxDriver
from opavnic.kernel.messages import Messages
from opavnic.kernel.process import READY, KernelProcess
from opavnic.kernel.time_travel import FOREVER_NS, MESSAGE_SIZE, Calendar, TimeMessage, TimeOp
from opavnic.kernel.wire import MAX_FRAME

PATIENCE_S: Final = 60.0
"""How long a kernel may run, in real seconds, before it comes back."""
_NS: Final = 1_000_000_000
_TIME: Final = "time"
"""The socket for its time, in the directory of the process."""
_PIECE: Final = 8192


class VirtualProcess(KernelProcess):
    """The process of a kernel whose time this process decides."""

    def __init__(self, kernel: BuiltKernel, host: str, *, seed: int, driver: LinuxDriver = OPA_VNIC) -> None:
        """Start it, and wait until it asks for the time first.

        Raises:  KernelError: it cannot be started, or does not ask.
        """
        self._seed, self._seeded = seed, kernel.seeded
        super().__init__(kernel, host, driver=driver)
        self._listener.settimeout(PATIENCE_S)
        try:
            self.time, _ = self._listener.accept()
        except OSError:
            self.close()
            raise KernelError(f"the kernel has not asked for the time: {self._last_line()}") from None
        finally:
            self._listener.close()

    def _own_time(self) -> tuple[list[str], Mapping[str, str]]:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(Path(self._directory) / _TIME))
        self._listener.listen(1)
        return [f"time-travel=ext:1:{_TIME}"], {
            "PATH": os.environ.get("PATH", os.defpath),
            "LD_PRELOAD": str(self._seeded),
            "OPAVNIC_SEED": str(self._seed),
        }

    def close(self) -> None:
        """End it."""
        super().close()
        with contextlib.suppress(AttributeError):
            self.time.close()

    def await_message(self) -> TimeMessage:
        """Return what it says next of time. Raises KernelError: it has ended, or says nothing for long."""
        end = time.monotonic() + PATIENCE_S
        while True:
            watched: list[IO[bytes] | socket.socket] = (
                [self.time] if self._ended else [self.time, self.console]
            )
            readable, _, _ = select.select(watched, [], [], max(0.0, end - time.monotonic()))
            if self.console in readable:
                self.read_console()
            if self.time in readable:
                data = self.time.recv(MESSAGE_SIZE, socket.MSG_WAITALL)
                if len(data) == MESSAGE_SIZE:
                    return TimeMessage.parse(data)
                raise KernelError(f"the kernel has ended: {self._last_line()}")
            if not readable:
                raise KernelError(f"the kernel runs for more than {PATIENCE_S:g} s: {self._last_line()}")

    @property
    def is_ready(self) -> bool:
        """Whether its driver is loaded."""
        return READY in self._console

    def give(self, end: socket.socket, data: bytes) -> None:
        """Put a frame on its wire, or some bytes for its agent. Raises KernelError: it has ended."""
        try:
            end.sendall(data)
        except OSError:
            self.read_console()
            raise KernelError(f"the kernel has ended: {self._last_line()}") from None

    def frames(self) -> Iterator[bytes]:
        """Yield the frames that it has sent."""
        with contextlib.suppress(BlockingIOError):
            while frame := self.wire.recv(MAX_FRAME):
                yield frame

    def said(self) -> bytes:
        """Return what its agent has said since."""
        said = b""
        with contextlib.suppress(BlockingIOError):
            while piece := self.agent.recv(MAX_FRAME):
                said += piece
        return said

    @property
    def has_unread(self) -> bool:
        """Whether it has not read all that was sent to it."""
        return any(any(fcntl.ioctl(end, termios.TIOCOUTQ, bytes(4))) for end in (self.wire, self.agent))


class VirtualKernel:
    """A kernel with a clock."""

    def __init__(
        self,
        kernel: BuiltKernel,
        host: str,
        clock: Clock,
        *,
        seed: int,
        take: Callable[[bytes], object],
        driver: LinuxDriver = OPA_VNIC,
    ) -> None:
        """Start it; it boots as time passes. Args:  take: takes its frames.

        Raises:  KernelError: it cannot be started.
        """
        self._process = VirtualProcess(kernel, host, seed=seed, driver=driver)
        self._clock = clock
        self._origin_s = clock.time()
        self._take = take
        self._calendar = Calendar(lambda: round((clock.time() - self._origin_s) * _NS))
        self._arriving: deque[tuple[socket.socket, bytes]] = deque()
        self._messages = Messages()
        self._program: AgentProgram | None = None
        self._timer: TimerHandle | None = None
        self._turn_is_due = False
        self._closed = False
        self._end: KernelError | None = None
        self.is_ready = False
        """Whether its driver is loaded."""
        self._news = asyncio.Event()
        self._until_waiting()
        self._plan()

    # --- what it gets --------------------------------------------------------------------------------------

    def send(self, frame: bytes) -> bool:
        """Give it a frame, now."""
        self._give(self._process.wire, frame)
        return True

    def _give(self, end: socket.socket, data: bytes) -> None:
        self._arriving.append((end, data))
        self._soon()

    def _soon(self) -> None:
        if self._arriving and self.is_ready and not self._turn_is_due and not self._closed:
            self._turn_is_due = True
            self._clock.call_soon(self._turn)

    def _turn(self) -> None:
        """Give it what has come, one by one."""
        self._turn_is_due = False
        with self._noting_its_end():
            while self._arriving and not self._closed and self._takes_another():
                self._process.give(*self._arriving.popleft())
                self._until(TimeOp.REQUEST)
                self._run()
            self._plan()

    def _takes_another(self) -> bool:
        """Let it do what is to be done now; return whether it has read what it got before.

        An interrupt that comes while the last one waits for its turn is not announced. It may wait for the end of a
        delay of some nanoseconds, and is looked after when that has passed.
        """
        requested = self._calendar.requested_ns
        while requested is None or requested <= self._calendar.now_ns():
            self._run()
            requested = self._calendar.requested_ns
        return not self._process.has_unread

    def _tell(self, program: AgentProgram) -> None:
        """Tell the agent what a program has for it."""
        for at in range(0, len(program.unsent), _PIECE):
            self._give(self._process.agent, program.unsent[at : at + _PIECE])
        program.unsent = b""

    # --- its time ------------------------------------------------------------------------------------------

    def _plan(self) -> None:
        """Let it run at the time that it has asked for."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        requested = self._calendar.requested_ns
        if requested is not None and requested < FOREVER_NS and not self._closed:
            self._timer = self._clock.call_at(self._origin_s + requested / _NS, self._due)

    def _due(self) -> None:
        self._timer = None
        with self._noting_its_end():
            self._run()
            self._plan()
            self._soon()

    @contextlib.contextmanager
    def _noting_its_end(self) -> Iterator[None]:
        """Give it no more turns once it has ended; those that wait for it are told."""
        try:
            yield
        except KernelError as error:
            self._end = error
            self._closed = True
            self._news.set()

    async def _until_news(self) -> None:
        """Wait until it has said something. Raises KernelError: it has ended."""
        if self._end is not None:
            raise self._end
        self._news.clear()
        await self._news.wait()

    def _run(self) -> None:
        """Let it run until it waits again, and take what it has sent."""
        self._process.time.sendall(self._calendar.run().build())
        self._until_waiting()
        for frame in self._process.frames():
            self._take(frame)
        self._heard(self._process.said())
        if not self.is_ready and self._process.is_ready:
            self.is_ready = True
            self._news.set()
            self._soon()

    def _until_waiting(self) -> None:
        while not self._calendar.is_waiting:
            self._until(TimeOp.WAIT)

    def _until(self, op: TimeOp) -> None:
        """Answer its messages up to one of this kind."""
        while True:
            message = self._process.await_message()
            answer = self._calendar.take(message)
            if answer is not None:
                self._process.time.sendall(answer.build())
            if message.op == op:
                return

    # --- programs ------------------------------------------------------------------------------------------

    async def await_ready(self) -> None:
        """Let time pass until its driver is loaded, and a second more: programs such as ping take a clock below 1 s for
        one that was not read yet.
        """
        while not self.is_ready:
            await self._until_news()
        await asyncio.sleep(1.0)

    async def run(self, *command: str) -> subprocess.CompletedProcess[bytes]:
        """Run a program of this machine in it, and return what it has said and how it has ended.

        Raises:  KernelError: it was not started, or another one runs.
        """
        if self._program is not None:
            raise KernelError(f"{command[0]}: another program runs")
        self._program = program = AgentProgram(command)
        try:
            program.end_input()
            self._tell(program)
            while program.status is None:
                await self._until_news()
        finally:
            self._program = None
        return program.completed()

    def _heard(self, said: bytes) -> None:
        program = self._program
        for message in self._messages.take(said):
            if program is not None and message.session:
                program.take(message)
                self._tell(program)
            self._news.set()

    def close(self) -> None:
        """End it. May be called twice."""
        self._closed = True
        self._plan()
        self._process.close()
