"""/dev/null that cannot be used: on a file system that is mounted nodev, or with the wrong mode.

`open_standard_streams` puts it where a program was started without stdin, stdout or stderr.
"""

from __future__ import annotations

import io
import os
import sys

from opavnic.base.errors import OpavnicError


class NullDeviceError(OpavnicError):
    """/dev/null cannot be opened; the message says what would be right."""

    def __init__(self, error: OSError) -> None:
        super().__init__(
            f"cannot open {os.devnull}: {error.strerror}; programs read and write it: "
            f"chmod 666 {os.devnull}, on a file system that is not mounted nodev"
        )


def open_null(flags: int = os.O_RDWR) -> int:
    """Return a descriptor of /dev/null. Raises NullDeviceError."""
    try:
        return os.open(os.devnull, flags)
    except OSError as error:
        raise NullDeviceError(error) from error


def is_of_null(error: BaseException) -> bool:
    """Return whether an error is about /dev/null, which subprocess opens as well."""
    return isinstance(error, OSError) and error.filename == os.devnull


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
