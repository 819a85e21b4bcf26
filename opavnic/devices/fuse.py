"""The FUSE protocol between the kernel and a file system: requests in, replies out. Little-endian, sans-IO.

There are FUSE libraries for Python (pyfuse3, mfusepy). They are bindings of libfuse and hold one file system in a
process; a lab has one for each program that it lets in, mounted by that program. Little of the protocol is needed.

Source: the public Linux header linux/fuse.h.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from hfi_sim.base.errors import WireError

MAJOR: Final = 7
MINOR: Final = 36
OLDEST_MINOR: Final = 31
"""Linux 5.4: the first with FOPEN_STREAM."""
MAX_WRITE: Final = 1 << 20
"""Bytes of one read or write of a program that arrive as one request."""
REQUEST_MAX: Final = MAX_WRITE + 4096
"""Bytes of the largest request."""
FOREVER_S: Final = 3600
"""How long the kernel may keep names and attributes, which never change."""

FOPEN_DIRECT_IO: Final = 1 << 0
FOPEN_NONSEEKABLE: Final = 1 << 2
FOPEN_STREAM: Final = 1 << 4
"""Without it a read that waits holds the file position, and a write of another thread waits for that."""
FOPEN_NOFLUSH: Final = 1 << 5

POLL_SCHEDULE_NOTIFY: Final = 1
_INIT_BIG_WRITES: Final = 1 << 5
_INIT_MAX_PAGES: Final = 1 << 22
_NOTIFY_POLL: Final = 1
PAGE: Final = 4096
"""Bytes of the smallest page."""

IN_HEADER: Final = struct.Struct("<IIQQIII4x")  # len, opcode, unique, nodeid, uid, gid, pid
_OUT_HEADER: Final = struct.Struct("<IiQ")  # len, error, unique
INIT_IN: Final = struct.Struct("<4I")  # major, minor, max_readahead, flags
_INIT_OUT: Final = struct.Struct("<4I2H2I2H8I")
OPEN_IN: Final = struct.Struct("<2I")
_OPEN_OUT: Final = struct.Struct("<QI4x")
READ_IN: Final = struct.Struct("<QQIIQI4x")  # fh, offset, size, read_flags, lock_owner, flags
WRITE_IN: Final = struct.Struct("<QQIIQI4x")
_WRITE_OUT: Final = struct.Struct("<I4x")
RELEASE_IN: Final = struct.Struct("<Q")
INTERRUPT_IN: Final = struct.Struct("<Q")
IOCTL_IN: Final = struct.Struct("<QIIQII")  # fh, flags, cmd, arg, in_size, out_size
_IOCTL_OUT: Final = struct.Struct("<iIII")
POLL_IN: Final = struct.Struct("<QQII")  # fh, kh, flags, events
_POLL_OUT: Final = struct.Struct("<I4x")
_ATTR: Final = struct.Struct("<6Q10I")
_ENTRY_OUT: Final = struct.Struct("<4Q2I")
_ATTR_OUT: Final = struct.Struct("<Q2I")
_STATFS_OUT: Final = struct.Struct("<5Q4I24x")
_DIRENT: Final = struct.Struct("<QQII")


class Opcode(IntEnum):
    """Requests that are answered with more than an error, or not at all."""

    LOOKUP = 1
    FORGET = 2
    GETATTR = 3
    SETATTR = 4
    READLINK = 5
    SYMLINK = 6
    MKNOD = 8
    MKDIR = 9
    UNLINK = 10
    RMDIR = 11
    RENAME = 12
    LINK = 13
    OPEN = 14
    READ = 15
    WRITE = 16
    STATFS = 17
    RELEASE = 18
    FLUSH = 25
    INIT = 26
    OPENDIR = 27
    READDIR = 28
    RELEASEDIR = 29
    ACCESS = 34
    CREATE = 35
    INTERRUPT = 36
    DESTROY = 38
    IOCTL = 39
    POLL = 40
    BATCH_FORGET = 42
    RENAME2 = 45


@dataclass(frozen=True, slots=True)
class FuseRequest:
    """One request of the kernel."""

    opcode: int
    unique: int
    """What its reply repeats."""
    ino: int
    tid: int
    """The thread that makes the call."""
    body: bytes

    @classmethod
    def parse(cls, data: bytes | memoryview) -> FuseRequest:
        """Take the bytes of one read from /dev/fuse apart.

        Raises:  WireError: they are not one request.
        """
        if len(data) < IN_HEADER.size:
            raise WireError("fuse_in_header", len(data), f"{len(data)} bytes")
        length, opcode, unique, ino, _, _, tid = IN_HEADER.unpack_from(data)
        if length != len(data):
            raise WireError("len", 0, f"{length}, of {len(data)} bytes")
        return cls(opcode, unique, ino, tid, bytes(data[IN_HEADER.size :]))


@dataclass(frozen=True, slots=True)
class Attributes:
    """What stat(2) shows of a file."""

    ino: int
    mode: int
    size: int = 0

    def build(self) -> bytes:
        """Return struct fuse_attr; everything belongs to root."""
        return _ATTR.pack(self.ino, self.size, 0, 0, 0, 0, 0, 0, 0, self.mode, 1, 0, 0, 0, PAGE, 0)


def reply(unique: int, body: bytes = b"", error: int = 0) -> bytes:
    """Return the reply to a request: a body, or an errno."""
    return _OUT_HEADER.pack(_OUT_HEADER.size + len(body), -error, unique) + body


def poll_news(poll_handle: int) -> bytes:
    """Return the message that wakes a poller."""
    return _OUT_HEADER.pack(_OUT_HEADER.size + 8, _NOTIFY_POLL, 0) + struct.pack("<Q", poll_handle)


def init_out(minor: int, offered: int) -> bytes:
    """Return the answer to INIT. Args: minor: the kernel's; offered: flags that it knows."""
    flags = offered & (_INIT_BIG_WRITES | _INIT_MAX_PAGES)
    pages = MAX_WRITE // PAGE
    return _INIT_OUT.pack(MAJOR, min(minor, MINOR), 0, flags, 16, 12, MAX_WRITE, 1, pages, 0, *([0] * 8))


