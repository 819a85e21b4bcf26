"""A capture that is copied to files: whole blocks whatever pieces it comes in, and each file of a ring by itself."""

from __future__ import annotations

import struct
from itertools import chain, pairwise

from hypothesis import given
from hypothesis import strategies as st

from hfi_sim.base.errors import WireError
from hfi_sim.wire.captures import (
    PcapngWriter,
    enhanced_packet,
    interface_statistics,
    read_capture,
)
from native_module import needs_native
from opavnic.datapath.selection import load_native
from opavnic.observe.capture_copy import CaptureCopy, Target, packet_blocks

WRITER = PcapngWriter()
HEAD = WRITER.head() + WRITER.interface("h1->sw0") + WRITER.interface("sw0->h1")
SIZES = [0, 1, 64, 500, 3, 128, 128, 1000, 40, 7]
BLOCKS = [
    enhanced_packet(number % 2, number, bytes([number]) * size, size, b"lost" * (number % 3 == 0))
    for number, size in enumerate(SIZES)
]
STREAM = HEAD + b"".join(BLOCKS) + interface_statistics(1, 9, 20, 8) + interface_statistics(0, 9, 20, 3)


class Memory(Target):
    """Files in memory."""

    def __init__(self, size: int | None = None) -> None:
        self.files = [b""]
        self._size = size

    def write(self, data: memoryview) -> None:
        self.files[-1] += data

    def room(self) -> int | None:
        return None if self._size is None else max(0, self._size - len(self.files[-1]))

    def next(self, head: bytes) -> None:
        self.files.append(head)

    def close(self) -> None:
        pass


def pieces(cuts: list[int], data: bytes = STREAM) -> list[bytes]:
    ends = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    return [data[start:end] for start, end in pairwise(ends)]


def numbers(data: bytes) -> list[int]:
    return [packet.time_ns for packet in read_capture(data)]


@given(st.lists(st.integers(0, len(STREAM))))
def test_copy_is_the_stream_whatever_pieces_it_comes_in(cuts: list[int]) -> None:
    target = Memory()
    copy = CaptureCopy(target)
    for piece in pieces(cuts):
        copy.feed(piece)
    assert target.files == [STREAM]
    assert (copy.packets, copy.missed) == (len(SIZES), 11)


@given(st.lists(st.integers(0, len(STREAM))), st.integers(len(HEAD), len(STREAM)))
def test_copy_of_a_stream_that_breaks_off_has_the_whole_packets(cuts: list[int], end: int) -> None:
    target = Memory()
    copy = CaptureCopy(target)
    for piece in pieces(cuts, STREAM[:end]):
        copy.feed(piece)
    assert STREAM.startswith(target.files[0])
    assert numbers(target.files[0]) == list(range(copy.packets))
    assert copy.packets == sum(end >= len(HEAD + b"".join(BLOCKS[: n + 1])) for n in range(len(BLOCKS)))


@given(st.lists(st.integers(0, len(STREAM))), st.integers(1, 3000))
def test_each_file_of_a_ring_can_be_read_by_itself_and_none_is_too_long(cuts: list[int], size: int) -> None:
    target = Memory(size)
    copy = CaptureCopy(target)
    for piece in pieces(cuts, HEAD + b"".join(BLOCKS)):
        copy.feed(piece)
    found = [numbers(file) for file in target.files]
    assert list(chain(*found)) == list(range(len(SIZES)))
    for file, inside in zip(target.files, found, strict=True):
        assert file.startswith(HEAD)
        assert len(file) <= size or len(inside) == 1
        assert {packet.interface for packet in read_capture(file)} <= {"h1->sw0", "sw0->h1"}


@given(st.binary(max_size=300), st.integers(0, len(STREAM)))
def test_any_bytes_are_copied_or_refused(junk: bytes, at: int) -> None:
    copy = CaptureCopy(Memory(400))
    try:
        for piece in (STREAM[:at] + junk, STREAM[at:]):
            copy.feed(piece)
    except WireError:
        pass
    assert copy.missed >= 0


@needs_native
@given(
    st.lists(st.sampled_from([*BLOCKS, HEAD, BLOCKS[3][:17], struct.pack("<II", 6, 0)])),
    st.binary(max_size=12),
    st.integers(0, 3000),
    st.integers(0, 5000),
)
def test_native_module_counts_packets_alike(blocks: list[bytes], end: bytes, at: int, room: int) -> None:
    native = load_native()
    assert native is not None
    data = b"".join(blocks) + end
    assert native.packet_blocks(data, at, room) == packet_blocks(data, at, room)
