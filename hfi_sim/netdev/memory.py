"""A network device without a kernel: the host side is a few methods, the frames are bytes in a queue.

It does to its adapter what the core network stack does to a driver: open is `ndo_open`, then IFF_UP and one
`ndo_set_rx_mode`; list changes call `ndo_set_rx_mode` only while the device is up.
"""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from hfi_sim.base.types import ETH_MTU_DEFAULT, ETH_MTU_MAX, ETH_MTU_MIN, MacAddr
from hfi_sim.netdev.base import Netdev

DEFAULT_QUEUE: Final = 1024


class MemoryNetdev(Netdev):
    """A netdev for tests, for tools, and for programs of this process; needs no privilege."""

    def __init__(
        self,
        name: str,
        *,
        queue_frames: int = DEFAULT_QUEUE,
        on_receive: Callable[[bytes], None] | None = None,
    ) -> None:
        """Make a device that is down, without carrier, with a zero address.

        Args:  queue_frames: how many frames `received` holds before more are refused. on_receive: takes the
               frames instead of the queue, which then stays empty but for `stop_reading`.
        """
        self.name = name
        self.address = MacAddr(bytes(6))
        self.uc_list: Sequence[MacAddr] = ()
        self.mc_list: Sequence[MacAddr] = ()
        self.mtu = ETH_MTU_DEFAULT
        self.max_mtu = ETH_MTU_MAX
        self.is_up = False
        self.carrier = False
        self.dormant = False
        self.ops = None
        self.closed = False
        self.received: deque[bytes] = deque()
        """Frames that have arrived and have not been taken yet, oldest first."""
        self.on_receive = on_receive
        self._queue_frames = queue_frames
        self._reading = True
        self._draining = False
        self._waiting: deque[bytes] = deque()

    # --- the host side -------------------------------------------------------------------------------------

    def open(self) -> int:
        """Set the device up; return 0 or the negative errno of the adapter, with which it stays down."""
        if self.is_up:
            return 0
        if self.ops is None:
            return -errno.ENODEV
        error = self.ops.ndo_open()
        if error:
            return error
        self.is_up = True
        self.ops.ndo_set_rx_mode()
        return 0

    def stop(self) -> None:
        """Set the device down."""
        if not self.is_up:
            return
        if self.ops is not None:
            self.ops.ndo_stop()
        self.is_up = False

    def set_mac(self, mac: MacAddr) -> int:
        """Choose another address; return 0 or the negative errno of the adapter, with which it stays."""
        error = self.ops.ndo_set_mac_address(mac) if self.ops is not None else 0
        if not error:
            self.address = mac
        return error

    def change_mtu(self, mtu: int) -> int:
        """Choose another MTU, in bytes; return 0, or -EINVAL outside 68 to `max_mtu`."""
        if not ETH_MTU_MIN <= mtu <= self.max_mtu:
            return -errno.EINVAL
        self.mtu = mtu
        return 0

    def set_uc_list(self, macs: Sequence[MacAddr]) -> None:
        """Replace the secondary unicast addresses."""
        self.uc_list = tuple(macs)
        self._lists_changed()

    def set_mc_list(self, macs: Sequence[MacAddr]) -> None:
        """Replace the multicast addresses."""
        self.mc_list = tuple(macs)
        self._lists_changed()

    def _lists_changed(self) -> None:
        if self.is_up and self.ops is not None:
            self.ops.ndo_set_rx_mode()

    def transmit(self, frame: bytes) -> bool:
        """Send a frame; False where the device is down, or its queue is stopped and full: nothing was tried."""
        if not self.is_up or self.ops is None:
            return False
        if self.queue_stopped:
            if len(self._waiting) >= self._queue_frames:
                return False
            self._waiting.append(frame)
            return True
        self.ops.ndo_start_xmit(frame)
        return True

    def take(self) -> bytes | None:
        """Take the oldest frame that has arrived, or None; the queue has room for one more then."""
        if not self.received:
            return None
        frame = self.received.popleft()
        if self.ops is not None:
            self.ops.ndo_rx_wake()
        return frame

    def stop_reading(self) -> None:
        """Let frames wait in `received` instead of giving them to `on_receive`, whose program is busy."""
        self._reading = False

    def resume_reading(self) -> None:
        """Give `on_receive` what has waited, and go on."""
        self._reading = True
        if self._draining:
            return
        self._draining = True  # what comes meanwhile stays behind what has waited
        try:
            while self.received and self._reading and self.on_receive is not None:
                self.on_receive(self.received.popleft())
        finally:
            self._draining = False
        if self.ops is not None:
            self.ops.ndo_rx_wake()

    @property
    def waiting(self) -> int:
        """Frames that the host has sent and that wait for the queue to be woken."""
        return len(self._waiting)

    # --- the adapter's side --------------------------------------------------------------------------------

    @property
    def rx_stopped(self) -> bool:
        """Whether the queue is full: it has room again once a reader takes a frame or resumes."""
        return self.is_up and not self._is_read and len(self.received) >= self._queue_frames

    @property
    def _is_read(self) -> bool:
        return self.on_receive is not None and self._reading and not self._draining

    def receive(self, frame: bytes) -> bool:
        if not self.is_up:
            return False
        if self.on_receive is not None and self._is_read:
            self.on_receive(frame)
            return True
        if len(self.received) >= self._queue_frames:
            return False
        self.received.append(frame)
        return True

    def wake_queue(self) -> None:
        """Send what has waited while the queue was stopped, as many frames as `received` would hold, and go on."""
        self.queue_stopped = False
        while self._waiting and not self.queue_stopped and self.ops is not None:
            self.ops.ndo_start_xmit(self._waiting.popleft())

    def close(self) -> None:
        self.is_up = False
        self.carrier = False
        self.closed = True


def memory_netdev(vport_num: int) -> MemoryNetdev:
    """Make the netdev `vethN` of a vport: a NetdevFactory for hosts whose interface names do not matter."""
    return MemoryNetdev(f"veth{vport_num}")
