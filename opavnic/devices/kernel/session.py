"""One program, and those that it starts, at the devices of a host: its mount, and its filter of system calls."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import select
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from hfi_sim.base.errors import WireError
from opavnic.devices.filesystem import FileSystem
from opavnic.devices.kernel.memory import BufferCall, WaitingCall
from opavnic.devices.kernel.seccomp import answer_one
from opavnic.devices.pieces import MAX_WRITTEN, Deposit, Fetch
from opavnic.devices.tree import Tree

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
        call = WaitingCall.find(deposit.tid, self._device, BufferCall.READ)
        if call is None:
            return deposit.size
        if call.length == deposit.size:
            call.write(deposit.data)
        return call.length

    def _fetch(self, fetch: Fetch) -> bytes | None:
        """Return all that a write is about; None: that is not known, or too much."""
        call = WaitingCall.find(fetch.tid, self._device, BufferCall.WRITE)
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
