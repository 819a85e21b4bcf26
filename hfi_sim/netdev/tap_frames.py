"""The frames of a TAP: read where they are not handed over to another reader, stopped and written."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from typing import Final

from hfi_sim.netdev.base import Netdev

READ_BATCH: Final = 64
"""Frames read per wake-up of the event loop, before others get their turn."""
ALONE_IN_A_ROW: Final = 7
"""Wake-ups that read one frame only, after one at which no second frame waited, while they are not close together."""
QUIET_S: Final = 0.5e-3
"""Time between two wake-ups from which on they are not close together."""
VNET_HEADER: Final = bytes(10)
"""The virtio-net header of a frame without offloads."""

_READ_BYTES: Final = 65536 + 64  # more than any MTU of a TAP: a short buffer would lose the frame
_NOT_TAKEN: Final = frozenset({errno.EAGAIN, errno.EIO, errno.ENOBUFS, errno.ENOMEM, errno.EINVAL})


class TapFrames(Netdev):
    """A TAP as far as its descriptor goes."""

    _fd = -1

    def __init__(self, loop: asyncio.AbstractEventLoop, *, vnet_hdr: bool) -> None:
        """Begin without a descriptor. Args: vnet_hdr: frames carry the virtio-net header."""
        self.dead: str | None = None
        """Why the interface is gone although this device was not closed; None while it is there."""
        self.vnet_hdr = vnet_hdr
        self._loop = loop
        self._buffer = bytearray(_READ_BYTES)
        self._view = memoryview(self._buffer)
        self._read_at = 0.0
        self._taken_alone = 0
        """Number of further wake-ups that read only one frame; see ALONE_IN_A_ROW."""
        self._buffers = (self._buffer,)
        self._skipped = len(VNET_HEADER) if vnet_hdr else 0
        self._reading = False
        self._reader_follows: Callable[[], None] = nothing

    @property
    def _usable(self) -> bool:
        return self._fd >= 0 and self.dead is None

    def on_lost(self, error: OSError) -> None:
        """The interface is gone, or out of reach."""
        raise NotImplementedError

    def fileno(self) -> int:
        """Return the descriptor of the TAP; -1 after close."""
        return self._fd

    def hand_over(self, follow: Callable[[], None] | None = None) -> int:
        self._reader_follows = follow or nothing
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._fd)  # harmless where the queue is stopped
        return self._fd

    def resume(self) -> None:
        if not self._reading and self._fd >= 0 and self.dead is None:
            self._reading = True
            self._reader_follows = nothing
            if not self.queue_stopped:
                self._loop.add_reader(self._fd, self._readable)

    def stop_queue(self) -> None:
        """Read no frames: those of the host wait in the kernel, txqueuelen of them at most (1000 unless set).

        Source: tun_net_xmit(): a frame for which the ring has no room is dropped and counted as TX dropped of the
        interface (`ip -s link`). The driver does not stop its queue, so the qdisc above never fills and senders never
        wait: TCP slows down because of the loss, UDP loses packets. The memory is bounded, here and in the kernel.
        """
        if not self.queue_stopped:
            self.queue_stopped = True
            if self._reading:
                self._loop.remove_reader(self._fd)
            self._reader_follows()

    def wake_queue(self) -> None:
        if self.queue_stopped:
            self.queue_stopped = False
            self._taken_alone = 0  # several frames may be waiting
            if self._reading:
                self._loop.add_reader(self._fd, self._readable)
            self._reader_follows()

    def _readable(self) -> None:
        frame, ops = self._read(), self.ops
        if frame is None or ops is None:
            return
        # usually no second frame waits; the first is sent before that is known, so that its reply is not delayed
        ops.ndo_start_xmit(frame)
        now = self._loop.time()
        was_quiet, self._read_at = now > self._read_at + QUIET_S, now
        if was_quiet and self._taken_alone:
            self._taken_alone -= 1
            return
        frame = self._read() if self._is_reading else None
        self._taken_alone = ALONE_IN_A_ROW if frame is None else 0
        if frame is None:
            return
        # frames written in a row reach their program while it is still running
        with ops.ndo_xmit_burst():
            left = READ_BATCH - 1
            while frame is not None:
                ops.ndo_start_xmit(frame)
                left -= 1
                frame = self._read() if left and self._is_reading else None

    @property
    def _is_reading(self) -> bool:
        """False once closed, handed over or stopped, which a frame may set off."""
        return self._reading and not self.queue_stopped

    def _read(self) -> bytes | None:
        """Return the next frame; None: there is none, or the device has failed."""
        try:
            length = os.readv(self._fd, self._buffers)
        except BlockingIOError:
            return None
        except OSError as error:
            self.on_lost(error)
            return None
        return bytes(self._view[self._skipped : length])

    def receive(self, frame: bytes) -> bool:
        """Hand a frame to the host; False where the interface is down, full, or gone.

        Source: tun_get_user(): the write carries the frame through the kernel's stack to its socket, and returns. It
        does not block, and does not show that a program is not reading: the socket then drops the frame (UDP) or
        closes its window (TCP). EAGAIN occurs only with a limit set by TUNSETSNDBUF, EIO while the interface is down.
        So a TAP never stops its senders, and `rx_stopped` stays False.
        """
        if self._fd < 0 or self.dead is not None:
            return False
        try:
            os.write(self._fd, VNET_HEADER + frame if self.vnet_hdr else frame)
        except OSError as error:
            if error.errno not in _NOT_TAKEN:
                self.on_lost(error)
            return False
        return True


def nothing() -> None:
    """Stand in for a reader that follows nothing."""
