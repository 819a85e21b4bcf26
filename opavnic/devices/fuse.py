"""The FUSE protocol between the kernel and a file system: requests in, replies out. Little-endian, sans-IO.

There are FUSE libraries for Python (pyfuse3, mfusepy). They are bindings of libfuse and hold one file system in a
process; a lab has one for each program that it lets in, mounted by that program. Little of the protocol is needed.

Source: the public Linux header linux/fuse.h.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import Final

from hfi_sim.base.errors import WireError
from hfi_sim.wire.header import structure

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

_REQUEST: Final = "FUSE request"
_request = partial(structure, order="little", module=__name__, within=_REQUEST)
_reply = partial(structure, order="little", module=__name__, within="FUSE reply")

IN_HEADER: Final = _request(
    "fuse_in_header", "u32 len, opcode; u64 unique, nodeid; u32 uid, gid, pid, padding"
)
INIT_IN: Final = _request("fuse_init_in", "u32 major, minor, max_readahead, flags")
SETATTR_IN: Final = _request("fuse_setattr_in", "u32 valid")  # and what it may change
OPEN_IN: Final = _request("fuse_open_in", "u32 flags, open_flags")
READ_IN: Final = _request(
    "fuse_read_in", "u64 fh, offset; u32 size, read_flags; u64 lock_owner; u32 flags, padding"
)
WRITE_IN: Final = _request(
    "fuse_write_in", "u64 fh, offset; u32 size, write_flags; u64 lock_owner; u32 flags, padding"
)
RELEASE_IN: Final = _request("fuse_release_in", "u64 fh")  # and how it was opened
INTERRUPT_IN: Final = _request("fuse_interrupt_in", "u64 unique")
IOCTL_IN: Final = _request("fuse_ioctl_in", "u64 fh; u32 flags, cmd; u64 arg; u32 in_size, out_size")
POLL_IN: Final = _request("fuse_poll_in", "u64 fh, kh; u32 flags, events")

OUT_HEADER: Final = _reply("fuse_out_header", "u32 len; s32 error; u64 unique")
INIT_OUT: Final = _reply(
    "fuse_init_out",
    "u32 major, minor, max_readahead, flags; u16 max_background, congestion_threshold; u32 max_write, time_gran; "
    "u16 max_pages, map_alignment; u32 unused[8]",
)
ENTRY_OUT: Final = _reply(
    "fuse_entry_out", "u64 nodeid, generation, entry_valid, attr_valid; u32 entry_valid_nsec, attr_valid_nsec"
)  # and a fuse_attr
ATTR_OUT: Final = _reply("fuse_attr_out", "u64 attr_valid; u32 attr_valid_nsec, dummy")  # and a fuse_attr
ATTR: Final = _reply(
    "fuse_attr",
    "u64 ino, size, blocks, atime, mtime, ctime; u32 atimensec, mtimensec, ctimensec, mode, nlink, uid, gid, rdev, "
    "blksize, flags",
)
OPEN_OUT: Final = _reply("fuse_open_out", "u64 fh; u32 open_flags, padding")
WRITE_OUT: Final = _reply("fuse_write_out", "u32 size, padding")
IOCTL_OUT: Final = _reply("fuse_ioctl_out", "s32 result; u32 flags, in_iovs, out_iovs")
POLL_OUT: Final = _reply("fuse_poll_out", "u32 revents, padding")
POLL_WAKEUP: Final = _reply("fuse_notify_poll_wakeup_out", "u64 kh")
STATFS_OUT: Final = _reply(
    "fuse_statfs_out",
    "u64 blocks, bfree, bavail, files, ffree; u32 bsize, namelen, frsize, padding, spare[6]",
)
DIRENT: Final = _reply("fuse_dirent", "u64 ino, off; u32 namelen, type")  # and a name


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
        """Take the bytes of one read from /dev/fuse apart. Raises WireError: they are not one request."""
        head = IN_HEADER.parse(data)
        if head.len != len(data):
            raise WireError(f"{_REQUEST} -> len", 0, f"{head.len}, of {len(data)} bytes")
        return cls(head.opcode, head.unique, head.nodeid, head.pid, bytes(data[IN_HEADER.size :]))


def reply(unique: int, body: bytes = b"", error: int = 0) -> bytes:
    """Return the reply to a request: a body, or an errno."""
    return OUT_HEADER.build(len=OUT_HEADER.size + len(body), error=-error, unique=unique) + body


def poll_wakeup(poll_handle: int) -> bytes:
    """Return the message that wakes a poller."""
    size = OUT_HEADER.size + POLL_WAKEUP.size
    return OUT_HEADER.build(len=size, error=_NOTIFY_POLL) + POLL_WAKEUP.build(kh=poll_handle)


def init_out(minor: int, offered: int) -> bytes:
    """Return the answer to INIT. Args: minor: the kernel's; offered: flags that it knows."""
    return INIT_OUT.build(
        major=MAJOR,
        minor=min(minor, MINOR),
        flags=offered & (_INIT_BIG_WRITES | _INIT_MAX_PAGES),
        max_background=16,
        congestion_threshold=12,
        max_write=MAX_WRITE,
        time_gran=1,
        max_pages=MAX_WRITE // PAGE,
    )


def _attributes(ino: int, mode: int, size: int) -> bytes:
    """Return struct fuse_attr; everything belongs to root."""
    return ATTR.build(ino=ino, size=size, mode=mode, nlink=1, blksize=PAGE)


def entry_out(ino: int, mode: int, size: int) -> bytes:
    """Return the answer to LOOKUP."""
    head = ENTRY_OUT.build(nodeid=ino, generation=1, entry_valid=FOREVER_S, attr_valid=FOREVER_S)
    return head + _attributes(ino, mode, size)


def attr_out(ino: int, mode: int, size: int) -> bytes:
    """Return the answer to GETATTR."""
    return ATTR_OUT.build(attr_valid=FOREVER_S) + _attributes(ino, mode, size)


def directory_entry(ino: int, following: int, kind: int, name: str) -> bytes:
    """Return one entry of READDIR. Args: following: the offset of the next one; kind: upper four bits of the mode."""
    encoded = name.encode()
    entry = DIRENT.build(ino=ino, off=following, namelen=len(encoded), type=kind) + encoded
    return entry + bytes(-len(entry) % 8)
