"""The ICRC: what it covers, and that the fast function is the defined one."""

from __future__ import annotations

import subprocess
import sys
import zlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfi_sim.wire.icrc import IBA_POLYNOMIAL, Icrc, define_crc32, load_fast_crc32
from hfi_sim.wire.lrh16b import Lrh16B
from hfi_sim.wire.packet import Packet16B, build_packet
from unit.hfi_sim.wire.wire_strategies import PAYLOADS, bits, headers

CASTAGNOLI = 0x1EDC6F41
HEADER_ONES = bytes.fromhex("00000080 0000f011 00000000 0000ff00")
"""The bits that may change on the way: BECN, SC, FECN, age."""


def by_definition(packet: bytes) -> int:
    """The ICRC of a whole packet, written down as the documentation words it."""
    masked = bytes(byte | ones for byte, ones in zip(packet[:16], HEADER_ONES, strict=True))
    return zlib.crc32(masked + packet[16:-5] + bytes([packet[-1] & 7]))


@given(st.binary(max_size=2000))
def test_crc32_iba_polynomial_equals_the_crcmod_definition(data: bytes) -> None:
    defined = define_crc32(IBA_POLYNOMIAL)

    assert defined(data, 0) == zlib.crc32(data)
    assert defined(data[7:], defined(data[:7], 0)) == zlib.crc32(data)


def test_crc32_other_polynomial_gives_its_published_check_value() -> None:
    assert define_crc32(CASTAGNOLI)(b"123456789", 0) == 0xE3069283
    assert define_crc32(IBA_POLYNOMIAL)(b"123456789", 0) == 0xCBF43926


@given(headers(), PAYLOADS)
def test_build_packet_any_content_carries_the_defined_icrc(lrh: Lrh16B, payload: bytes) -> None:
    packet = build_packet(lrh, payload, Icrc())

    assert packet[-5:-1] == by_definition(packet).to_bytes(4, "little")
    assert Icrc().compute(packet[:-5], packet[-1] & 7) == by_definition(packet)


@given(headers(), PAYLOADS, bits(5), st.booleans(), st.booleans(), bits(8))
def test_check_variable_fields_changed_on_the_way_still_matches(
    lrh: Lrh16B, payload: bytes, sc: int, fecn: bool, becn: bool, age: int
) -> None:
    packet = build_packet(lrh, payload, Icrc())
    sent = Packet16B.parse(packet)

    changed = replace(sent, lrh=replace(sent.lrh, sc=sc, fecn=fecn, becn=becn, age=age)).build()

    assert Icrc().check(changed)


@given(headers(), PAYLOADS, st.data())
def test_check_any_covered_bit_flipped_fails(lrh: Lrh16B, payload: bytes, data: st.DataObject) -> None:
    packet = bytearray(build_packet(lrh, payload, Icrc()))
    variable = {at * 8 + bit for at, ones in enumerate(HEADER_ONES) for bit in range(8) if ones >> bit & 1}
    uncovered_tail = {(len(packet) - 1) * 8 + bit for bit in range(3, 8)}
    covered = [bit for bit in range(len(packet) * 8) if bit not in variable | uncovered_tail]

    flipped = data.draw(st.sampled_from(covered))
    packet[flipped // 8] ^= 1 << flipped % 8

    assert not Icrc().check(packet)


@given(headers(), PAYLOADS)
def test_polynomial_other_than_iba_is_used_for_build_and_check(lrh: Lrh16B, payload: bytes) -> None:
    castagnoli = Icrc(CASTAGNOLI)

    packet = build_packet(lrh, payload, castagnoli)

    assert castagnoli.check(packet)
    assert not Icrc().check(packet)


@pytest.mark.parametrize("polynomial", [0, -1, 1 << 32, 0x04C11DB6])
def test_polynomial_out_of_range_is_refused(polynomial: int) -> None:
    with pytest.raises(ValueError, match="ICRC polynomial"):
        Icrc(polynomial)


@pytest.mark.parametrize(("size", "count"), [(15, 0), (16, 8), (16, -1)])
def test_compute_impossible_packet_is_refused(size: int, count: int) -> None:
    with pytest.raises(ValueError, match=f"{size} bytes with pad count {count}"):
        Icrc().compute(bytes(size), count)


@pytest.mark.parametrize("size", range(21))
def test_check_too_short_is_false(size: int) -> None:
    assert not Icrc().check(bytes(size))


def test_backend_without_isal_is_zlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "isal", None)

    assert load_fast_crc32() == ("zlib", zlib.crc32)


def test_datapath_modules_do_not_import_scapy() -> None:
    # scapy is for people and tests; it is slow to load, and the datapath must not need it.
    program = (
        "import sys, hfi_sim.wire.packet, hfi_sim.wire.mad.header, opavnic.decode.describe,"
        "opavnic.cli.packets.decode;"
        "sys.exit('scapy' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == 0
