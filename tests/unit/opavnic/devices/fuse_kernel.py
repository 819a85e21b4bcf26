"""The kernel's side of FUSE, as bytes: requests as it sends them, replies as it reads them."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from opavnic.devices.filesystem import FileSystem
from opavnic.devices.fuse import MAX_WRITE, Opcode
from opavnic.devices.pieces import Deposit, Fetch

IOC_HEADER = struct.Struct("<QIIQII")


@dataclass
class Reply:
    """One reply."""

    error: int
    body: bytes


class Kernel:
    """Asks a file system, one request at a time."""

    def __init__(self, files: FileSystem) -> None:
        self.files = files
        self.deposits: list[Deposit] = []
        """Those that nobody has looked at: of calls whose length nobody knows."""
        self.lengths: dict[int, int] = {}
        """How long the calls are that each thread waits in."""
        self.memory: bytes | None = None
        """What is being written; None: nobody may know."""
        self.woken: list[int] = []
        self.replies: dict[int, Reply] = {}
        self._unique = 0

    def ask(self, opcode: int, ino: int = 1, body: bytes = b"", tid: int = 77) -> int:
        """Send a request; return its number."""
        self._unique += 2
        self.files.receive(
            struct.pack("<IIQQIII4x", 40 + len(body), opcode, self._unique, ino, 0, 0, tid) + body
        )
        self.take()
        return self._unique

    def take(self) -> None:
        """Read the replies that are there."""
        while self.files.replies:
            reply = self.files.replies.popleft()
            if isinstance(reply, Deposit) and reply.tid in self.lengths:
                self.files.deposited(reply.unique, self.lengths[reply.tid])
                continue
            if isinstance(reply, Deposit):
                self.deposits.append(reply)
                continue
            if isinstance(reply, Fetch):
                self.files.fetched(reply.unique, self.memory)
                continue
            length, error, unique = struct.unpack_from("<IiQ", reply)
            assert length == len(reply)
            if unique == 0:
                self.woken.append(struct.unpack_from("<Q", reply, 16)[0])
                continue
            assert unique not in self.replies, "one reply to each request"
            self.replies[unique] = Reply(-error, reply[16:])

    def call(self, opcode: int, ino: int = 1, body: bytes = b"") -> Reply:
        """Send a request that is answered at once."""
        return self.replies[self.ask(opcode, ino, body)]

    def walk(self, path: str) -> int:
        """Return the number of a file."""
        ino = 1
        for name in path.split("/"):
            reply = self.call(Opcode.LOOKUP, ino, name.encode() + b"\0")
            if reply.error:
                raise OSError(reply.error, path)
            ino = struct.unpack_from("<Q", reply.body)[0]
        return ino

    def open(self, path: str, flags: int = 0) -> tuple[int, Any]:
        """Open a file; return its error and its handle."""
        reply = self.call(Opcode.OPEN, self.walk(path), struct.pack("<2I", flags, 0))
        return reply.error, struct.unpack_from("<Q", reply.body)[0] if not reply.error else None

    def read(self, fh: int, size: int = 4096, offset: int = 0, flags: int = 0, tid: int = 77) -> int:
        """Start a read; return its number."""
        return self.ask(Opcode.READ, 1, struct.pack("<QQIIQI4x", fh, offset, size, 0, 0, flags), tid)

    def read_in_pieces(self, fh: int, size: int, tid: int = 77) -> bytes | int:
        """Read as the kernel does what is longer than a request; return the bytes, or the error."""
        self.lengths[tid] = size
        data = b""
        while len(data) < size:
            piece = min(size - len(data), MAX_WRITE)
            reply = self.replies[self.read(fh, piece, len(data), tid=tid)]
            if reply.error:
                return data or reply.error
            data += reply.body
            if len(reply.body) < piece:
                break
        return data

    def write(self, fh: int, data: bytes, offset: int = 0) -> Reply:
        """Send one request to write."""
        return self.call(Opcode.WRITE, 1, struct.pack("<QQIIQI4x", fh, offset, len(data), 0, 0, 0) + data)

    def write_in_pieces(self, fh: int, data: bytes) -> int:
        """Write as the kernel does what is longer than a request; return the bytes written, or minus the error."""
        self.memory = data
        done = 0
        while done < len(data):
            reply = self.write(fh, data[done : done + MAX_WRITE], done)
            if reply.error:
                return done or -reply.error
            done += int(struct.unpack_from("<I", reply.body)[0])
        return done

    def ioctl(self, fh: int, command: int, data: bytes, out_size: int | None = None) -> Reply:
        out = len(data) if out_size is None else out_size
        return self.call(Opcode.IOCTL, 1, IOC_HEADER.pack(fh, 0, command, 0, len(data), out) + data)

    def poll(self, fh: int, handle: int = 0) -> int:
        """Return the events; a handle is woken later."""
        reply = self.call(Opcode.POLL, 1, struct.pack("<QQII", fh, handle, 1 if handle else 0, 0))
        return int(struct.unpack_from("<I", reply.body)[0])

    def release(self, fh: int) -> Reply:
        return self.call(Opcode.RELEASE, 1, struct.pack("<Q16x", fh))

    def text(self, path: str) -> str:
        """Return the content of a file."""
        error, fh = self.open(path)
        assert not error
        content = self.replies[self.read(fh)].body.decode()
        self.release(fh)
        return content
