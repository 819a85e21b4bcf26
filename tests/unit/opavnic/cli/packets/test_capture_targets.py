"""The files that `opavnic capture -w` writes: one, or the last of many."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hfi_sim.wire.captures import PcapngWriter, enhanced_packet, read_capture
from opavnic.cli.packets.capture import FileTarget, PipeTarget
from opavnic.observe.capture_copy import CaptureCopy

WRITER = PcapngWriter()
HEAD = WRITER.head() + WRITER.interface("h1->sw0")


def numbers(data: bytes) -> list[int]:
    return [packet.time_ns for packet in read_capture(data)]


def test_ring_of_files_keeps_the_last_ones_and_names_them(tmp_path: Path) -> None:
    target = FileTarget(tmp_path / "last.pcapng", size=300, ring=3)
    copy = CaptureCopy(target)
    for number in range(40):
        copy.feed((HEAD if number == 0 else b"") + enhanced_packet(0, number, bytes(100), 100))
    target.close()
    assert [name.name for name in target.names] == [f"last_{number:05}.pcapng" for number in (38, 39, 40)]
    assert sorted(os.listdir(tmp_path)) == [name.name for name in target.names]
    assert [numbers(name.read_bytes()) for name in target.names] == [[37], [38], [39]]


def test_file_without_a_size_bears_its_own_name_and_takes_everything(tmp_path: Path) -> None:
    target = FileTarget(tmp_path / "all.pcapng")
    copy = CaptureCopy(target)
    copy.feed(HEAD)
    for number in range(40):
        copy.feed(enhanced_packet(0, number, bytes(100), 100))
    target.close()
    assert list(target.names) == [tmp_path / "all.pcapng"]
    assert numbers((tmp_path / "all.pcapng").read_bytes()) == list(range(40))


def test_pipe_gets_each_piece_at_once() -> None:
    reading, writing = os.pipe()
    copy = CaptureCopy(PipeTarget(writing))
    copy.feed(HEAD + enhanced_packet(0, 5, bytes(9), 9)[:20])
    assert os.read(reading, 1000) == HEAD
    copy.feed(enhanced_packet(0, 5, bytes(9), 9)[20:])
    assert numbers(HEAD + os.read(reading, 1000)) == [5]
    os.close(reading)
    with pytest.raises(BrokenPipeError):
        copy.feed(enhanced_packet(0, 6, bytes(9), 9))
    os.close(writing)


@pytest.mark.parametrize("name", ["", "/", "."])
def test_name_that_is_none_is_refused_as_a_directory(name: str) -> None:
    with pytest.raises(IsADirectoryError):
        FileTarget(Path(name), size=100)
