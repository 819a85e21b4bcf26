"""A session serves its mount while other things wait; here a socket stands for /dev/fuse."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Iterator

import pytest

from hfi_sim.management.umad.abi import UmadError
from opavnic.devices.fuse import REQUEST_MAX, Opcode
from opavnic.devices.kernel.session import MountSession, WaitingCall
from opavnic.devices.tree import DeviceFile, Tree


class Table:
    """A device whose only message is too long for every buffer."""

    readable, dead = True, False

    def __init__(self) -> None:
        self.on_news = lambda: None

    def read(self, size: int) -> bytes | None:
        raise UmadError(28, f"too long for {size} bytes", b"the first segment")

    def write(self, data: bytes) -> int:
        return len(data)

    def ioctl(self, command: int, data: bytes) -> bytes:
        return data

    def close(self) -> None:
        """Nothing to be freed."""


@pytest.fixture
def kernel() -> Iterator[socket.socket]:
    """The end of the socket that stands for the kernel; `serve` takes the other one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    _other_ends[ours] = theirs
    with ours, theirs:
        yield ours


_other_ends: dict[socket.socket, socket.socket] = {}


def serve(kernel: socket.socket, ended: Callable[[MountSession], None]) -> MountSession:
    tree = Tree()
    tree.text("hello", "world")
    tree.add("table", DeviceFile(Table))
    return MountSession(
        tree,
        fuse_fd=_other_ends.pop(kernel).detach(),
        listener=None,
        device=0,
        buffer=bytearray(REQUEST_MAX),
        on_end=ended,
    )


async def ask(kernel: socket.socket, opcode: int, ino: int, body: bytes, unique: int = 2) -> bytes:
    request = struct.pack("<IIQQIII4x", 40 + len(body), opcode, unique, ino, 0, 0, 77) + body
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(kernel, request)
    return await loop.sock_recv(kernel, 4096)


async def test_requests_are_answered_until_the_mount_has_gone(kernel: socket.socket) -> None:
    ended: asyncio.Queue[MountSession] = asyncio.Queue()
    session = serve(kernel, ended.put_nowait)
    reply = await ask(kernel, Opcode.LOOKUP, 1, b"hello\0")
    assert struct.unpack_from("<IiQ", reply) == (len(reply), 0, 2)
    kernel.close()
    assert await asyncio.wait_for(ended.get(), 60) is session
    session.close()


async def test_program_whose_memory_cannot_be_written_holds_up_only_itself(
    kernel: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, goes_on = threading.Event(), threading.Event()
    filled: list[tuple[int, int, bytes]] = []

    def slow(call: WaitingCall, data: bytes) -> bool:
        asked.set()
        assert goes_on.wait(60)
        filled.append((call.tid, call.length, data))
        return True

    monkeypatch.setattr(WaitingCall, "find", lambda tid, _device, _number: WaitingCall(tid, 0, 100))
    monkeypatch.setattr(WaitingCall, "write", slow)
    session = serve(kernel, lambda _session: None)
    reply = await ask(kernel, Opcode.OPEN, 3, bytes(8))
    (fh,) = struct.unpack_from("<Q", reply, 16)
    read = struct.pack("<QQIIQI4x", fh, 0, 100, 0, 0, 0)
    request = struct.pack("<IIQQIII4x", 40 + len(read), Opcode.READ, 8, 3, 0, 0, 77) + read
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(kernel, request)
    await asyncio.to_thread(asked.wait, 60)
    assert (await ask(kernel, Opcode.LOOKUP, 1, b"hello\0", 10))[8] == 10, "others are served"
    goes_on.set()
    assert struct.unpack_from("<IiQ", await loop.sock_recv(kernel, 4096)) == (16, -28, 8)
    assert filled == [(77, 100, b"the first segment")]
    session.close()
