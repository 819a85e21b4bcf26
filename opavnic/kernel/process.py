"""A kernel that runs: a process of user-mode Linux, its wire on a pair of sockets."""

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
from types import TracebackType
from typing import IO, Final, Self

from opavnic.kernel.cache import BuiltKernel, KernelError
from opavnic.kernel.wire import MAX_FRAME, MTU

MEMORY: Final = "64M"
READY: Final = b"opavnic: ready"
_FAILED: Final = re.compile(rb"opavnic: (?!ready)[^\n]*\n")
BOOT_S: Final = 60.0
"""How long a kernel may take to come up."""
_BUFFER: Final = 4 << 20
_END_OF_KERNEL: Final = """read -r _
tries=0
while kill -s KILL -- "-$1" && [ $tries -lt 200 ]; do tries=$((tries + 1)); sleep 0.01; done
rm -rf -- "$2"
"""
"""Kills a process group until it is gone; a dead process belongs to it until its parent has seen that."""


class KernelProcess:
    """One process, and all that it starts: they end with `close`, and with the process that made it."""

    def __init__(self, kernel: BuiltKernel) -> None:
        """Start it; `await_ready` waits for its driver.

        Raises:  KernelError: it cannot be started.
        """
        self.wire, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.wire.setblocking(False)
        for end in (self.wire, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
        self._console = b""
        """The end of what it has printed."""
        self._ended = False
        """Whether it prints nothing more."""
        self._directory = tempfile.mkdtemp(prefix="opavnic-kernel-")
        wire = f"vec0:transport=fd,fd={theirs.fileno()},depth=64,mtu={MTU}"
        command = [
            str(kernel.program),
            f"mem={MEMORY}",
            f"initrd={kernel.first_files}",
            "rdinit=/init",
            "con0=fd:0,fd:1",
            "con=null",
            wire,
            f"uml_dir={self._directory}/",
        ]
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs.fileno()],
                env={**os.environ, "TMPDIR": self._directory},
                process_group=0,
            )
            self._watcher = self._watch()
        except OSError as error:
            self.wire.close()
            shutil.rmtree(self._directory, ignore_errors=True)
            raise KernelError(f"{kernel.program}: not started: {error.strerror}") from error
        finally:
            theirs.close()

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
        """Wait until our module is loaded.

        Raises:  KernelError: it ended, something failed in it, or it takes too long.
        """
        end = time.monotonic() + timeout_s
        while READY not in self._console:
            if not self._read_console(max(0.0, end - time.monotonic())):
                raise KernelError(f"the kernel is not up after {timeout_s:g} s: {self._last_line()}")
            if self._ended or _FAILED.search(self._console):
                raise KernelError(f"the kernel did not come up: {self._last_line()}")

    def _read_console(self, timeout_s: float, *others: socket.socket) -> bool:
        """Wait for something from the console, which is read, or from others; return whether there was something."""
        console = self._process.stdout
        assert console is not None  # noqa: S101 - asked for
        watched: list[IO[bytes] | socket.socket] = [*others] if self._ended else [console, *others]
        readable, _, _ = select.select(watched, [], [], timeout_s)
        if console in readable:
            read = os.read(console.fileno(), MAX_FRAME)
            self._ended = not read
            self._console = (self._console + read)[-MAX_FRAME:]
        return bool(readable)

    def send(self, frame: bytes) -> None:
        """Send a frame; it is lost where the kernel has ended, or reads nothing for long."""
        with contextlib.suppress(OSError):
            self.wire.send(frame)

    def receive(self, timeout_s: float) -> bytes | None:
        """Return the next frame, or None if there is none in time.

        Raises:  KernelError: the kernel has ended.
        """
        end = time.monotonic() + timeout_s
        while True:
            with contextlib.suppress(BlockingIOError):
                return self.wire.recv(MAX_FRAME)
            if self._process.poll() is not None:
                raise KernelError(
                    f"the kernel has ended with {self._process.returncode}: {self._last_line()}"
                )
            if not self._read_console(max(0.0, end - time.monotonic()), self.wire):
                return None

    def close(self) -> None:
        """End all its processes. May be called twice."""
        assert self._watcher.stdin is not None  # noqa: S101 - asked for above
        self._watcher.stdin.close()
        self._process.wait()
        self._watcher.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self.wire.close()

    def _last_line(self) -> str:
        lines = self._console.decode(errors="replace").strip().splitlines()
        return lines[-1].strip() if lines else "it said nothing"
