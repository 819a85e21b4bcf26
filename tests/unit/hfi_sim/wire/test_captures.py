"""Capture files: both formats, both byte orders, and files that were cut off."""

from __future__ import annotations

import struct
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.utils import PcapNgWriter, PcapWriter

from hfi_sim.errors import WireError
from hfi_sim.wire.captures import DLT_USER0, CapturedPacket, is_capture, read_capture
from hfi_sim.wire.layers import OPA16B

PACKETS = [bytes(OPA16B(slid=5, dlid=7, l4=0x55) / bytes(size)) for size in (3, 64, 1500)]
EXPECTED = [CapturedPacket(DLT_USER0, packet, len(packet)) for packet in PACKETS]


def pcap(order: str = "<") -> bytes:
    """A pcap file with the packets."""
    records = (struct.pack(order + "IIII", 0, 0, len(packet), len(packet)) + packet for packet in PACKETS)
    return struct.pack(order + "IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, DLT_USER0) + b"".join(records)


def pcapng(order: str = "<") -> bytes:
    """A pcapng file with the packets in enhanced packet blocks."""

    def block(kind: int, body: bytes) -> bytes:
        size = struct.pack(order + "I", len(body) + 12)
        return struct.pack(order + "I", kind) + size + body + size

    blocks = [
        block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1)),
        block(1, struct.pack(order + "HHI", DLT_USER0, 0, 0)),
        block(0x99, b"what it is: "),
    ]
    for packet in PACKETS:
        head = struct.pack(order + "IIIII", 0, 0, 0, len(packet), len(packet))
        blocks.append(block(6, head + packet + bytes(-len(packet) % 4)))
    return b"".join(blocks)


@pytest.mark.parametrize("order", ["<", ">"])
def test_read_capture_either_format_and_byte_order_gives_the_packets(order: str) -> None:
    for data in (pcap(order), pcapng(order)):
        assert is_capture(data)
        assert list(read_capture(data)) == EXPECTED


@pytest.mark.parametrize("writer", [PcapWriter, PcapNgWriter])
def test_read_capture_file_written_by_scapy_gives_the_packets(tmp_path: Path, writer: type) -> None:
    path = tmp_path / "capture"
    with writer(str(path)) as capture:
        for packet in PACKETS:
            capture.write(OPA16B(packet))

    assert list(read_capture(path.read_bytes())) == EXPECTED


@pytest.mark.parametrize("build", [pcap, pcapng])
def test_read_capture_cut_off_gives_whole_packets_then_says_where(build: Callable[[], bytes]) -> None:
    data = build()
    packets = read_capture(data[:-100])

    assert list(islice(packets, 2)) == EXPECTED[:2]
    with pytest.raises(WireError, match="at byte"):
        next(packets)


def test_read_capture_other_file_is_refused() -> None:
    assert not is_capture(PACKETS[0])
    with pytest.raises(WireError, match="neither a pcap nor a pcapng"):
        read_capture(PACKETS[0])


@given(st.sampled_from([pcap(), pcapng(">")]), st.data())
def test_read_capture_damaged_gives_packets_or_wire_error(whole: bytes, data: st.DataObject) -> None:
    damaged = bytearray(whole[: data.draw(st.integers(4, len(whole)))])
    for at in data.draw(st.lists(st.integers(4, max(4, min(len(damaged) - 1, 200))), max_size=4)):
        if at < len(damaged):
            damaged[at] = data.draw(st.integers(0, 255))

    try:
        packets = list(read_capture(bytes(damaged)))
    except WireError:
        return
    assert all(isinstance(packet, CapturedPacket) for packet in packets)
