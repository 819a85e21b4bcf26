"""Writes into the memory of a program that waits in read(2)."""

from __future__ import annotations

import ctypes
import os
import platform
from pathlib import Path
from typing import Final

_READ: Final = {"x86_64": 0, "aarch64": 63, "riscv64": 63}
"""The number of read(2)."""


class _Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def fill_read_buffer(tid: int, device: int, size: int, data: bytes) -> bool:
    """Put bytes into the buffer of a read that a thread waits in; return whether that was done.

    The buffer can be memory that the program fills itself, as slowly as it likes: not for the thread of an event loop.

    Args:  tid: the thread. device: the number of the file system that it must be reading from (st_dev): a thread of
           another program may have the same number where the mount was made in another pid namespace. size: of the
           buffer; data: not longer.
    """
    try:
        words = Path(f"/proc/{tid}/syscall").read_text(encoding="ascii").split()
        number, fd, address, wanted = int(words[0]), *(int(word, 16) for word in words[1:4])
        if number != _READ.get(platform.machine()) or wanted < size:
            return False
        if os.stat(f"/proc/{tid}/fd/{fd}").st_dev != device:
            return False
    except (OSError, ValueError, IndexError):
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(data, len(data))
    ours = _Vector(ctypes.cast(buffer, ctypes.c_void_p), len(data))
    theirs = _Vector(address, len(data))
    count = ctypes.c_ulong(1)
    written = libc.process_vm_writev(
        tid, ctypes.byref(ours), count, ctypes.byref(theirs), count, ctypes.c_ulong(0)
    )
    return bool(written == len(data))
