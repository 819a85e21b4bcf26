"""Serves a tree by the FUSE protocol: what one mount asks, and what it gets. Sans-IO.

`receive` takes requests; `replies` holds what to write to /dev/fuse. Reads of devices wait here until there is
something to read, and so do opens of a device that one program at a time may have until it is free. A read whose
buffer is too small for an RMPP message is special: the kernel's device fills the buffer and says ENOSPC as well, FUSE
can do one of the two. So a `Deposit` asks the owner of the mount to write into the memory of the caller. Where
the caller's buffer proves to be longer than the request, the read comes in `pieces`.
"""

from __future__ import annotations

import errno
import itertools
import logging
import stat
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from hfi_sim.base.errors import WireError
from hfi_sim.management.umad.abi import UmadError
from opavnic.devices import fuse
from opavnic.devices.fuse import FuseRequest, Opcode
from opavnic.devices.pieces import MAY_BE_PART, Deposit, Fetch, Pieces
from opavnic.devices.tree import DeviceFile, Directory, Handle, Symlink, Text, Tree, attributes_of

log = logging.getLogger("opavnic.devices")

MAX_HANDLES: Final = 4096
"""Files that the programs of one mount may have open."""
_POLLIN: Final = 0x41  # POLLIN, POLLRDNORM
_POLLOUT: Final = 0x104  # POLLOUT, POLLWRNORM
_POLLERR: Final = 0x8
_NONBLOCK: Final = 0o4000
_ACCESS_MODE: Final = 0o3
_TRUNCATE: Final = 1 << 3
_CHANGES: Final = frozenset(
    {
        Opcode.SYMLINK, Opcode.MKNOD, Opcode.MKDIR, Opcode.UNLINK, Opcode.RMDIR, Opcode.RENAME, Opcode.LINK,
        Opcode.CREATE, Opcode.RENAME2,
    }
)  # fmt: skip
_UNANSWERED: Final = frozenset({Opcode.FORGET, Opcode.BATCH_FORGET, Opcode.INTERRUPT})


@dataclass(slots=True)
class _Open:
    """An open file: a device, or the bytes of a text or directory."""

    device: Handle | None = None
    content: bytes = b""
    entries: tuple[bytes, ...] = ()
    take: Callable[[bytes], None] | None = None
    """Of a text that can be written."""
    poll_handle: int | None = None
    """The poller to wake; None: no program polls."""
    pieces: Pieces = field(default_factory=Pieces)


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A read."""

    request: FuseRequest
    fh: int
    piece: int
    """Bytes that the request asks for."""
    size: int
    """Of the caller's buffer, which is longer where there are more pieces."""
    waits: bool
    """False: with O_NONBLOCK."""


@dataclass(frozen=True, slots=True)
class _Writing:
    """A write that may be longer than the part that has arrived."""

    request: FuseRequest
    fh: int
    data: bytes


@dataclass(frozen=True, slots=True)
class _Opening:
    """An open that waits."""

    request: FuseRequest
    node: DeviceFile
    attempt: Callable[[], bool]
    """Its place among those that wait for the device."""


