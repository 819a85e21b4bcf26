"""Whole packets: padding, Length, tail, and the checks of a receiving port."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfi_sim.base.counters import Drop
from hfi_sim.base.errors import WireError
from hfi_sim.wire.icrc import Icrc
from hfi_sim.wire.lrh16b import L4, EthernetL4, Lrh16B, with_length_qw
from hfi_sim.wire.packet import (
    MAX_PACKET,
    MAX_PAYLOAD,
    MIN_PACKET,
    Packet16B,
    Trailer,
    build_packet,
    check_packet,
    pad_count,
    seal_packet,
    strip,
    wire_length_qw,
)
from unit.hfi_sim.wire.wire_strategies import PAYLOADS, bits, headers

ICRC = Icrc()


def vnic_packet(frame_len: int = 60, **header: int) -> bytes:
    """A whole VNIC packet with a frame of `frame_len` bytes."""
    lrh = Lrh16B(**{"slid": 5, "dlid": 7, "l4": L4.ETHERNET, **header})
    frame = bytes(at & 0xFF for at in range(frame_len))
    return build_packet(lrh, EthernetL4(2).build() + frame, ICRC)


# What the driver writes for Ethernet frames of these lengths: the spec's table of Length.
@pytest.mark.parametrize(
    ("frame_len", "length_qw"), [(60, 11), (61, 11), (63, 11), (64, 12), (71, 12), (1514, 193), (10018, 1256)]
)
def test_wire_length_of_vnic_frames_is_the_drivers(frame_len: int, length_qw: int) -> None:
    packet = vnic_packet(frame_len)

    assert wire_length_qw(20 + frame_len) == length_qw
    assert len(packet) == length_qw * 8
    assert Packet16B.parse(packet).lrh.length_qw == length_qw


def test_pad_count_of_a_full_frame_is_five() -> None:
    assert pad_count(20 + 1514) == 5
    assert vnic_packet(1514)[-1] == 0x45


@given(headers(), PAYLOADS)
def test_build_packet_any_content_round_trips(lrh: Lrh16B, payload: bytes) -> None:
    packet = build_packet(lrh, payload, ICRC)

    parsed = Packet16B.parse(packet)
    assert parsed.payload == payload
    assert parsed.lrh == replace(lrh, length_qw=len(packet) // 8)
    assert parsed.pad == bytes(parsed.pad_count)
    assert parsed.tail == 0x40 | parsed.pad_count
    assert parsed.build() == packet
    assert strip(packet) == payload
    assert check_packet(packet, ICRC) is None


@given(headers(), PAYLOADS)
def test_seal_packet_of_a_built_header_equals_build_packet(lrh: Lrh16B, payload: bytes) -> None:
    length_qw = wire_length_qw(16 + len(payload))

    sealed = seal_packet(with_length_qw(lrh.build(), length_qw) + payload, ICRC)

    assert sealed == build_packet(lrh, payload, ICRC)


@pytest.mark.parametrize("size", [0, 1, 2, 3, MAX_PAYLOAD - 1, MAX_PAYLOAD])
def test_build_packet_at_the_limits_is_accepted(size: int) -> None:
    packet = build_packet(Lrh16B(5, 7, l4=0x55), bytes(size), ICRC)

    assert MIN_PACKET <= len(packet) <= MAX_PACKET
    assert check_packet(packet, ICRC) is None
    assert strip(packet) == bytes(size)


def test_build_packet_too_long_says_the_limit() -> None:
    with pytest.raises(ValueError, match=f"{MAX_PAYLOAD + 1} bytes is longer than .* {MAX_PAYLOAD}"):
        build_packet(Lrh16B(5, 7), bytes(MAX_PAYLOAD + 1), ICRC)


@pytest.mark.parametrize("frame_len", [60, 64, 1514])
def test_check_packet_truncated_at_every_length_is_dropped(frame_len: int) -> None:
    packet = vnic_packet(frame_len)

    drops = [check_packet(packet[:size], ICRC) for size in range(len(packet))]

    assert drops[:MIN_PACKET] == [Drop.RX_TRUNCATED] * MIN_PACKET
    assert set(drops[MIN_PACKET:]) == {Drop.RX_LENGTH}


@pytest.mark.parametrize("frame_len", [60, 64, 1514])
def test_parse_packet_truncated_at_every_length_raises(frame_len: int) -> None:
    packet = vnic_packet(frame_len)

    for size in range(len(packet)):
        with pytest.raises(WireError):
            Packet16B.parse(packet[:size])


def test_check_packet_longer_than_length_is_dropped() -> None:
    assert check_packet(vnic_packet() + bytes(8), ICRC) is Drop.RX_LENGTH


@pytest.mark.parametrize("header", [{"l2": 0}, {"l2": 1}, {"l2": 3, "lt": 0}, {"lt": 0}])
def test_check_packet_wrong_l2_or_lt_is_dropped(header: dict[str, int]) -> None:
    packet = vnic_packet(**header)

    assert check_packet(packet, ICRC) is Drop.RX_L2
    with pytest.raises(WireError, match=next(iter(header))):
        Packet16B.parse(packet)


@pytest.mark.parametrize("bit", [3, 4, 5, 7])
def test_check_packet_impossible_tail_is_dropped(bit: int) -> None:
    packet = bytearray(vnic_packet())
    packet[-1] ^= 1 << bit

    assert check_packet(packet, ICRC) is Drop.RX_LENGTH
    with pytest.raises(WireError, match="tail at byte 87: last byte is"):
        Packet16B.parse(packet)


def test_check_packet_tail_without_lt_is_accepted() -> None:
    packet = bytearray(vnic_packet(64))
    packet[-1] &= 0x07

    assert check_packet(packet, ICRC) is None
    assert strip(bytes(packet)) == strip(vnic_packet(64))


@given(st.integers(60, 80), st.integers(0, 7))
def test_check_packet_another_pad_count_is_noticed(frame_len: int, count: int) -> None:
    packet = bytearray(vnic_packet(frame_len))
    original = packet[-1] & 7
    packet[-1] = 0x40 | count

    assert check_packet(packet, ICRC) is (None if count == original else Drop.RX_ICRC)


@pytest.mark.parametrize(("l4", "needed"), [(L4.ETHERNET, 4), (L4.FM, 8), (0x55, 0)])
def test_check_packet_no_room_for_the_l4_header_is_dropped(l4: int, needed: int) -> None:
    for size in range(needed):
        packet = build_packet(Lrh16B(5, 7, l4=l4), bytes(size), ICRC)
        assert check_packet(packet, ICRC) is Drop.RX_LENGTH
        with pytest.raises(WireError, match=f"leaves {size} bytes of payload, L4 {l4:#04x} needs {needed}"):
            Packet16B.parse(packet)
    assert check_packet(build_packet(Lrh16B(5, 7, l4=l4), bytes(needed), ICRC), ICRC) is None


def test_check_packet_pad_longer_than_the_payload_is_dropped() -> None:
    packet = bytearray(build_packet(Lrh16B(5, 7, l4=0x55), b"", ICRC))
    packet[-1] = 0x44

    assert check_packet(packet, None) is Drop.RX_LENGTH


def test_check_packet_damaged_payload_is_dropped_for_its_icrc() -> None:
    packet = bytearray(vnic_packet())
    packet[40] ^= 0x10

    assert check_packet(packet, ICRC) is Drop.RX_ICRC
    assert check_packet(packet, None) is None


@given(headers(), PAYLOADS, st.data())
def test_check_packet_any_single_bit_damage_is_dropped_or_harmless(
    lrh: Lrh16B, payload: bytes, data: st.DataObject
) -> None:
    packet = build_packet(lrh, payload, ICRC)
    bit = data.draw(st.integers(0, len(packet) * 8 - 1))
    damaged = bytearray(packet)
    damaged[bit // 8] ^= 1 << bit % 8

    if check_packet(damaged, ICRC) is None:
        before, after = Packet16B.parse(packet), Packet16B.parse(damaged)
        lrh_after = replace(after.lrh, sc=lrh.sc, becn=lrh.becn, fecn=lrh.fecn, age=lrh.age)
        assert (after.payload, lrh_after) == (before.payload, before.lrh)


@given(bits(24), bits(24))
def test_parse_packet_length_that_disagrees_names_both(slid: int, dlid: int) -> None:
    packet = build_packet(Lrh16B(slid, dlid, l4=L4.ETHERNET), bytes(64), ICRC) + bytes(8)

    with pytest.raises(WireError, match="Length says 11 quad words, 88 bytes, but there are 96"):
        Packet16B.parse(packet)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_check_and_parse_any_bytes_type_agree(kind: type) -> None:
    packet = vnic_packet(1514)

    assert check_packet(kind(packet), ICRC) is None
    assert Packet16B.parse(kind(packet)) == Packet16B.parse(packet)


@given(headers(), PAYLOADS)
def test_trailer_reads_what_build_packet_wrote(lrh: Lrh16B, payload: bytes) -> None:
    packet = build_packet(lrh, payload, ICRC)

    trailer = Trailer.parse(packet[-5:])

    assert (trailer.icrc, trailer.tail, trailer.lt) == (Packet16B.parse(packet).icrc, packet[-1] & 7, 1)
    assert trailer.build() == packet[-5:]
