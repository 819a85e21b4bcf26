"""Capture files: both formats, both byte orders, and files that were cut off."""

from __future__ import annotations

import io
import random
import struct
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import BinaryIO, cast

import pytest
from construct import FixedSized, GreedyBytes, GreedyRange, Int32ul, Struct, Switch, this
from hypothesis import given
from hypothesis import strategies as st
from scapy.utils import PcapNgWriter, PcapWriter

from hfi_sim.base.errors import WireError
from hfi_sim.wire.captures import (
    DLT_ETHERNET,
    DLT_USER0,
    ENHANCED_PACKET,
    INTERFACE,
    MAX_BLOCK,
    OURS,
    CapturedPacket,
    CaptureReader,
    PcapngWriter,
    enhanced_packet,
    interface_statistics,
    is_capture,
    pcap_header,
    pcap_record,
    read_capture,
)
from opavnic.observe.opa_scapy import OPA16B

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

    assert [packet[:3] for packet in read_capture(path.read_bytes())] == [packet[:3] for packet in EXPECTED]


@pytest.mark.parametrize("build", [pcap, pcapng])
def test_read_capture_cut_off_gives_whole_packets_then_says_where(build: Callable[[], bytes]) -> None:
    data = build()
    packets = read_capture(data[:-100])

    assert list(islice(packets, 2)) == EXPECTED[:2]
    with pytest.raises(WireError, match="at byte"):
        next(packets)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("magic", "unit_ns"), [(0xA1B2C3D4, 1000), (0xA1B23C4D, 1)])
def test_times_of_pcap_are_micro_or_nanoseconds(order: str, magic: int, unit_ns: int) -> None:
    data = struct.pack(order + "IHHIIII", magic, 2, 4, 0, 0, 65535, DLT_USER0)
    data += struct.pack(order + "IIII", 5, 7, 1, 9) + b"x"
    assert list(read_capture(data)) == [CapturedPacket(DLT_USER0, b"x", 9, 5 * 10**9 + 7 * unit_ns)]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(
    ("resolution", "time_ns"),
    [
        (None, 5_000_007_000),
        (6, 5_000_007_000),
        (9, 5_000_007),
        (3, 5_000_007 * 10**6),
        (12, 5_000),
        (0x80 | 10, 5_000_007 * 10**9 // 1024),
    ],
)
def test_times_names_and_comments_of_pcapng(order: str, resolution: int | None, time_ns: int) -> None:
    def option(code: int, value: bytes) -> bytes:
        return struct.pack(order + "HH", code, len(value)) + value + bytes(-len(value) % 4)

    resolved = b"" if resolution is None else option(9, bytes([resolution]))
    interface = struct.pack(order + "HHI", DLT_USER0, 0, 0) + option(2, b"h1->sw0") + resolved + bytes(4)
    packet = struct.pack(order + "IIIII", 0, 0, 5_000_007, 5, 9) + b"abcde\0\0\0" + option(1, b"lost")
    missed = struct.pack(order + "III", 0, 0, 0) + option(5, struct.pack(order + "Q", 70_000))
    section = struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1)
    simple = struct.pack(order + "I", 3) + b"xyz\0"
    blocks = [(0x0A0D0D0A, section), (1, interface), (6, packet), (5, missed), (3, simple)]
    data = b""
    for kind, body in blocks:
        size = struct.pack(order + "I", len(body) + 12)
        data += struct.pack(order + "I", kind) + size + body + size
    reader = CaptureReader(io.BytesIO(data))
    assert list(reader.packets()) == [
        CapturedPacket(DLT_USER0, b"abcde", 9, time_ns, "h1->sw0", "lost"),
        CapturedPacket(DLT_USER0, b"xyz", 3, 0, "h1->sw0"),
    ]
    assert reader.missed == 70_000


def test_missed_packets_of_all_interfaces_and_sections_are_added_up() -> None:
    def section(*missed: int) -> bytes:
        writer = PcapngWriter()
        data = writer.head() + b"".join(writer.interface(f"way {number}") for number in range(2))
        return data + b"".join(
            interface_statistics(number % 2, 0, 1 << 40, count) for number, count in enumerate(missed)
        )

    reader = CaptureReader(io.BytesIO(section(5, 7, 6) + section(100)))
    assert list(reader.packets()) == []
    assert reader.missed == 6 + 7 + 100


def test_statistics_that_are_too_short_are_refused() -> None:
    data = PcapngWriter().head() + struct.pack("<IIII", 5, 16, 0, 16)
    with pytest.raises(
        WireError, match=r"^pcapng block -> interface statistics -> time_high at byte 40: 4 bytes"
    ):
        list(CaptureReader(io.BytesIO(data)).packets())


@pytest.mark.parametrize("size", range(5))
def test_packet_that_was_cut_is_read_with_the_length_that_it_had(size: int) -> None:
    writer = PcapngWriter()
    data = writer.head() + writer.interface("h1->sw0", 4) + enhanced_packet(0, 7, b"abcd"[:size], 99, b"lost")
    assert list(read_capture(data)) == [CapturedPacket(DLT_USER0, b"abcd"[:size], 99, 7, "h1->sw0", "lost")]


@given(
    st.lists(st.tuples(st.binary(max_size=80), st.integers(0, 2**63 - 1), st.sampled_from("ab"), st.text()))
)
def test_pcapng_is_read_back_as_it_was_written(packets: list[tuple[bytes, int, str, str]]) -> None:
    writer = PcapngWriter(DLT_ETHERNET)
    data = writer.head() + b"".join(writer.packet(*packet) for packet in packets)
    assert [
        (packet.link_type, packet.data, packet.time_ns, packet.interface, packet.comment)
        for packet in read_capture(data)
    ] == [(DLT_ETHERNET, *packet) for packet in packets]


