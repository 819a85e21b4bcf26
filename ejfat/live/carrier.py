"""The native pipeline outside the event loop: in threads of its own on an interface, or in a lab's datapath thread."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ejfat.live.ports import EthernetPort
from ejfat.pipeline.native import NativePipeline

if TYPE_CHECKING:  # the stand-alone program starts faster without these imports
    from hfi_sim.netdev.base import Netdev
    from opavnic.datapath.native_thread import NativeDatapath


class NativeCarrier:
    """Reads, processes and writes frames in native threads, and passes the remaining frames to Python.

    The port stays open, because Python sends its own frames (replies, ARP requests) through it.
    """

    def __init__(
        self,
        pipeline: NativePipeline,
        port: EthernetPort,
        receive: Callable[[bytes], None],
        on_failure: Callable[[str], None],
    ) -> None:
        """Prepare the threads, one for each descriptor of the port.

        Args:    receive: called with the frames for Python. on_failure: called once if a thread dies.
        """
        from opavnic import _native

        self._core = pipeline.core
        self._receive = receive
        self._on_failure = on_failure
        self._port = port
        self._threads = _native.EjfatPort(pipeline.core, port.filenos(), port.medium)

    def start(self) -> None:
        """Start carrying frames."""
        asyncio.get_running_loop().add_reader(self._core.notice_fd, self._noticed)
        self._threads.start()
        self._port.open()

    @property
    def lost(self) -> int:
        """Number of frames that the interface did not accept."""
        return self._threads.lost

    @contextlib.contextmanager
    def still(self) -> Iterator[None]:
        """Hold all frames back; they wait in the interface."""
        self._threads.pause()
        try:
            yield
        finally:
            self._threads.resume()

    def close(self) -> None:
        """End the threads. May be called twice."""
        self._threads.stop()
        asyncio.get_running_loop().remove_reader(self._core.notice_fd)

    def _noticed(self) -> None:
        for frame in self._core.take_punts():
            self._receive(frame)
        failure = self._threads.failure
        if failure is not None:
            asyncio.get_running_loop().remove_reader(self._core.notice_fd)
            self._on_failure(failure)


@contextlib.contextmanager
def carried_in_lab(
    pipeline: NativePipeline, netdev: Netdev, datapath: NativeDatapath, receive: Callable[[bytes], None]
) -> Iterator[None]:
    """Run the frames of a node through the pipeline in the thread of a lab's native datapath.

    Args:    receive: called with the frames for Python.
    """
    core, loop = pipeline.core, asyncio.get_running_loop()

    def noticed() -> None:
        for frame in core.take_punts():
            receive(frame)

    loop.add_reader(core.notice_fd, noticed)
    netdev.native_app = core
    datapath.refresh()
    try:
        yield
    finally:
        netdev.native_app = None
        datapath.refresh()
        loop.remove_reader(core.notice_fd)