def entry_out(attributes: Attributes) -> bytes:
    """Return the answer to LOOKUP."""
    return _ENTRY_OUT.pack(attributes.ino, 1, FOREVER_S, FOREVER_S, 0, 0) + attributes.build()


def attr_out(attributes: Attributes) -> bytes:
    """Return the answer to GETATTR."""
    return _ATTR_OUT.pack(FOREVER_S, 0, 0) + attributes.build()


def open_out(fh: int, flags: int) -> bytes:
    """Return the answer to OPEN and OPENDIR."""
    return _OPEN_OUT.pack(fh, flags)


def write_out(size: int) -> bytes:
    """Return the answer to WRITE."""
    return _WRITE_OUT.pack(size)


def ioctl_out(data: bytes) -> bytes:
    """Return the answer to an ioctl that was done."""
    return _IOCTL_OUT.pack(0, 0, 0, 0) + data


def poll_out(events: int) -> bytes:
    """Return the answer to POLL."""
    return _POLL_OUT.pack(events)


def statfs_out() -> bytes:
    """Return the answer to STATFS: a file system without blocks."""
    return _STATFS_OUT.pack(0, 0, 0, 0, 0, PAGE, 255, PAGE, 0)


def directory_entry(ino: int, following: int, kind: int, name: str) -> bytes:
    """Return one entry of READDIR. Args: following: the offset of the next one; kind: upper four bits of the mode."""
    encoded = name.encode()
    entry = _DIRENT.pack(ino, following, len(encoded), kind) + encoded
    return entry + bytes(-len(entry) % 8)