BODIES = {INTERFACE: OURS.interface.construct, ENHANCED_PACKET: OURS.enhanced.construct}
BODY = Struct("fixed" / Switch(this._.head.type, BODIES), "rest" / GreedyBytes)
BLOCK = Struct(
    "head" / OURS.block.construct, "body" / FixedSized(this.head.length - 12, BODY), "length" / Int32ul
)


@given(st.lists(st.tuples(st.binary(max_size=80), st.integers(0, 2**63 - 1), st.sampled_from("ab"))))
def test_blocks_are_what_their_constructs_say(packets: list[tuple[bytes, int, str]]) -> None:
    writer = PcapngWriter()
    data = writer.head() + b"".join(writer.packet(*packet) for packet in packets)
    blocks = GreedyRange(BLOCK).parse(data)
    assert GreedyRange(BLOCK).build(blocks) == data
    assert all(block.head.length == block.length for block in blocks)
    found = [block.body for block in blocks if block.head.type == ENHANCED_PACKET]
    assert [
        (body.rest[: body.fixed.captured], body.fixed.time_high << 32 | body.fixed.time_low) for body in found
    ] == [(packet, time_ns) for packet, time_ns, _ in packets]


def foreign_file(chance: random.Random) -> tuple[bytes, list[int], list[CapturedPacket]]:
    """Return a pcapng file as other programs write them, where its blocks end, and its packets."""
    data, ends, packets = b"", [0], []
    for _ in range(chance.randrange(1, 3)):
        order = chance.choice("<>")
        blocks = [(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1), None)]
        snaps = [chance.choice((0, 5, 6, 7, 64)) for _ in range(chance.randrange(1, 4))]
        blocks += [(1, struct.pack(order + "HHI", 147, 0, snap), None) for snap in snaps]
        for _ in range(chance.randrange(8)):
            whole = chance.randbytes(chance.randrange(12))
            interface = chance.randrange(len(snaps))
            is_simple = chance.random() < 0.4
            snap = snaps[0 if is_simple else interface]
            kept = whole[: snap or len(whole)]
            padded = kept + b"\xff" * (-len(kept) % 4)
            if is_simple:
                body = struct.pack(order + "I", len(whole)) + padded
                blocks.append((3, body, CapturedPacket(147, kept, len(whole))))
            else:
                body = struct.pack(order + "IIIII", interface, 0, 0, len(kept), len(whole)) + padded
                blocks.append((6, body, CapturedPacket(147, kept, len(whole))))
            if chance.random() < 0.2:
                blocks.append((0xBAD, chance.randbytes(8), None))
        for kind, body, packet in blocks:
            size = struct.pack(order + "I", len(body) + 12)
            data += struct.pack(order + "I", kind) + size + body + size
            ends.append(len(data))
            packets += [packet] if packet else []
    return data, ends, packets


@given(seed=st.integers(0, 1 << 32))
def test_packets_of_any_file_are_those_that_passed_and_a_cut_or_torn_one_is_none(seed: int) -> None:
    chance = random.Random(seed)
    data, ends, sent = foreign_file(chance)
    assert list(read_capture(data)) == sent
    if chance.random() < 0.5:
        end = chance.randrange(12, len(data))
        torn, whole = data[:end], end in ends
    else:  # a writer that was killed and another that went on behind what it left
        end = chance.choice(ends[1:])
        torn, whole = data[: end - 4] + data[end:], False
    found = []
    try:
        for packet in read_capture(torn):
            found.append(packet)
    except WireError:
        assert not whole
    else:
        assert whole
    assert found == sent[: len(found)]


@given(st.lists(st.tuples(st.binary(max_size=80), st.integers(0, 2**32 - 1), st.integers(0, 999_999))))
def test_pcap_is_read_back_as_it_was_written(packets: list[tuple[bytes, int, int]]) -> None:
    data = pcap_header(DLT_ETHERNET)
    expected = []
    for packet, seconds, microseconds in packets:
        time_ns = seconds * 10**9 + microseconds * 1000
        data += pcap_record(packet, time_ns)
        expected.append(CapturedPacket(DLT_ETHERNET, packet, len(packet), time_ns))
    assert list(read_capture(data)) == expected


@pytest.mark.parametrize("build", [pcap, pcapng])
def test_stream_is_read_as_it_grows(build: Callable[[], bytes]) -> None:
    """Whatever pieces a pipe hands over; a packet is there as soon as its last byte is."""

    class Pipe(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            nonlocal at
            at += 1
            return build()[at - 1 : at]

    at = 0
    packets = CaptureReader(cast(BinaryIO, Pipe())).packets()
    ends = []
    for packet, expected in zip(packets, EXPECTED, strict=False):
        assert packet == expected
        ends.append(at)
    assert ends[-1] == len(build())


def test_stream_with_a_block_that_is_too_long_is_not_kept_in_memory() -> None:
    data = pcap_header(DLT_ETHERNET) + struct.pack("<IIII", 0, 0, MAX_BLOCK + 1, MAX_BLOCK + 1)
    with pytest.raises(WireError, match="a packet of 1048577 bytes is longer than any can be"):
        list(CaptureReader(io.BytesIO(data)).packets())


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
