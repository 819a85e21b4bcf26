"""The 16B header: the declaration and the fast codec say the same."""

from __future__ import annotations

import pytest
from hypothesis import given

from hfi_sim.errors import WireError
from hfi_sim.wire import lrh16b
from hfi_sim.wire.layout import layout_fields
from hfi_sim.wire.lrh16b import Lrh16B
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


def as_declared(header: Lrh16B) -> dict[str, int]:
    """The header's values under the names of the declaration."""
    values = {name: int(getattr(header, name)) for name in Lrh16B.__dataclass_fields__}
    slid, dlid = values.pop("slid"), values.pop("dlid")
    split = {"slid_low": slid & 0xFFFFF, "slid_high": slid >> 20}
    return values | split | {"dlid_low": dlid & 0xFFFFF, "dlid_high": dlid >> 20}


def test_layout_fields_stand_where_the_document_says() -> None:
    assert [(f.name, f.offset_bits, f.width_bits) for f in layout_fields(lrh16b.LAYOUT)] == DOCUMENT
    assert lrh16b.LAYOUT.sizeof() == lrh16b.SIZE


def test_build_known_values_gives_known_bytes() -> None:
    assert ALL_DIFFERENT.build() == ALL_DIFFERENT_BYTES


def test_parse_known_bytes_gives_known_values() -> None:
    assert Lrh16B.parse(ALL_DIFFERENT_BYTES + b"payload") == ALL_DIFFERENT


@given(headers(length_qw=bits(11), l2=bits(2), lt=bits(1)))
def test_build_any_header_equals_the_declaration(header: Lrh16B) -> None:
    built = header.build()

    assert built == lrh16b.LAYOUT.build(as_declared(header))
    parsed = lrh16b.LAYOUT.parse(built)
    assert {name: parsed[name] for name, _, _ in DOCUMENT} == as_declared(header)
    assert Lrh16B.parse(built) == header


@given(headers(length_qw=bits(11)))
def test_field_readers_any_header_agree_with_parse(header: Lrh16B) -> None:
    packet = header.build()

    assert lrh16b.slid_of(packet) == header.slid
    assert lrh16b.dlid_of(packet) == header.dlid
    assert lrh16b.length_qw_of(packet) == header.length_qw
    assert lrh16b.sc_of(packet) == header.sc
    assert lrh16b.l2_of(packet) == header.l2
    assert lrh16b.l4_of(packet) == header.l4
    assert lrh16b.pkey_of(packet) == header.pkey


@pytest.mark.parametrize("size", range(lrh16b.SIZE))
def test_parse_truncated_says_where_and_what_is_needed(size: int) -> None:
    with pytest.raises(WireError, match=f"lrh16b at byte {size}: {size} bytes, the 16B header needs 16"):
        Lrh16B.parse(bytes(size))


@pytest.mark.parametrize(
    ("field", "value", "width"),
    [
        ("slid", 1 << 24, 24),
        ("dlid", -1, 24),
        ("length_qw", 2048, 11),
        ("sc", 32, 5),
        ("rc", 8, 3),
        ("l2", 4, 2),
        ("lt", 2, 1),
        ("l4", 256, 8),
        ("pkey", 0x10000, 16),
        ("entropy", 0x10000, 16),
        ("age", 256, 8),
        ("reserved", 256, 8),
    ],
)
def test_build_value_too_wide_names_field_value_and_width(field: str, value: int, width: int) -> None:
    header = Lrh16B(**({"slid": 1, "dlid": 2} | {field: value}))

    with pytest.raises(ValueError, match=f"{field} {value:#x} does not fit {width} bits"):
        header.build()


def test_layout_value_too_wide_is_refused() -> None:
    with pytest.raises(Exception, match="0x20 does not fit 5 bits"):
        lrh16b.LAYOUT.build(as_declared(ALL_DIFFERENT) | {"sc": 32})


def test_header_default_is_a_16b_head_flit() -> None:
    header = Lrh16B(5, 7)

    assert (header.l2, header.lt, header.pkey) == (2, 1, 0xFFFF)
    assert header.build()[7] >> 5 == 0b110
