"""How declarations place fields, and what both codecs make of every kind of field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import pytest

from hfi_sim.base.errors import WireError
from hfi_sim.wire.field import BYTES, FLAG, HEX, MAC, Code, Field, Order
from hfi_sim.wire.header import Header, WireHeader, declared, structure


def header(order: Order = "big", **fields: Field) -> Header:
    """A header of these fields."""
    return Header("x", "X header", order, fields, source="", module=__name__)


@declared("entry", "entry", "big")
@dataclass(frozen=True, slots=True)
class Entry(WireHeader):
    """A record within another one."""

    mac: Annotated[bytes, Field(48, "address", MAC)]
    lid: Annotated[int, Field(16, "where it is", HEX)] = 7


@declared("mixed", "mixed header", "big")
@dataclass(frozen=True, slots=True, kw_only=True)
class Mixed(WireHeader):
    """Every kind of field of whole bytes."""

    delta: Annotated[int, Field(32, "signed", signed=True)]
    three: Annotated[int, Field(24, "of an odd width")] = 0
    raw: Annotated[bytes, Field(16, "bytes", BYTES)] = b"\1\2"
    items: Annotated[tuple[int, ...], Field(16, "numbers", count=3)] = (1, 2, 3)
    entries: Annotated[tuple[Any, ...], Field(64, "records", count=2, record=Entry.HEADER)]


ENTRIES = ({"mac": b"abcdef", "lid": 1}, {"mac": b"ghijkl", "lid": 2})
MIXED = Mixed(delta=-2, three=0x10203, entries=ENTRIES)
MIXED_BYTES = bytes.fromhex("fffffffe 010203 0102 0001 0002 0003") + b"abcdef\0\1ghijkl\0\2"


def test_fields_follow_each_other_and_leave_claimed_bits_to_those_that_claim_them() -> None:
    made = header(
        "little",
        lid=Field(12, "", split=((0, 8), (20, 4))),
        a=Field(4, ""),
        b=Field(8, ""),
        late=Field(8, "", at=24),
    )

    places = [(place.name, place.offset_bits, place.width_bits) for place in made.places]
    assert places == [("lid_low", 0, 8), ("a", 8, 4), ("b", 12, 8), ("lid_high", 20, 4), ("late", 24, 8)]
    assert made.write({"lid": 0xABC, "a": 1, "b": 0x23, "late": 0x45}) == bytes.fromhex("bc31a245")
    assert made.read(bytes.fromhex("bc31a245")) == {"lid": 0xABC, "a": 1, "b": 0x23, "late": 0x45}


def test_bits_of_a_big_endian_header_count_from_the_most_significant() -> None:
    made = header(a=Field(4, ""), flag=Field(1, "", FLAG), b=Field(11, ""))

    assert made.write({"a": 0xA, "flag": True, "b": 0x123}) == bytes.fromhex("a923")
    assert made.read(bytes.fromhex("a923")) == {"a": 0xA, "flag": True, "b": 0x123}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"a": Field(8, ""), "b": Field(8, "", at=4)},
            "a begins at bit 0|b begins at bit 4, the fields before",
        ),
        (
            {"a": Field(8, ""), "b": Field(8, "", at=16)},
            "b begins at bit 16, the fields before it end at bit 8",
        ),
        ({"a": Field(7, "")}, "its fields add up to 7 bits, not to whole bytes"),
        ({"a": Field(8, "", split=((0, 4), (4, 3)))}, "a has 8 bits, its places have 4 and 3"),
    ],
)
def test_declaration_that_cannot_be_is_refused(fields: dict[str, Field], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        header(**fields)


def test_every_kind_of_field_is_built_and_parsed_alike_by_both_codecs() -> None:
    assert MIXED.build() == MIXED.HEADER.write(MIXED) == MIXED_BYTES
    assert Mixed.parse(MIXED_BYTES + b"more") == MIXED
    assert Mixed.HEADER.read(MIXED_BYTES)["entries"] == ENTRIES


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"delta": 1 << 31}, "delta 0x80000000 does not fit 32 signed bits"),
        ({"three": 1 << 24}, "three 0x1000000 does not fit 24 bits"),
        ({"three": "x"}, "three 'x' is not a number"),
        ({"raw": b"\0"}, "raw has 2 bytes, not 1"),
        ({"raw": 5}, "raw has 2 bytes, not 5"),
        ({"items": (1, 2)}, "items has 3 items, not 2"),
        (
            {"items": (1, 1 << 16, -1)},
            r"items\[1\] 0x10000 does not fit 16 bits \(0 to 65535\); items\[2\] -0x1 does not fit 16",
        ),
        ({"entries": ({"mac": b"", "lid": 1}, ENTRIES[0])}, r"entries\[0\].mac has 6 bytes, not 0"),
    ],
)
def test_misfit_names_every_value_that_does_not_fit(values: dict[str, Any], said: str) -> None:
    wrong = Mixed(**{"delta": 0, "entries": ENTRIES, **values})

    for build in (wrong.build, lambda: wrong.HEADER.write(wrong)):
        with pytest.raises(ValueError, match=said):
            build()


def test_bits_that_may_change_are_ones_in_the_mask() -> None:
    fields = {"a": Field(4, ""), "b": Field(4, "", may_change=True), "c": Field(8, "")}

    assert header("little", **fields).variable_mask() == b"\xf0\0"
    assert header("big", **fields).variable_mask() == b"\x0f\0"


def test_meanings_come_from_codes_and_say_which_bits_stand_where() -> None:
    class Colour(Code):
        """Code points."""

        RED = 1, "a warm colour"

    lid = header(lid=Field(16, "LID", split=((0, 12), (12, 4))))

    assert [place.meaning for place in lid.places] == ["LID, bits 11:0", "LID, bits 15:12"]
    assert (Field(8, "", codes=Colour).text_of(1), Field(8, "", codes=Colour).text_of(2)) == (
        "a warm colour",
        "",
    )
    assert (Colour.text_of(1), Colour.text_of(2, "?"), Colour(1)) == ("a warm colour", "?", 1)
    assert Field(24, "", BYTES, {0x66A: "Intel"}).text_of(b"\0\x06\x6a") == "Intel"


def test_structure_of_a_c_header_is_built_by_name_and_what_it_lacks_is_named() -> None:
    form = structure(
        "ask_in", "u8 kind; s16 error; u32 len, spare[2]; u8 gid[3]", "big", __name__, within="request"
    )

    built = form.build(error=-2, len=7)
    assert built == bytes.fromhex("00 fffe 00000007 00000000 00000000 000000")
    assert vars(form.parse(built)) == {"kind": 0, "error": -2, "len": 7, "spare": (0, 0), "gid": bytes(3)}
    assert form.construct.build({"error": -2, "len": 7}) == built
    with pytest.raises(
        WireError, match=r"^request -> ask_in -> len at byte 6: 6 bytes, the ask_in needs 18$"
    ):
        form.parse(built[:6])
    with pytest.raises(ValueError, match="kind 0x100 does not fit 8 bits"):
        form.build(kind=256)
    with pytest.raises(ValueError, match="does not fit the ask_in"):
        form.build(knd=1)
