"""/dev/null that cannot be used: on a file system that is mounted nodev, or with the wrong mode."""

from __future__ import annotations

import os

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
