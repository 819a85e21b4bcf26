"""One program, and those that it starts, at the devices of a host: its mount, and its filter of system calls.

What a thread asks for is read in the memory of the thread, which waits in the system call.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import logging
import os
import platform
import select
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Self

from hfi_sim.base.errors import WireError
from opavnic.devices.filesystem import FileSystem
from opavnic.devices.kernel.seccomp import answer_one
from opavnic.devices.pieces import MAX_WRITTEN, Deposit, Fetch
from opavnic.devices.tree import Tree

_READ: Final = {"x86_64": 0, "aarch64": 63, "riscv64": 63}
_WRITE: Final = {"x86_64": 1, "aarch64": 64, "riscv64": 64}
"""Numbers of system calls that have a descriptor, a buffer and its length as arguments."""


class _Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


@dataclass(frozen=True, slots=True)
class WaitingCall:
    """A read(2) or write(2) of another program: its buffer.

    The buffer can be memory that the program fills itself, as slowly as it likes: not for the thread of an event loop.
    """

    tid: int
    address: int
    length: int

    @classmethod
    def find(cls, tid: int, device: int, numbers: Mapping[str, int]) -> Self | None:
        """Return the call that a thread waits in; None: it waits in another one, or may not be inspected.

        Args:  numbers: of the call, by architecture. device: the number of the file system that the call must be about
               (st_dev): a thread of another program may have the same number where the mount was made in another pid
               namespace.
        """
        try:
            words = Path(f"/proc/{tid}/syscall").read_text(encoding="ascii").split()
            called, fd, address, length = int(words[0]), *(int(word, 16) for word in words[1:4])
            if called != numbers.get(platform.machine()):
                return None
            if os.stat(f"/proc/{tid}/fd/{fd}").st_dev != device:
                return None
        except (OSError, ValueError, IndexError):
            return None
        return cls(tid, address, length)

    def write(self, data: bytes) -> bool:
        """Put bytes into the buffer, which is as long at least; return whether that was done."""
        return self._transfer("process_vm_writev", ctypes.create_string_buffer(data, len(data)))

    def read(self) -> bytes | None:
        """Return what is in the buffer; None: it cannot be read."""
        buffer = ctypes.create_string_buffer(self.length)
        return buffer.raw if self._transfer("process_vm_readv", buffer) else None

    def _transfer(self, how: str, buffer: ctypes.Array[ctypes.c_char]) -> bool:
        ours = _Vector(ctypes.cast(buffer, ctypes.c_void_p), len(buffer))
        theirs = _Vector(self.address, len(buffer))
        count = ctypes.c_ulong(1)
        call = getattr(ctypes.CDLL(None, use_errno=True), how)
        call.restype = ctypes.c_ssize_t
        done = call(self.tid, ctypes.byref(ours), count, ctypes.byref(theirs), count, ctypes.c_ulong(0))
        return bool(done == len(buffer))


log = logging.getLogger("opavnic.devices")

_TURN: Final = 64
"""Requests that one session is served in a row."""


class MountSession:
    """Serves one mount until its mount namespace has gone, or `close`."""

    def __init__(
        self,
        tree: Tree,
        *,
        fuse_fd: int,
        listener: int | None,
        device: int,
        buffer: bytearray,
        on_end: Callable[[MountSession], None],
    ) -> None:
        """Take over both descriptors.

        Args:  fuse_fd: /dev/fuse, of a mount that was made. listener: answers the filtered system calls, None: there
               is no filter. device: the st_dev of the mount. buffer: REQUEST_MAX bytes, which the sessions of a loop
               may share. on_end: called once both have ended by themselves.
        """
        self.tree = tree
        self._loop = asyncio.get_running_loop()
        self._files = FileSystem(tree)
        self._files.on_replies = self._flush
        self._fuse_fd: int | None = fuse_fd
        self._listener = listener
        self._device = device
        self._on_end = on_end
        self._buffer = buffer
        self._jobs = _Jobs()
        os.set_blocking(fuse_fd, False)
        self._loop.add_reader(fuse_fd, self._requests)
        if listener is not None:
            self._loop.add_reader(listener, self._calls)

    def close(self) -> None:
        """End: programs that still use the devices get errors."""
        self._end_mount()
        self._end_listener()

    # --- the mount -----------------------------------------------------------------------------------------

    def _requests(self) -> None:
        for _ in range(_TURN):
            if self._fuse_fd is None:
                return
            try:
                size = os.readv(self._fuse_fd, [self._buffer])
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno in (errno.ENOENT, errno.EINTR):  # the request was taken back
                    continue
                self._end_mount()  # ENODEV: unmounted
                self._ended()
                return
            try:
                self._files.receive(memoryview(self._buffer)[:size])
            except WireError as error:
                log.warning("a mount of the devices is closed: %s", error)
                self._end_mount()
                self._ended()
                return
            self._flush()

    def _flush(self) -> None:
        replies = self._files.replies
        while replies and self._fuse_fd is not None:
            reply = replies.popleft()
            if not isinstance(reply, bytes):
                self._jobs.add(lambda reply=reply: self._look(reply))  # type: ignore[misc]
                continue
            with contextlib.suppress(OSError):  # interrupted, or unmounted, which the next read tells
                os.write(self._fuse_fd, reply)

    def _look(self, wanted: Deposit | Fetch) -> None:
        """Look at the call that a request is of; runs in a thread."""
        if isinstance(wanted, Fetch):
            told = partial(self._files.fetched, wanted.unique, self._fetch(wanted))
        else:
            told = partial(self._files.deposited, wanted.unique, self._deposit(wanted))
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(told)

    def _deposit(self, deposit: Deposit) -> int:
        """Fill the buffer of a read, unless it is longer than is known; return its length."""
        call = WaitingCall.find(deposit.tid, self._device, _READ)
        if call is None:
            return deposit.size
        if call.length == deposit.size:
            call.write(deposit.data)
        return call.length

    def _fetch(self, fetch: Fetch) -> bytes | None:
        """Return all that a write is about; None: that is not known, or too much."""
        call = WaitingCall.find(fetch.tid, self._device, _WRITE)
        if call is None or call.length > MAX_WRITTEN:
            return None
        return fetch.data if call.length <= len(fetch.data) else call.read()

    def _end_mount(self) -> None:
        if self._fuse_fd is None:
            return
        fd, self._fuse_fd = self._fuse_fd, None
        self._loop.remove_reader(fd)
        self._files.close()
        os.close(fd)

    # --- filtered calls ------------------------------------------------------------------------------------

    def _calls(self) -> None:
        """Have one call answered, by a thread; look again when it is."""
        listener = self._listener
        if listener is None:
            return
        events = _poll(listener)
        if events & select.POLLIN:
            self._loop.remove_reader(listener)
            self._jobs.add(lambda: self._answer(listener))
        elif events:
            self._end_listener()  # no process is left under the filter
            self._ended()

    def _answer(self, listener: int) -> None:
        answer_one(listener)
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._answered)

    def _answered(self) -> None:
        if self._listener is not None:
            self._loop.add_reader(self._listener, self._calls)

    def _end_listener(self) -> None:
        if self._listener is None:
            return
        listener, self._listener = self._listener, None
        self._loop.remove_reader(listener)
        self._jobs.add(lambda: os.close(listener))  # behind an answer that is being given

    def _ended(self) -> None:
        if self._fuse_fd is None and self._listener is None:
            self._on_end(self)


class _Jobs:
    """What can block: done one after the other, by a thread that lives as long as there is something to do."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()
        self._lock = threading.Lock()
        self._running = False

    def add(self, job: Callable[[], None]) -> None:
        with self._lock:
            self._waiting.append(job)
            if self._running:
                return
            self._running = True
        threading.Thread(target=self._run, name="devices", daemon=True).start()

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._running = False
                    return
                job = self._waiting.popleft()
            job()


def _poll(fd: int) -> int:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return next((events for _, events in poll.poll(0)), 0)