class FileSystem:
    """One mount of a tree."""

    def __init__(self, tree: Tree) -> None:
        self.replies: deque[bytes | Deposit | Fetch] = deque()
        """What to do next, in order; the caller takes it out."""
        self.on_replies: Callable[[], None] = lambda: None
        """Called when a device has made replies without a request."""
        self._tree = tree
        self._open: dict[int, _Open] = {}
        self._numbers = itertools.count(1)
        self._waiting: dict[int, _Waiting] = {}
        self._opening: dict[int, _Opening] = {}
        self._looked_at: dict[int, _Waiting | _Writing] = {}
        """Calls that are being inspected by the owner of the mount."""
        self._closed = False

    @property
    def open_files(self) -> int:
        """Number of open files and directories."""
        return len(self._open)

    def receive(self, data: bytes | memoryview) -> None:
        """Take one request of the kernel. Raises WireError: not a request."""
        request = FuseRequest.parse(data)
        if request.opcode == Opcode.DESTROY:
            self.close()
            return
        handler = _HANDLERS.get(request.opcode)
        try:
            if handler is not None:
                body = handler(self, request)
                if body is not None:
                    self._reply(request, body)
            elif request.opcode not in _UNANSWERED:
                self._fail(request, errno.EPERM if request.opcode in _CHANGES else errno.ENOSYS)
        except UmadError as error:
            self._fail(request, error.errno)
        except (LookupError, WireError) as error:  # not from a kernel
            log.warning("a program gets EIO for FUSE opcode %d: %r", request.opcode, error)
            self._fail(request, errno.EIO)

    def close(self) -> None:
        """Close all files: the mount has gone."""
        self._closed = True
        self._waiting.clear()
        self._looked_at.clear()
        for unique in tuple(self._opening):
            self._end_opening(unique)
        for file in self._open.values():
            if file.device is not None:
                file.device.close()
        self._open.clear()
        self.replies.clear()

    def _reply(self, request: FuseRequest, body: bytes) -> None:
        self.replies.append(fuse.reply(request.unique, body))

    def _fail(self, request: FuseRequest, number: int) -> None:
        self.replies.append(fuse.reply(request.unique, error=number))

    # --- names ---------------------------------------------------------------------------------------------

    def _init(self, request: FuseRequest) -> bytes:
        kernel = fuse.INIT_IN.parse(request.body)
        if kernel.major != fuse.MAJOR or kernel.minor < fuse.OLDEST_MINOR:
            raise UmadError(errno.EPROTO, f"FUSE {kernel.major}.{kernel.minor}")
        return fuse.init_out(kernel.minor, kernel.flags)

    def _lookup(self, request: FuseRequest) -> bytes:
        directory = self._tree.nodes[request.ino]
        name = request.body.rstrip(b"\0").decode(errors="replace")
        node = directory.entries.get(name) if isinstance(directory, Directory) else None
        if node is None:
            raise UmadError(errno.ENOENT, name)
        return fuse.entry_out(*attributes_of(node))

    def _getattr(self, request: FuseRequest) -> bytes:
        return fuse.attr_out(*attributes_of(self._tree.nodes[request.ino]))

    def _setattr(self, request: FuseRequest) -> bytes:
        """Let what can be written be truncated, which does nothing, as `> umad0` in a shell; refuse the rest."""
        node = self._tree.nodes[request.ino]
        writable = isinstance(node, DeviceFile) or (isinstance(node, Text) and node.take is not None)
        if not writable or not fuse.SETATTR_IN.parse(request.body).valid & _TRUNCATE:
            raise UmadError(errno.EPERM, "a file of the device's driver")
        return fuse.attr_out(*attributes_of(node))

    def _readlink(self, request: FuseRequest) -> bytes:
        node = self._tree.nodes[request.ino]
        if not isinstance(node, Symlink):
            raise UmadError(errno.EINVAL, "not a link")
        return node.target.encode()

    def _statfs(self, _request: FuseRequest) -> bytes:
        return fuse.STATFS_OUT.build(bsize=fuse.PAGE, namelen=255, frsize=fuse.PAGE)  # without blocks

    def _agree(self, _request: FuseRequest) -> bytes:
        return b""

    # --- open files ----------------------------------------------------------------------------------------

    def _open_file(self, request: FuseRequest) -> bytes | None:
        node = self._tree.nodes[request.ino]
        flags = fuse.OPEN_IN.parse(request.body).flags
        if len(self._open) + len(self._opening) >= MAX_HANDLES or self._closed:
            raise UmadError(errno.ENFILE, f"{MAX_HANDLES} files are open")
        if isinstance(node, DeviceFile):
            try:
                return self._open_device(node)
            except UmadError as error:
                if error.errno != errno.EAGAIN or flags & _NONBLOCK:
                    raise
            self._wait_for(node, request)
            return None
        if isinstance(node, Text):
            if flags & _ACCESS_MODE and node.take is None:
                raise UmadError(errno.EACCES, "nothing to be written")
            file = _Open(content=node.content().encode(), take=node.take)
        elif isinstance(node, Directory):
            file = _Open(entries=_entries(node))
        else:
            raise UmadError(errno.ELOOP, "a link")
        return fuse.OPEN_OUT.build(fh=self._number(file), open_flags=fuse.FOPEN_DIRECT_IO)

    def _number(self, file: _Open) -> int:
        fh = next(self._numbers)
        self._open[fh] = file
        return fh

    def _open_device(self, node: DeviceFile) -> bytes:
        device = node.open()
        fh = self._number(_Open(device=device))
        device.on_news = lambda: self._news(fh)
        how = fuse.FOPEN_DIRECT_IO | fuse.FOPEN_NONSEEKABLE | fuse.FOPEN_STREAM | fuse.FOPEN_NOFLUSH
        return fuse.OPEN_OUT.build(fh=fh, open_flags=how)

    def _wait_for(self, node: DeviceFile, request: FuseRequest) -> None:
        """Have an open answered when the device is free."""

        def attempt() -> bool:
            del self._opening[request.unique]
            try:
                self._reply(request, self._open_device(node))
            except UmadError as error:
                self._fail(request, error.errno)
                return False
            finally:
                self.on_replies()
            return True

        self._opening[request.unique] = _Opening(request, node, attempt)
        node.waiting.append(attempt)

    def _end_opening(self, unique: int) -> FuseRequest:
        opening = self._opening.pop(unique)
        opening.node.waiting.remove(opening.attempt)
        return opening.request

    def _read(self, request: FuseRequest) -> bytes | None:
        asked = fuse.READ_IN.parse(request.body)
        file = self._open[asked.fh]
        if file.device is None:
            return file.content[asked.offset : asked.offset + asked.size]
        if asked.offset:
            return file.pieces.next_read(request.tid, asked.offset, asked.size)
        file.pieces.forget_read(request.tid)
        self._serve(_Waiting(request, asked.fh, asked.size, asked.size, not asked.flags & _NONBLOCK))
        return None

    def _serve(self, waiting: _Waiting) -> None:
        """Answer a read, or let it wait."""
        if self._attempt(waiting):
            return
        if waiting.waits:
            self._waiting[waiting.request.unique] = waiting
        else:
            self._fail(waiting.request, errno.EAGAIN)

    def _attempt(self, waiting: _Waiting) -> bool:
        """Answer a read if there is something to read; return whether it was answered, or will be."""
        file, request = self._open[waiting.fh], waiting.request
        assert file.device is not None  # noqa: S101 - others do not wait
        try:
            data = file.device.read(waiting.size)
        except UmadError as error:
            if error.head:
                self._looked_at[request.unique] = waiting
                self.replies.append(Deposit(request.unique, request.tid, waiting.size, error.head))
            else:
                self._fail(request, error.errno)
            return True
        if data is None:
            return False
        self._reply(request, file.pieces.begin_read(request.tid, data, waiting.piece))
        return True

    def deposited(self, unique: int, size: int) -> None:
        """Continue a read after its buffer was inspected and filled. Args: size: of the buffer."""
        waiting = self._looked_at.pop(unique, None)
        if not isinstance(waiting, _Waiting):
            return
        if size <= waiting.size:
            self._fail(waiting.request, errno.ENOSPC)
        elif waiting.fh in self._open:
            self._serve(replace(waiting, size=size))
        else:  # not from a kernel: closed while it is read
            self._fail(waiting.request, errno.EIO)
        self.on_replies()

    def _readdir(self, request: FuseRequest) -> bytes:
        asked = fuse.READ_IN.parse(request.body)
        data = b""
        for entry in self._open[asked.fh].entries[asked.offset :]:
            if len(data) + len(entry) > asked.size:
                break
            data += entry
        return data

    def _write(self, request: FuseRequest) -> bytes | None:
        asked = fuse.WRITE_IN.parse(request.body)
        data = request.body[fuse.WRITE_IN.size :][: asked.size]
        file = self._open[asked.fh]
        device = file.device
        taken = fuse.WRITE_OUT.build(size=asked.size)
        if file.take is not None:
            file.take(data)
            return taken
        if device is None:
            raise UmadError(errno.EBADF, "nothing to be written")
        pieces = file.pieces
        if asked.offset:
            if not pieces.next_write(request.tid, asked.offset, asked.size):
                raise UmadError(errno.EINVAL, "part of a write that was not taken")
            return taken
        if asked.size >= MAY_BE_PART:
            self._looked_at[request.unique] = _Writing(request, asked.fh, data)
            self.replies.append(Fetch(request.unique, request.tid, data))
            return None
        return fuse.WRITE_OUT.build(size=device.write(data))

    def fetched(self, unique: int, data: bytes | None) -> None:
        """Go on with a write, all of which has been fetched; None: it is too long, or not known."""
        writing = self._looked_at.pop(unique, None)
        if not isinstance(writing, _Writing):
            return
        request, piece, file = writing.request, len(writing.data), self._open.get(writing.fh)
        try:
            if data is None and piece <= fuse.MAX_WRITE - fuse.PAGE:
                data = writing.data  # of writev(2), of which this is all
            if data is None or file is None or file.device is None:
                raise UmadError(errno.EINVAL, "a write that is too long")
            if not data.startswith(writing.data):
                raise UmadError(errno.EINVAL, "a write whose bytes changed while it was read")
            file.pieces.begin_write(request.tid, file.device.write(data), piece)
            self._reply(request, fuse.WRITE_OUT.build(size=piece))
        except UmadError as error:
            self._fail(request, error.errno)
        self.on_replies()

    def _ioctl(self, request: FuseRequest) -> bytes:
        asked = fuse.IOCTL_IN.parse(request.body)
        device = self._open[asked.fh].device
        if device is None:
            raise UmadError(errno.ENOTTY, "not a device")
        try:
            data = device.ioctl(asked.cmd, request.body[fuse.IOCTL_IN.size :][: asked.in_size])
        except UmadError as error:
            if not error.head:
                raise
            return fuse.IOCTL_OUT.build(result=-error.errno) + error.head[: asked.out_size]
        return fuse.IOCTL_OUT.build() + data[: asked.out_size]

    def _poll(self, request: FuseRequest) -> bytes:
        asked = fuse.POLL_IN.parse(request.body)
        file = self._open[asked.fh]
        if file.device is None:
            return fuse.POLL_OUT.build(revents=_POLLIN | _POLLOUT)
        if asked.flags & fuse.POLL_SCHEDULE_NOTIFY:
            file.poll_handle = asked.kh
        events = _POLLERR if file.device.dead else _POLLOUT | (_POLLIN if file.device.readable else 0)
        return fuse.POLL_OUT.build(revents=events)

    def _release(self, request: FuseRequest) -> bytes:
        file = self._open.pop(fuse.RELEASE_IN.parse(request.body).fh)
        if file.device is not None:
            file.device.close()
        return b""

    def _interrupt(self, request: FuseRequest) -> bytes | None:
        """Let a read or open fail whose thread has got a signal."""
        unique = fuse.INTERRUPT_IN.parse(request.body).unique
        waiting = self._waiting.pop(unique, None)
        if waiting is not None:
            self._fail(waiting.request, errno.EINTR)
        elif unique in self._opening:
            self._fail(self._end_opening(unique), errno.EINTR)
        return None

    # --- devices -------------------------------------------------------------------------------------------

    def _news(self, fh: int) -> None:
        """Serve the waiting reads and polls of a device that can be read now."""
        file = self._open.get(fh)
        if file is None:
            return
        for unique, waiting in list(self._waiting.items()):
            if waiting.fh == fh:
                if not self._attempt(waiting):
                    break
                del self._waiting[unique]
        if file.poll_handle is not None:
            self.replies.append(fuse.poll_wakeup(file.poll_handle))
            file.poll_handle = None
        self.on_replies()


