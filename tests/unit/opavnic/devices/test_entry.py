"""What a program says to have devices: only /dev/fuse and a filter's listener are accepted, and nothing stays open."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from opavnic.devices.entry import EntryError, receive_arrival, send_arrival


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        yield ours, theirs


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"[" * 4000, b'{"host": 1, "device": 2}', b"\xff"])
def test_other_messages_are_refused_and_their_descriptors_closed(
    pair: tuple[socket.socket, socket.socket], data: bytes
) -> None:
    program, lab = pair
    if data:
        socket.send_fds(program, [data], [0, 1])
    else:
        program.close()
    before = open_descriptors()
    with pytest.raises(EntryError):
        receive_arrival(lab)
    assert open_descriptors() == before


def test_other_descriptors_are_refused(pair: tuple[socket.socket, socket.socket]) -> None:
    program, lab = pair
    null = os.open("/dev/null", os.O_RDWR)
    send_arrival(program, "h1", 5, null, None)
    os.close(null)
    before = open_descriptors()
    with pytest.raises(EntryError, match="/dev/fuse"):
        receive_arrival(lab)
    assert open_descriptors() == before
