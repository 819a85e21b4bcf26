"""Copy a running capture to a file or pipe until it ends by itself or by a signal, with nothing of it lost."""

from __future__ import annotations

import contextlib
import threading
from http.client import HTTPException, HTTPResponse
from typing import Final

from hfi_sim.base.errors import WireError
from opavnic.base.signals import interruptible
from opavnic.lab.file.errors import LabError
from opavnic.lab.ownership.client import LabClient
from opavnic.observe.capture_copy import NUMBER_HEADER, CaptureCopy, Target

_PIECE: Final = 1 << 20
_END_S: Final = 5.0
"""Seconds that what is left may take to be written, once the capture was told to end: a reader may have stopped."""


def copy_capture(client: LabClient, stream: HTTPResponse, target: Target) -> tuple[CaptureCopy, bool]:
    """Copy the answer to GET /capture.

    A signal ends the capture in the lab; what that has kept until then is still written. A second signal ends that.

    Returns: what was copied, and whether the lab ended before the capture did.
    Raises:  OSError: the target cannot be written.
    """
    copying = _Copying(stream, target)
    try:
        with interruptible():
            copying.start()
            copying.done.wait()
    except KeyboardInterrupt:
        with contextlib.suppress(KeyboardInterrupt, LabError), interruptible():
            client.post("/capture/end", {"number": int(stream.headers[NUMBER_HEADER])})
            copying.done.wait(_END_S)
    if copying.fault is not None:
        raise copying.fault
    return copying.copy, copying.lab_has_ended


class _Copying(threading.Thread):
    """Copies in a thread: signals come to the main thread only, so none of them cuts a read or a write in two."""

    def __init__(self, stream: HTTPResponse, target: Target) -> None:
        super().__init__(name="capture", daemon=True)  # a stuck pipe does not keep the program from its end
        self.copy = CaptureCopy(target)
        self.done = threading.Event()
        """Set at the end. A join() that a signal interrupts may take the thread for ended (CPython 3.11)."""
        self.lab_has_ended = False
        self.fault: OSError | None = None
        """Why the target cannot be written."""
        self._stream = stream
        self._target = target

    def run(self) -> None:
        try:
            while piece := self._read():
                self.copy.feed(piece)
            self._target.close()
        except WireError:
            self.lab_has_ended = True
        except OSError as error:
            self.fault = error
        finally:
            self.done.set()

    def _read(self) -> bytes:
        """Return the next piece; empty at the end, also where that comes too early."""
        try:
            return self._stream.read1(_PIECE)
        except (HTTPException, OSError):
            self.lab_has_ended = True
            return b""