_HANDLERS: Final[dict[int, Callable[[FileSystem, FuseRequest], bytes | None]]] = {
    Opcode.INIT: FileSystem._init,
    Opcode.LOOKUP: FileSystem._lookup,
    Opcode.GETATTR: FileSystem._getattr,
    Opcode.SETATTR: FileSystem._setattr,
    Opcode.READLINK: FileSystem._readlink,
    Opcode.STATFS: FileSystem._statfs,
    Opcode.ACCESS: FileSystem._agree,
    Opcode.FLUSH: FileSystem._agree,
    Opcode.OPEN: FileSystem._open_file,
    Opcode.OPENDIR: FileSystem._open_file,
    Opcode.READ: FileSystem._read,
    Opcode.READDIR: FileSystem._readdir,
    Opcode.WRITE: FileSystem._write,
    Opcode.IOCTL: FileSystem._ioctl,
    Opcode.POLL: FileSystem._poll,
    Opcode.RELEASE: FileSystem._release,
    Opcode.RELEASEDIR: FileSystem._release,
    Opcode.INTERRUPT: FileSystem._interrupt,
}


def _entries(directory: Directory) -> tuple[bytes, ...]:
    named = {".": directory, "..": directory.parent, **directory.entries}
    found = []
    for number, (name, node) in enumerate(named.items(), start=1):
        ino, mode, _ = attributes_of(node)
        found.append(fuse.directory_entry(ino, number, stat.S_IFMT(mode) >> 12, name))
    return tuple(found)
