"""A kernel that runs: a process of user-mode Linux, its wire on a pair of sockets, its agent on another."""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import IO, Final, Self

from opavnic.kernel.agent_program import AgentProgram
from opavnic.kernel.cache import BuiltKernel, KernelError
from opavnic.kernel.drivers import HFI1, OPA_VNIC, LinuxDriver
from opavnic.kernel.messages import Messages
from opavnic.kernel.wire import MAX_FRAME

MEMORY: Final = {OPA_VNIC: "64M", HFI1: "512M"}
"""Of which a kernel takes what it uses."""
_WIRE: Final = 8
_AGENT: Final = 9
"""Descriptors of the kernel's process: the command line of one with one HFI is always the same, since it makes random
numbers of it too."""
_BECOME_KERNEL: Final = f'exec {_WIRE}<&0 {_AGENT}>&2 2>&1 </dev/null; exec "$@"'
READY: Final = b"opavnic: ready"
_FAILED: Final = re.compile(rb"opavnic: (?!ready)[^\n]*\n")
GUID: Final = 0x0011750101000001
"""Of a virtual HFI, unless it has another."""
BOOT_S: Final = 60.0
"""How long a kernel may take to come up."""
_BUFFER: Final = 256 << 10
"""Bytes under way between this process and a kernel, in each direction; the system may double it."""
_END_OF_KERNEL: Final = """read -r _
tries=0
while kill -s KILL -- "-$1" && [ $tries -lt 200 ]; do tries=$((tries + 1)); sleep 0.01; done
rm -rf -- "$2"
"""
"""Kills a process group until it is gone; a dead process belongs to it until its parent has seen that."""


StartKernel = Callable[[Callable[[], "subprocess.Popen[bytes]"]], "subprocess.Popen[bytes]"]


def _at_fixed_addresses() -> list[str]:
    """Return what starts a program without random addresses: else user-mode Linux keeps pages for the gaps."""
    setarch = shutil.which("setarch")
    return [] if setarch is None else [setarch, "--addr-no-randomize"]


