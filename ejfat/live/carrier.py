"""The native pipeline beside the event loop: in a thread of its own at an interface, or in the one of a lab."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ejfat.live.ports import FramePort
from ejfat.pipeline.native import NativePipeline

if TYPE_CHECKING:  # a lab has them already, a program that stands alone starts sooner without
    from hfi_sim.netdev.base import Netdev
    from opavnic.world.carrier import NativeCarrier as Carrier


class NativeCarrier:
    """Reads, processes and writes frames without Python; hands over what is Python's.

    The port stays open: what Python sends itself (answers, questions) goes out by it.
    """

    def __init__(
        self,
        pipeline: NativePipeline,
        port: FramePort,
        receive: Callable[[bytes], None],
        on_failure: Callable[[str], None],
    ) -> None:
        """Args:  receive: takes the frames that are Python's. on_failure: told once, when the thread has died."""
        from opavnic import _native

        self._core = pipeline.core
        self._receive = receive
        self._on_failure = on_failure
        self._thread = _native.EjfatPort(pipeline.core, port.fileno(), port.medium)

    def start(self) -> None:
        """Begin to carry frames."""
        asyncio.get_running_loop().add_reader(self._core.notice_fd, self._noticed)
        self._thread.start()

    @property
    def lost(self) -> int:
        """Frames that the interface did not take."""
        return self._thread.lost

    @contextlib.contextmanager
    def still(self) -> Iterator[None]:
        """Let no frame pass meanwhile: they wait in the interface."""
        self._thread.pause()
        try:
            yield
        finally:
            self._thread.resume()

    def close(self) -> None:
        """End the thread, and take what it has left over. Harmless when done twice."""
        self._thread.stop()
        asyncio.get_running_loop().remove_reader(self._core.notice_fd)

    def _noticed(self) -> None:
        for frame in self._core.take_punts():
            self._receive(frame)
        failure = self._thread.failure
        if failure is not None:
            asyncio.get_running_loop().remove_reader(self._core.notice_fd)
            self._on_failure(failure)


class LabCarrier:
    """Lets the thread of a lab's native datapath run the frames of a node through the pipeline."""

    def __init__(
        self,
        pipeline: NativePipeline,
        netdev: Netdev,
        datapath: Carrier,
        receive: Callable[[bytes], None],
    ) -> None:
        """Args:  receive: takes the frames that are Python's."""
        self.still = datapath.still
        self._core = pipeline.core
        self._netdev = netdev
        self._datapath = datapath
        self._receive = receive

    def start(self) -> None:
        """Begin to carry frames."""
        asyncio.get_running_loop().add_reader(self._core.notice_fd, self._noticed)
        self._netdev.native_app = self._core
        self._datapath.refresh()

    def close(self) -> None:
        """Give the frames back to Python. Harmless when done twice."""
        self._netdev.native_app = None
        self._datapath.refresh()
        asyncio.get_running_loop().remove_reader(self._core.notice_fd)

    def _noticed(self) -> None:
        for frame in self._core.take_punts():
            self._receive(frame)
