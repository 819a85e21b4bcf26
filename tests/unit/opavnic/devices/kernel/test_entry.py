"""What a program says to have devices: only /dev/fuse and a filter's listener are accepted, and nothing stays open."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from opavnic.devices.kernel.entry import EntryError, receive_arrival, send_arrival


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        yield ours, theirs


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """Both ends of a pipe; the test closes the second one."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    yield reading, writing
    os.close(reading)


def nobody_writes(reading: int) -> bool:
    """Return whether nobody has the other end of a pipe any more."""
    try:
        return os.read(reading, 1) == b""
    except BlockingIOError:
        return False


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"[" * 4000, b'{"host": 1, "device": 2}', b"\xff"])
def test_other_messages_are_refused_and_their_descriptors_closed(
    pair: tuple[socket.socket, socket.socket], pipe: tuple[int, int], data: bytes
) -> None:
    (program, lab), (reading, writing) = pair, pipe
    if data:
        socket.send_fds(program, [data], [writing, writing])
        assert not nobody_writes(reading)
    else:
        program.close()
    os.close(writing)
    with pytest.raises(EntryError):
        receive_arrival(lab)
    assert nobody_writes(reading)


def test_other_descriptors_are_refused(
    pair: tuple[socket.socket, socket.socket], pipe: tuple[int, int]
) -> None:
    (program, lab), (reading, writing) = pair, pipe
    send_arrival(program, "h1", 5, writing, None)
    os.close(writing)
    with pytest.raises(EntryError, match="/dev/fuse"):
        receive_arrival(lab)
    assert nobody_writes(reading)
