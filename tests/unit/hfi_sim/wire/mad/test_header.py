"""The MAD header, and MADs inside 16B packets."""

from __future__ import annotations

import pytest

from hfi_sim.base.errors import WireError
from hfi_sim.wire.icrc import Icrc
from hfi_sim.wire.lrh16b import FmHeader
from hfi_sim.wire.mad.fm_packet import build_fm_packet, parse_fm_payload
from hfi_sim.wire.mad.header import (
    DATA_OFFSET_VENDOR,
    MAD_SIZE,
    MAD_SIZE_IB,
    MadClass,
    MadHeader,
    Method,
    RmppHeader,
    VendorHeader,
    is_vendor_class,
    oui_of,
)
from hfi_sim.wire.packet import Packet16B, check_packet, strip

ICRC = Icrc()
EMA_GET = MadHeader(
    mgmt_class=MadClass.EMA, method=Method.GET, tid=0x0102030405060708, attr_id=0x11, attr_mod=3
)
EMA_GET_BYTES = bytes.fromhex("80348001 00000000 0102030405060708 00110000 00000003")


def test_known_values_and_known_bytes_are_each_others() -> None:
    assert EMA_GET.build() == EMA_GET_BYTES
    assert MadHeader.parse(EMA_GET_BYTES + bytes(2024)) == EMA_GET
    assert (MadHeader.SIZE, RmppHeader.SIZE, VendorHeader.SIZE, DATA_OFFSET_VENDOR) == (24, 12, 4, 40)


def test_oui_of_vendor_mad_is_bytes_37_to_39() -> None:
    mad = bytes(range(64))

    assert oui_of(mad) == bytes([37, 38, 39])
    with pytest.raises(WireError, match="oui"):
        oui_of(mad[:39])


@pytest.mark.parametrize(
    ("mgmt_class", "vendor"),
    [(0x2F, False), (0x30, True), (0x34, True), (0x4F, True), (0x50, False), (0x81, False)],
)
def test_is_vendor_class_at_the_limits(mgmt_class: int, vendor: bool) -> None:
    assert is_vendor_class(mgmt_class) is vendor


@pytest.mark.parametrize("mad_len", [24, 272, MAD_SIZE])
def test_build_fm_packet_opa_mad_travels_as_long_as_it_is(mad_len: int) -> None:
    mad = EMA_GET_BYTES + b"\x5a" * (mad_len - 24)

    packet = build_fm_packet(5, 7, 3, 0x7FFF, 1, 0, mad, ICRC)

    parsed = Packet16B.parse(packet)
    assert check_packet(packet, ICRC) is None
    assert (len(packet), parsed.lrh.length_qw, parsed.pad_count) == (mad_len + 32, mad_len // 8 + 4, 3)
    assert (parsed.lrh.slid, parsed.lrh.dlid, parsed.lrh.sc, parsed.lrh.pkey) == (5, 7, 3, 0x7FFF)
    assert parse_fm_payload(strip(packet)) == (FmHeader(dest_qp=0, src_qp=1), mad)


@pytest.mark.parametrize(
    ("sent", "size"), [(24, MAD_SIZE_IB), (MAD_SIZE_IB, MAD_SIZE_IB), (MAD_SIZE, MAD_SIZE)]
)
def test_build_fm_packet_ib_mad_has_at_least_256_bytes(sent: int, size: int) -> None:
    mad = (b"\x01" + bytes(23)).ljust(sent, b"\x5a")

    packet = build_fm_packet(5, 7, 0, 0xFFFF, 1, 1, mad, ICRC)

    assert (len(packet), packet[-1] & 7) == (size + 32, 3)
    assert parse_fm_payload(strip(packet))[1] == mad.ljust(size, b"\0")


@pytest.mark.parametrize("mad", [b"", bytes(23), bytes(2049), b"\x01" + bytes(2048)])
def test_build_fm_packet_impossible_mad_is_refused(mad: bytes) -> None:
    with pytest.raises(ValueError, match=f"MAD of {len(mad)} bytes"):
        build_fm_packet(5, 7, 0, 0xFFFF, 1, 1, mad, ICRC)


@pytest.mark.parametrize("size", [*range(32), 8 + MAD_SIZE + 1])
def test_parse_fm_payload_of_impossible_length_raises_wire_error(size: int) -> None:
    with pytest.raises(WireError):
        parse_fm_payload(bytes(size))
