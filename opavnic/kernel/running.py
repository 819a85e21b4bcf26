"""A kernel in an event loop: its wires with their ports, its agent with those that start programs, its end."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import socket
from collections.abc import Callable, Sequence
from typing import Final

from hfi_sim.base.text import visible
from hfi_sim.nodes.hfi import HfiPort
from opavnic.kernel.agent_program import AgentProgram
from opavnic.kernel.cache import KernelError
from opavnic.kernel.messages import AgentMessage, AgentVerb, Messages
from opavnic.kernel.port import PortOfKernel
from opavnic.kernel.process import READY, KernelProcess, send_frame
from opavnic.kernel.wire import MAX_FRAME

log = logging.getLogger("opavnic.kernel")

_FRAMES_AT_ONCE: Final = 64
_PANIC: Final = "Kernel panic"
_WRONG: Final = re.compile(
    r"WARNING: (?!.*virt-pci)|BUG: |BUG at |Oops|Kernel panic|"
    r"INFO: task .* blocked for|rcu: INFO: .* stall|UBSAN: |general protection fault"
)
"""What the kernel says of its own faults. User-mode Linux warns once, at boot, of its own PCI."""
_SAYS: Final = "opavnic: "
"""What lines of the first program begin with."""
OnMessage = Callable[[AgentMessage], None]
MakePort = Callable[[HfiPort, Callable[[bytes], bool]], PortOfKernel]


class _Wired:
    """A port of a kernel, and the wire on which it is."""

    def __init__(
        self, wire: socket.socket, port: HfiPort, make_port: MakePort, on_frame: Callable[[], None]
    ) -> None:
        self._wire = wire
        self._on_frame = on_frame
        self._loop = asyncio.get_running_loop()
        self._reading = False
        self._closed = False
        self.port = make_port(port, self._send)
        self._leave_flow = port.on_flow(self._flow)
        self._flow(False)

    def _send(self, frame: bytes) -> bool:
        taken = send_frame(self._wire, frame)
        if not taken:
            self._loop.add_writer(self._wire, self._writable)
        return taken

    def _writable(self) -> None:
        self.port.go_on()
        if not self.port.is_behind:
            self._loop.remove_writer(self._wire)

    def _readable(self) -> None:
        for _ in range(_FRAMES_AT_ONCE):
            try:
                frame = self._wire.recv(MAX_FRAME)
            except BlockingIOError:
                return
            except OSError:
                frame = b""
            if not frame:
                self._read(False)
                return
            self.port.take(frame)
            self._on_frame()
            if self._closed or not self._reading:
                return

    def _flow(self, _stopped: bool) -> None:
        """Leave packets of the kernel in its own queues while the link has no credits."""
        self._read(not self._closed and not self.port.should_wait)

    def _read(self, on: bool) -> None:
        if on and not self._reading:
            self._loop.add_reader(self._wire, self._readable)
        elif not on and self._reading:
            self._loop.remove_reader(self._wire)
        self._reading = on

    def close(self) -> None:
        """Take the port back."""
        self._closed = True
        self._leave_flow()
        self._read(False)
        self._loop.remove_writer(self._wire)
        self.port.close()


class KernelRun:
    """A kernel from its start until its process ends, or `close`."""

    def __init__(
        self,
        process: KernelProcess,
        host: str,
        ports: Sequence[HfiPort],
        make_port: MakePort,
        *,
        on_routes: Callable[[bytes], None],
        on_wrong: Callable[[str], None],
        on_end: Callable[[str], None],
    ) -> None:
        """Give the kernel its ports, one for each wire of its process.

        Args:    make_port: hands the port over, given what takes frames for the kernel. on_routes: takes datagrams
                 of rtnetlink. on_wrong: takes the lines of the console with which the kernel tells of a fault of its
                 own: a warning, a bug, a task that hangs. on_end: is told, once, why the kernel has ended, unless that
                 was `close`.
        Raises:  FabricError: the port has a driver.
        """
        self.process = process
        self._host = host
        self._on_routes = on_routes
        self._on_wrong = on_wrong
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._messages = Messages()
        self._sessions: dict[int, OnMessage] = {}
        self._last_session = 0
        self._unsent = bytearray()
        self._line = b""
        self._last_words = ""
        self._closed = False
        self.is_ready: asyncio.Future[None] = self._loop.create_future()
        """Done once programs can be started and opa_vnic has announced itself; KernelError: it did not come up."""
        self._console_ready = False
        self._pidfd = os.pidfd_open(process.pid)
        self._wired = [
            _Wired(wire, port, make_port, self._has_come)
            for wire, port in zip(process.wires, ports, strict=True)
        ]
        self._loop.add_reader(process.agent, self._agent_readable)
        self._loop.add_reader(process.console, self._console_readable)
        self._loop.add_reader(self._pidfd, self._ended)

    @property
    def ports(self) -> list[PortOfKernel]:
        """Its ports, HFI by HFI."""
        return [wired.port for wired in self._wired]

    def _has_come(self) -> None:
        if self._console_ready and self._are_ready:
            self._set_ready("")

    @property
    def _are_ready(self) -> bool:
        return all(port.ready for port in self.ports)

    # --- programs ------------------------------------------------------------------------------------------

    def open_session(self, take: OnMessage) -> int:
        """Return the number of a new session, whose messages go to `take`; EXITED or FAILED is the last."""
        self._last_session += 1
        self._sessions[self._last_session] = take
        return self._last_session

    def tell(self, message: AgentMessage) -> None:
        """Tell the agent something."""
        self._send(message.build())

    def _send(self, data: bytes) -> None:
        if data and not self._closed:
            self._unsent += data
            self._loop.add_writer(self.process.agent, self._agent_writable)

    async def output_of(self, command: Sequence[str], timeout_s: float) -> str:
        """Run a program to its end and return what it has printed.

        Raises:  KernelError: it was not started, it takes too long, or the kernel has ended.
        """
        ended: asyncio.Future[None] = self._loop.create_future()

        def take(message: AgentMessage) -> None:
            program.take(message)
            self._tell(program)
            if not ended.done() and (message.kind == AgentVerb.LOST or program.status is not None):
                ended.set_result(None)

        number = self.open_session(take)
        program = AgentProgram(command, number)
        program.end_input()
        self._tell(program)
        try:
            await asyncio.wait_for(ended, timeout_s)
        except TimeoutError:
            self.tell(AgentMessage(number, AgentVerb.END, b""))
            raise KernelError(f"{command[0]}: has not ended within {timeout_s:g} s") from None
        if program.status is None:
            raise KernelError(f"{command[0]}: the kernel has ended")
        return program.completed().stdout.decode(errors="replace")

    def _tell(self, program: AgentProgram) -> None:
        """Tell the agent what a program has for it."""
        self._send(program.unsent)
        program.unsent = b""

    def _agent_writable(self) -> None:
        try:
            del self._unsent[: self.process.agent.send(self._unsent)]
        except BlockingIOError:
            return
        except OSError:
            self._unsent.clear()
        if not self._unsent:
            self._loop.remove_writer(self.process.agent)

    def _agent_readable(self) -> None:
        try:
            data = self.process.agent.recv(MAX_FRAME)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._loop.remove_reader(self.process.agent)
            return
        for message in self._messages.take(data):
            if message.kind == AgentVerb.ROUTES:
                self._on_routes(message.body)
                continue
            last = message.kind in (AgentVerb.EXITED, AgentVerb.FAILED)
            take = self._sessions.pop(message.session, None) if last else self._sessions.get(message.session)
            if take is not None:
                take(message)

    # --- console and end -----------------------------------------------------------------------------------

    def _console_readable(self) -> None:
        data = self.process.read_console()
        if data is None:
            return
        if not data:
            self._loop.remove_reader(self.process.console)
        *lines, self._line = (self._line + data).split(b"\n")
        for line in lines:
            self._heard(visible(line.decode(errors="replace").strip()))

    def _heard(self, line: str) -> None:
        if not line:
            return
        log.info("[%s] %s", self._host, line)
        if _WRONG.search(line):
            self._on_wrong(line)
        if _PANIC not in self._last_words:
            self._last_words = line
        if line.startswith(_SAYS):
            self._first_program_says("" if line == READY.decode() else line.removeprefix(_SAYS))

    def _first_program_says(self, problem: str) -> None:
        if problem:
            self._set_ready(problem)
            return
        self._console_ready = True
        self._has_come()

    def _set_ready(self, problem: str) -> None:
        if self.is_ready.done():
            return
        if problem:
            self.is_ready.set_exception(KernelError(f"the kernel did not come up: {problem}"))
            self.is_ready.exception()  # a kernel that is booted again has no waiter
        else:
            self.is_ready.set_result(None)

    def _ended(self) -> None:
        self._console_readable()
        reason = self._last_words if _PANIC in self._last_words else self.process.ended_with
        self._set_ready(self._why_not_ready(reason))
        self.close()
        self._on_end(reason)

    def _why_not_ready(self, reason: str) -> str:
        if "ptrace" in self._last_words:
            return f"user-mode Linux needs ptrace, which is forbidden here ({self._last_words})"
        return reason if reason == self._last_words else f"{reason}: {self._last_words}"

    def close(self) -> None:
        """Take the port back, and let go of the process without ending it. May be called twice."""
        if self._closed:
            return
        self._closed = True
        self._set_ready("it was ended")
        for fd in (self.process.agent, self.process.console, self._pidfd):
            self._loop.remove_reader(fd)
        self._loop.remove_writer(self.process.agent)
        os.close(self._pidfd)
        for wired in self._wired:
            wired.close()
        sessions, self._sessions = self._sessions, {}
        for number, take in sessions.items():
            take(AgentMessage(number, AgentVerb.LOST, b""))
