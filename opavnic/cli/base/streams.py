"""The standard streams of the program, as it was started with them or without."""

from __future__ import annotations

import io
import os
import sys

from opavnic.base.null_device_file import open_null


def open_standard_streams() -> None:
    """Open /dev/null for a closed stdin, stdout or stderr, and make every text printable in any encoding.

    Otherwise a socket or lock of a lab could get the number of a closed stream and be lost when the lab detaches.
    """
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            open_null()  # takes the lowest free number: this one
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - for good
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
