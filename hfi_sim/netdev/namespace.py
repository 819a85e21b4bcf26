"""Run a function inside a network namespace, without moving the rest of the process there.

What a socket or a TAP belongs to is decided when it is opened, by the network namespace of the opening
thread. So a short-lived thread enters the namespace, opens, and ends; the descriptor works from anywhere.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from hfi_sim.base.errors import NetdevError

Result = TypeVar("Result")

_NAMED = Path("/run/netns")
"""Where `ip netns` keeps the namespaces that it has named."""

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000


class Libc:
    """The system calls that Python 3.11 does not offer; each raises OSError with its errno."""

    # one for all: each is a reference cycle, with a class for each function
    _lib: Final = ctypes.CDLL(None, use_errno=True)

    def _check(self, status: int, call: str, target: str) -> None:
        if status != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"{call}: {os.strerror(number)}", target)

    def setns(self, fd: int, kind: int) -> None:
        """Move this thread into the namespace behind `fd`; `kind` is CLONE_NEWNET and the like, 0 for any."""
        self._check(self._lib.setns(fd, kind), "setns", str(fd))

    def unshare(self, flags: int) -> None:
        """Give this thread namespaces of its own."""
        self._check(self._lib.unshare(flags), "unshare", hex(flags))

    def syscall(self, number: int, *arguments: int | bytes | None) -> int:
        """Make a system call that the C library has no function for; return what it returns."""
        words = [ctypes.c_long(it) if isinstance(it, int) else it for it in (number, *arguments)]
        returned: int = self._lib.syscall(*words)
        self._check(min(returned, 0), "syscall", str(number))
        return returned

    def mount(self, source: str, target: str, kind: str, flags: int, options: str | None = None) -> None:
        """Mount `source` on `target`; `flags` are MS_* of mount(2), `options` those of the file system."""
        data = None if options is None else options.encode()
        status = self._lib.mount(source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), data)
        self._check(status, "mount", target)

    def umount(self, target: str, flags: int) -> None:
        """Take the mount at `target` away; `flags` are MNT_* of umount2(2)."""
        self._check(self._lib.umount2(target.encode(), flags), "umount", target)


def run_in_thread(function: Callable[[], Result], name: str) -> Result:
    """Return what `function` returns, run to its end in a thread of its own; its exception is raised here."""
    outcome: list[Result] = []
    failure: list[BaseException] = []

    def body() -> None:
        try:
            outcome.append(function())
        except BaseException as error:  # handed to the caller below
            failure.append(error)

    thread = threading.Thread(target=body, name=name, daemon=True)
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return outcome[0]


def namespace_text(namespace: Path) -> str:
    """Return what people call a network namespace: as `ip netns` has it, else as `lsns` and readlink show it."""
    here = namespace.stat()
    for path in (Path("/proc/self/ns/net"), *(_NAMED.iterdir() if _NAMED.is_dir() else ())):
        with contextlib.suppress(OSError):
            if os.path.samestat(path.stat(), here):
                return path.name if path.parent == _NAMED else "the machine's own"
    return f"net:[{here.st_ino}]"


def run_in_namespace(namespace: Path | None, function: Callable[[], Result]) -> Result:
    """Return what `function` returns, run by a thread inside a network namespace.

    Args:    namespace: a file such as /run/netns/NAME or /proc/PID/ns/net; None is where this process is.
    Raises:  NetdevError: the namespace does not exist or may not be entered; and what `function` raises.
    """
    if namespace is None:
        return function()

    def inside() -> Result:
        try:
            fd = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
            try:
                Libc().setns(fd, CLONE_NEWNET)
            finally:
                os.close(fd)
        except OSError as error:
            raise NetdevError(
                f"cannot enter network namespace {namespace}: {error.strerror}", error.errno or 0
            ) from error
        return function()

    return run_in_thread(inside, f"netns {namespace.name}")
