"""A umad device as a program has it open: a thread that reads and one that writes, so that a device that hangs holds up
nothing else.

The kernel's own device never makes a caller wait; one that another process answers does while that process is stopped.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Final

from hfi_sim.management.umad.abi import HEADER_SIZE, ID, REGISTER_AGENT2, UNREGISTER_AGENT, Registration
from opavnic.base.errors import OpavnicError

READ_AT_ONCE: Final = 64
"""Messages read before the event loop gets them."""
_FIRST_SIZE: Final = HEADER_SIZE + 4032
"""Room for a MAD; the device says when a message of RMPP needs more."""
_LAST_SIZE: Final = 64 << 20
_GONE: Final = frozenset({errno.EIO, errno.ENODEV, errno.EPIPE, errno.ENXIO, errno.ENOTCONN, errno.EBADF})


class DeviceError(OpavnicError):
    """A umad device cannot be opened or used."""


class UmadDevice:
    """An open device with its agents."""

    def __init__(
        self,
        path: str,
        loop: asyncio.AbstractEventLoop,
        *,
        arrived: Callable[[list[bytes]], None],
        refused: Callable[[bytes, OSError], None],
        gone: Callable[[str], None],
    ) -> None:
        """Open it. It may hang as long as a device hangs: see `opened`.

        Args:    arrived: called in the event loop with messages, each with its header. refused: with a message that the
                 device has refused. gone: once, with the reason why the device does nothing more.
        Raises:  DeviceError: it cannot be opened.
        """
        self.path = path
        self._loop = loop
        self._arrived, self._refused, self._gone = arrived, refused, gone
        self._ended = False
        self._to_write: SimpleQueue[bytes | None] = SimpleQueue()
        self._writing_since: float | None = None
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise DeviceError(f"{path}: {_why(error)}") from error
        self._over = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def register(self, asked: Registration) -> int:
        """Register an agent; return its number. The first one switches the file to headers with P_Key indices.

        Raises:  OSError: the device refuses it.
        """
        argument = bytearray(asked.build())
        fcntl.ioctl(self._fd, REGISTER_AGENT2, argument, True)
        return int(ID.parse(argument).id)

    def unregister(self, agent: int) -> None:
        """Free an agent. Raises OSError: no agent has that number."""
        fcntl.ioctl(self._fd, UNREGISTER_AGENT, ID.build(id=agent))

    def start(self) -> None:
        """Begin to read and write."""
        for target in (self._read, self._write):
            threading.Thread(target=target, name=f"{self.path} {target.__name__}", daemon=True).start()

    def write(self, message: bytes) -> None:
        """Send a message with its header, after all before it."""
        self._to_write.put(message)

    @property
    def silent_s(self) -> float:
        """Seconds for which the device has not taken the message that is being written."""
        since = self._writing_since
        return 0.0 if since is None else time.monotonic() - since

    def close(self) -> None:
        """End both threads as soon as the device lets them; the file is closed by the last."""
        if not self._ended:
            self._ended = True
            self._to_write.put(None)
            os.eventfd_write(self._over, 1)

    # --- threads -------------------------------------------------------------------------------------------

    def _tell(self, what: Callable[..., object], *values: object) -> None:
        try:
            self._loop.call_soon_threadsafe(what, *values)
        except RuntimeError:  # the loop has ended
            self._ended = True

    def _lost(self, reason: str) -> None:
        if not self._ended:
            self._tell(self._gone, reason)

    def _write(self) -> None:
        while (message := self._to_write.get()) is not None and not self._ended:
            self._writing_since = time.monotonic()
            try:
                os.write(self._fd, message)
            except OSError as error:
                if error.errno in _GONE:
                    return self._lost(f"{self.path}: {_why(error)}")
                if not self._ended:
                    self._tell(self._refused, message, error)
            finally:
                self._writing_since = None
        return None

    def _read(self) -> None:
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        poll.register(self._over, select.POLLIN)
        size = _FIRST_SIZE
        try:
            while not self._ended:
                events = dict(poll.poll())
                if self._over in events:
                    return None
                if not events.get(self._fd, 0) & select.POLLIN:
                    return self._lost(f"{self.path}: the device has gone")
                messages, size = self._take(size)
                if messages:
                    self._tell(self._arrived, messages)
        except OSError as error:
            self._lost(f"{self.path}: {_why(error)}")
        finally:
            os.close(self._fd)
            os.close(self._over)

    def _take(self, size: int) -> tuple[list[bytes], int]:
        """Return what can be read now, and the size of buffer that the next message needs."""
        messages: list[bytes] = []
        while len(messages) < READ_AT_ONCE:
            try:
                messages.append(os.read(self._fd, size))
                size = _FIRST_SIZE
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EINVAL) or size >= _LAST_SIZE:
                    raise
                size *= 8
        return messages, size


async def opened(
    path: str, agents: list[Registration], *, limit_s: float, **called: Any
) -> tuple[UmadDevice, list[int]]:
    """Open a device and register agents at it; return it with their numbers. It is not started.

    Args:    called: see UmadDevice.
    Raises:  DeviceError: it cannot be opened or does not answer in time, or an agent is refused.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[tuple[UmadDevice, list[int]]] = loop.create_future()
    results: deque[object] = deque()

    def finish() -> None:
        result = results.popleft()
        if done.done():
            if isinstance(result, tuple):
                os.close(result[0]._fd)  # too late: the caller has given up
            return
        if isinstance(result, tuple):
            done.set_result(result)
        else:
            assert isinstance(result, Exception)  # noqa: S101 - nothing else is put there
            done.set_exception(result)

    def work() -> None:
        try:
            device = UmadDevice(path, loop, **called)
            results.append((device, _registered(device, agents)))
        except Exception as error:
            results.append(error)
        with_loop(finish)

    def with_loop(what: Callable[[], None]) -> None:
        try:
            loop.call_soon_threadsafe(what)
        except RuntimeError:  # it has ended
            return

    threading.Thread(target=work, name=f"{path} open", daemon=True).start()
    try:
        return await asyncio.wait_for(done, limit_s)
    except TimeoutError:
        raise DeviceError(f"{path}: the device does not answer within {limit_s:g} s") from None


def _registered(device: UmadDevice, agents: list[Registration]) -> list[int]:
    numbers = []
    for asked in agents:
        try:
            numbers.append(device.register(asked))
        except OSError as error:
            os.close(device._fd)
            what = f"class {asked.mgmt_class:#04x}, version {asked.class_version:#04x}"
            if error.errno == errno.EINVAL:
                raise DeviceError(
                    f"{device.path}: an agent of {what} is refused: another program on this port has it, "
                    "such as another Ethernet Manager"
                ) from error
            raise DeviceError(f"{device.path}: an agent of {what} is refused: {_why(error)}") from error
    return numbers


def _why(error: OSError) -> str:
    if error.errno == errno.EACCES:
        return "permission denied: it takes root, or membership of the group that owns the device"
    return error.strerror or str(error)
