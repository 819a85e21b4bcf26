"""What a thread asks for in the system call that it waits in, and the memory that the call is about."""

from __future__ import annotations

import ctypes
import os
import platform
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final, Self


class BufferCall(Enum):
    """A system call that has a descriptor, a buffer and its length as arguments."""

    READ = "read(2)"
    WRITE = "write(2)"


_NUMBERS: Final = {
    BufferCall.READ: {"x86_64": 0, "aarch64": 63, "riscv64": 63},
    BufferCall.WRITE: {"x86_64": 1, "aarch64": 64, "riscv64": 64},
}


class _Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


@dataclass(frozen=True, slots=True)
class WaitingCall:
    """A read(2) or write(2) of another program: its buffer.

    The buffer can be memory that the program fills itself, as slowly as it likes: not for the thread of an event loop.
    """

    tid: int
    address: int
    length: int

    @classmethod
    def find(cls, tid: int, device: int, number: BufferCall) -> Self | None:
        """Return the call that a thread waits in; None: it waits in another one, or may not be inspected.

        Args:  device: the number of the file system that the call must be about (st_dev): a thread of another program
               may have the same number where the mount was made in another pid namespace.
        """
        try:
            words = Path(f"/proc/{tid}/syscall").read_text(encoding="ascii").split()
            called, fd, address, length = int(words[0]), *(int(word, 16) for word in words[1:4])
            if called != _NUMBERS[number].get(platform.machine()):
                return None
            if os.stat(f"/proc/{tid}/fd/{fd}").st_dev != device:
                return None
        except (OSError, ValueError, IndexError):
            return None
        return cls(tid, address, length)

    def write(self, data: bytes) -> bool:
        """Put bytes into the buffer, which is as long at least; return whether that was done."""
        return self._transfer("process_vm_writev", ctypes.create_string_buffer(data, len(data)))

    def read(self) -> bytes | None:
        """Return what is in the buffer; None: it cannot be read."""
        buffer = ctypes.create_string_buffer(self.length)
        return buffer.raw if self._transfer("process_vm_readv", buffer) else None

    def _transfer(self, how: str, buffer: ctypes.Array[ctypes.c_char]) -> bool:
        ours = _Vector(ctypes.cast(buffer, ctypes.c_void_p), len(buffer))
        theirs = _Vector(self.address, len(buffer))
        count = ctypes.c_ulong(1)
        call = getattr(ctypes.CDLL(None, use_errno=True), how)
        call.restype = ctypes.c_ssize_t
        done = call(self.tid, ctypes.byref(ours), count, ctypes.byref(theirs), count, ctypes.c_ulong(0))
        return bool(done == len(buffer))
