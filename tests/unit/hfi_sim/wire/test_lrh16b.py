"""The 16B header: its places are those of the document, and the readers of single fields find them."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given

from hfi_sim.wire import lrh16b
from hfi_sim.wire.lrh16b import Lrh16B, with_length_qw
from unit.hfi_sim.wire.wire_strategies import bits, headers

# The positions of the document's table, in bits from the start of the header.
DOCUMENT = [
    ("slid_low", 0, 20),
    ("length_qw", 20, 11),
    ("becn", 31, 1),
    ("dlid_low", 32, 20),
    ("sc", 52, 5),
    ("rc", 57, 3),
    ("fecn", 60, 1),
    ("l2", 61, 2),
    ("lt", 63, 1),
    ("l4", 64, 8),
    ("slid_high", 72, 4),
    ("dlid_high", 76, 4),
    ("pkey", 80, 16),
    ("entropy", 96, 16),
    ("age", 112, 8),
    ("reserved", 120, 8),
]

ALL_DIFFERENT = Lrh16B(
    slid=0x123456,
    dlid=0xFABCDE,
    length_qw=0x5A5,
    becn=True,
    sc=0x13,
    rc=5,
    fecn=False,
    l2=2,
    lt=1,
    l4=0x78,
    pkey=0x8002,
    entropy=0xBEEF,
    age=0x77,
    reserved=0x99,
)
ALL_DIFFERENT_BYTES = bytes.fromhex("563452dadebc3acb78f10280efbe7799")


def test_fields_stand_where_the_document_says() -> None:
    assert [(place.name, place.offset_bits, place.width_bits) for place in Lrh16B.HEADER.places] == DOCUMENT


def test_build_known_values_gives_known_bytes() -> None:
    assert ALL_DIFFERENT.build() == ALL_DIFFERENT_BYTES


def test_parse_known_bytes_gives_known_values() -> None:
    assert Lrh16B.parse(ALL_DIFFERENT_BYTES + b"payload") == ALL_DIFFERENT


@given(headers(length_qw=bits(11)))
def test_field_readers_any_header_agree_with_parse(header: Lrh16B) -> None:
    packet = header.build()

    assert lrh16b.slid_of(packet) == header.slid
    assert lrh16b.dlid_of(packet) == header.dlid
    assert lrh16b.length_qw_of(packet) == header.length_qw
    assert lrh16b.is_16b(packet) == (header.l2 == lrh16b.L2_16B)
    assert lrh16b.sc_of(packet) == header.sc
    assert lrh16b.l4_of(packet) == header.l4
    assert lrh16b.pkey_of(packet) == header.pkey
    assert lrh16b.entropy_of(packet) == header.entropy
    marked = lrh16b.with_becn(lrh16b.with_fecn(packet))
    assert Lrh16B.parse(marked) == replace(header, fecn=True, becn=True)


def test_header_default_is_a_16b_head_flit() -> None:
    header = Lrh16B(5, 7)

    assert (header.l2, header.lt, header.pkey) == (2, 1, 0xFFFF)
    assert header.build()[7] >> 5 == 0b110


@given(headers(), bits(11))
def test_another_length_changes_no_other_field(header: Lrh16B, length_qw: int) -> None:
    assert with_length_qw(header.build(), length_qw) == replace(header, length_qw=length_qw).build()