def _start(function: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    return function()


def send_frame(wire: socket.socket, frame: bytes) -> bool:
    """Send a frame; return False where the kernel has no room for it now. Once it has ended, frames go nowhere."""
    try:
        wire.send(frame)
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


class KernelProcess:
    """One process, and all that it starts: they end with `close`, and with the process that made it."""

    def __init__(
        self,
        kernel: BuiltKernel,
        host: str = "",
        start: StartKernel = _start,
        *,
        driver: LinuxDriver = OPA_VNIC,
        cable: socket.socket | None = None,
        guids: Sequence[int] = (GUID,),
    ) -> None:
        """Start it; `await_ready` waits for its driver.

        Args:    host: its name; with one, it has the files of this machine, and an agent that starts programs. start:
                 calls a function that starts the process, in its network namespace for instance; what ends the process
                 is started outside. driver: which of Linux's own has the HFI's port. cable: an end of what its first
                 wire is, in place of one that leads to `wire`; it is closed here. guids: of its HFIs; one is all that
                 another driver than hfi1 has.
        Raises:  KernelError: it cannot be started.
        """
        pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in guids]
        self.wires = [ours for ours, _ in pairs]
        """One for each HFI."""
        self.wire = self.wires[0]
        theirs = [its for _, its in pairs]
        self.agent, their_agent = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._idle = theirs[0]
        """Held open, where the wire of the kernel is a cable."""
        if cable is not None:
            theirs[0] = cable
        for end in (*self.wires, *theirs, self.agent):
            end.setblocking(False)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
        self._console = b""
        """The end of what it has printed."""
        self._ended = False
        """Whether it prints nothing more."""
        self._messages = Messages()
        self._driver = driver
        self._guids = guids
        self._directory = tempfile.mkdtemp(prefix="opavnic-kernel-")
        try:
            numbers = [end.fileno() for end in theirs]
            self._process = start(lambda: self._open(kernel, host, numbers, their_agent.fileno()))
            os.set_blocking(self.console.fileno(), False)
            self._watcher = self._watch()
        except OSError as error:
            for end in (*self.wires, self.agent):
                end.close()
            shutil.rmtree(self._directory, ignore_errors=True)
            raise KernelError(f"{kernel.program}: not started: {error.strerror}") from error
        finally:
            for end in (*theirs, their_agent):
                end.close()

    def _open(
        self, kernel: BuiltKernel, host: str, wires: Sequence[int], agent: int
    ) -> subprocess.Popen[bytes]:
        """Start the process. Args:  wires, agent: its ends of them. Raises OSError: it cannot be started."""
        more, environment = self._own_time()
        words = [
            *_at_fixed_addresses(),
            str(kernel.program),
            f"mem={MEMORY[self._driver]}",
            f"initrd={kernel.first_files(self._driver)}",
            "rdinit=/init",
            "con0=null,fd:1",
            "con=null",
            "init_on_alloc=1",  # hfi1 pads packets of VNICs with memory that it has not written
            "uml_dir=./",
            "umid=kernel",
            f"wire={','.join(map(str, [_WIRE, *wires[1:]]))}",
            *([f"guid={','.join(map(hex, self._guids))}"] if self._driver is HFI1 else []),
            *([f"host={host}", f"agent={_AGENT}"] if host else []),
            *more,
        ]
        return subprocess.Popen(
            ["sh", "-c", _BECOME_KERNEL, "sh", *words],
            stdin=wires[0],
            stdout=subprocess.PIPE,
            stderr=agent,
            cwd=self._directory,
            env={**environment, "TMPDIR": "."},
            process_group=0,
            pass_fds=wires[1:],
        )

    def _own_time(self) -> tuple[list[str], Mapping[str, str]]:
        """Return more words of its command line, and its environment."""
        return [], os.environ

    def __enter__(self) -> Self:
        """Return the process."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it."""
        self.close()

    @property
    def pid(self) -> int:
        """Its number, which is that of its process group too."""
        return self._process.pid

    def _watch(self) -> subprocess.Popen[bytes]:
        """Start what ends the kernel, with all its processes, and removes its directory when its stdin is closed.

        That happens in `close`, and when this process is killed.
        """
        return subprocess.Popen(
            ["sh", "-c", _END_OF_KERNEL, "sh", str(self._process.pid), self._directory],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def await_ready(self, timeout_s: float = BOOT_S) -> None:
        """Wait until its modules are loaded.

        Raises:  KernelError: it ended, something failed in it, or it takes too long.
        """
        end = time.monotonic() + timeout_s
        while READY not in self._console:
            if not self._read_console(max(0.0, end - time.monotonic())):
                raise KernelError(f"the kernel is not up after {timeout_s:g} s: {self._last_line()}")
            if self._ended or _FAILED.search(self._console):
                raise KernelError(f"the kernel did not come up: {self._last_line()}")

    @property
    def console(self) -> IO[bytes]:
        """What it prints; `read_console` reads it."""
        console = self._process.stdout
        assert console is not None  # noqa: S101 - asked for
        return console

    def read_console(self) -> bytes | None:
        """Return what it has printed since; empty: it prints nothing more; None: nothing new."""
        try:
            read = os.read(self.console.fileno(), MAX_FRAME)
        except BlockingIOError:
            return None
        self._ended = not read
        self._console = (self._console + read)[-MAX_FRAME:]
        return read

    @property
    def ended_with(self) -> str:
        """How it has ended, or that it has not."""
        status = self._process.poll()
        if status is None:
            return "it runs"
        return f"killed by signal {-status}" if status < 0 else f"exit status {status}"

    def _read_console(self, timeout_s: float, *others: socket.socket) -> bool:
        """Wait for something from the console, which is read, or from others; return whether there was something."""
        watched: list[IO[bytes] | socket.socket] = [*others] if self._ended else [self.console, *others]
        readable, _, _ = select.select(watched, [], [], timeout_s)
        if self.console in readable:
            self.read_console()
        return bool(readable)

    def send(self, frame: bytes) -> bool:
        """Send a frame, as `send_frame` does."""
        return send_frame(self.wire, frame)

    def receive(self, timeout_s: float) -> bytes | None:
        """Return the next frame, or None if there is none in time. Raises KernelError: the kernel has ended."""
        end = time.monotonic() + timeout_s
        while True:
            with contextlib.suppress(BlockingIOError, ConnectionError):
                if frame := self.wire.recv(MAX_FRAME):
                    return frame
            if self._process.poll() is not None:
                raise KernelError(
                    f"the kernel has ended with {self._process.returncode}: {self._last_line()}"
                )
            if not self._read_console(max(0.0, end - time.monotonic()), self.wire):
                return None

    def run(
        self, command: Sequence[str], *, stdin: bytes = b"", timeout_s: float, take: Callable[[bytes], None]
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a program in the kernel to its end. Needs a host's name.

        Args:    take: takes the frames that come meanwhile.
        Raises:  KernelError: it was not started, it takes too long, or the kernel has ended.
        """
        program, end = AgentProgram(command), time.monotonic() + timeout_s
        program.write(stdin)
        program.end_input()
        while program.status is None:
            self.exchange(program, end, take)
        return program.completed()

    def exchange(self, program: AgentProgram, end: float, take: Callable[[bytes], None]) -> None:
        """Tell the agent what a program has for it, and wait for what comes back.

        Args:    end: how long, on the monotonic clock. take: takes the frames that come meanwhile.
        Raises:  KernelError: nothing came in time, or the kernel has ended.
        """
        with contextlib.suppress(BlockingIOError):
            program.unsent = program.unsent[self.agent.send(program.unsent) :]
        for message in self._messages.take(self._hear(end, take)):
            program.take(message)

    def _hear(self, end: float, take: Callable[[bytes], None]) -> bytes:
        """Return what comes from the agent next; meanwhile, frames are taken."""
        while True:
            while frame := self.receive(0.0):
                take(frame)
            with contextlib.suppress(BlockingIOError):
                return self.agent.recv(MAX_FRAME)
            if not self._read_console(max(0.0, end - time.monotonic()), self.wire, self.agent):
                raise KernelError(f"the program has not ended in time; the kernel: {self._last_line()}")

    def close(self) -> None:
        """End all its processes. May be called twice."""
        assert self._watcher.stdin is not None  # noqa: S101 - asked for above
        self._watcher.stdin.close()
        self._process.wait()
        self._watcher.wait()
        self.console.close()
        for end in (*self.wires, self._idle, self.agent):
            end.close()

    def _last_line(self) -> str:
        lines = self._console.decode(errors="replace").strip().splitlines()
        return lines[-1].strip() if lines else "it said nothing"
