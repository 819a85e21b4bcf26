"""Quantities: one grammar, which reads back what is written in it and refuses everything else in one way."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfi_sim.base.errors import QuantityError
from hfi_sim.base.quantities import (
    SizeOrTime,
    parse_rate,
    parse_share,
    parse_size,
    parse_size_or_time,
    parse_time,
    parse_whole,
    rate_text,
    rounded_rate,
    share_text,
    size_or_time_text,
    size_text,
    time_text,
    time_within,
)
from hfi_sim.base.text import counted


def parse_queue(value: object) -> float:
    """Read a queue, and return the one number that it has."""
    length = parse_size_or_time(value)
    assert (length.size is None) != (length.time_s is None)
    return length.size if length.time_s is None else length.time_s


PARSERS: list[Callable[[object], Any]] = [
    parse_time,
    parse_rate,
    parse_size,
    parse_queue,
    parse_share,
    parse_whole,
]


@pytest.mark.parametrize(
    ("text", "bps"),
    [
        ("100G", 100e9),
        ("25Gbit/s", 25e9),
        ("10Gbit", 10e9),
        ("800M", 8e8),
        ("1.5 Tbps", 1.5e12),
        ("9600bit/s", 9600),
        (10, 10),
        ("64k", 64e3),
        ("64K", 64e3),
        ("1e9bit", 1e9),
    ],
)
def test_rate_is_read_as_bits_per_second(text: object, bps: float) -> None:
    assert parse_rate(text) == bps


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("300ns", 300e-9),
        ("1us", 1e-6),
        ("1µs", 1e-6),
        ("2 ms", 2e-3),
        ("0.5s", 0.5),
        (".5s", 0.5),
        ("5m", 300),
        ("5min", 300),
        ("1h", 3600),
        ("1.5h", 5400),
        ("300", 300),
        ("1e-6", 1e-6),
        ("1e3ms", 1),
        (1, 1),
        (0.25, 0.25),
        ("0", 0),
    ],
)
def test_time_is_read_as_seconds(text: object, seconds: float) -> None:
    assert parse_time(text) == seconds


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("64K", 65536),
        ("64KiB", 65536),
        ("64KB", 65536),
        ("64kb", 65536),
        ("1.5k", 1536),
        ("16M", 16 << 20),
        ("16m", 16 << 20),
        ("2g", 2 << 30),
        ("1T", 1 << 40),
        ("9", 9),
        ("9B", 9),
        ("1e3", 1000),
        (0, 0),
        (65536.0, 65536),
        (str(10**17 + 1), 10**17 + 1),
    ],
)
def test_size_is_read_as_bytes(text: object, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("64K", SizeOrTime(size=65536)),
        (65536, SizeOrTime(size=65536)),
        ("5", SizeOrTime(size=5)),
        ("5m", SizeOrTime(size=5 << 20)),
        ("0", SizeOrTime(size=0)),
        ("20ms", SizeOrTime(time_s=0.02)),
        (" 1.5 s ", SizeOrTime(time_s=1.5)),
        ("5min", SizeOrTime(time_s=300)),
        ("300ns", SizeOrTime(time_s=300e-9)),
        (SizeOrTime(time_s=0.02), SizeOrTime(time_s=0.02)),
    ],
)
def test_size_or_time_is_a_size_where_it_can_be_one(text: object, length: SizeOrTime) -> None:
    assert parse_size_or_time(text) == length


@pytest.mark.parametrize(
    ("text", "share"), [("20%", 0.2), ("0.2", 0.2), (0.2, 0.2), ("100 %", 1), ("120%", 1.2)]
)
def test_share_is_read_as_a_fraction(text: object, share: float) -> None:
    assert parse_share(text) == share


@pytest.mark.parametrize(
    ("text", "number"),
    [("5", 5), ("0x11", 17), (" 7 ", 7), ("0XfF", 255), ("-0x10", -16), (7, 7), ("-1", -1)],
)
def test_whole_number_is_read_in_decimal_and_hexadecimal(text: object, number: int) -> None:
    assert parse_whole(text) == number


@pytest.mark.parametrize(
    ("parse", "what", "values"),
    [
        (parse_rate, "rate", ["G", "100", "1e9", "100X", "100m", "-1G", "0", 0, "1e9G", "9" * 400 + "T"]),
        (parse_time, "is not a time such as 300ns, 2ms, 10s or 5m", ["ns", "300x", "5M", "-1us", -1, "1 1"]),
        (parse_size, "is not a size such as 65536, 64K or 16M", ["K", "64X", "-1K", "0.3", 0.5, "9" * 30]),
        (
            parse_queue,
            "is not a size such as 65536, 64K or 16M .bytes., or a time above 0 such as 20ms",
            ["K", "64X", "-1K", "0.3", 0.5, "-1ms", "0ms", 0.02, "1e-30000s"],
        ),
        (parse_share, "is not a share such as 20% or 0.2", ["%", "20%%", "-1%", "a fifth"]),
        (
            parse_whole,
            "is not a whole number such as 5 or 0x11",
            ["1.5", "0x", "5K", "0b1", "1_0", 1.0, "9" * 5000],
        ),
    ],
)
def test_what_is_no_quantity_is_refused_with_an_example(
    parse: Callable[[object], Any], what: str, values: list[object]
) -> None:
    nothing: list[object] = ["", " ", ".", "e5", True, None, [], {}, math.nan, math.inf]
    for value in values + nothing:
        with pytest.raises(QuantityError, match=what):
            parse(value)


def test_time_of_zero_is_refused_where_there_must_be_one() -> None:
    assert parse_time("1ns", above_zero=True) == 1e-9
    with pytest.raises(QuantityError, match="'0s' is not a time above 0"):
        parse_time("0s", above_zero=True)


@pytest.mark.parametrize(
    ("text", "seconds"), [("10ms", 0.01), ("0.01", 0.01), ("500ms", 0.5), (7, 7), ("2m", 120), ("24h", 86400)]
)
def test_time_within_its_limits_is_a_time_like_any_other(text: object, seconds: float) -> None:
    assert time_within("10ms", "24h")(text) == seconds


def test_time_outside_its_limits_is_refused_with_the_limits() -> None:
    for value in ("9ms", "0", "25h", "-1", "nan", "inf", "soon", "5x", "", None):
        with pytest.raises(QuantityError, match=r"is not a time from 10ms to 24h$"):
            time_within("10ms", "24h")(value)
    assert time_within("10ms")("1000h") == 3.6e6
    for value in ("9ms", "inf", "soon"):
        with pytest.raises(QuantityError, match=r"is not a time of 10ms or more$"):
            time_within("10ms")(value)


@pytest.mark.parametrize("parse", [*PARSERS, time_within("10ms", "24h")])
def test_error_stays_short_whatever_was_given(parse: Callable[[object], Any]) -> None:
    for value in ("x" * 10**6, ["x" * 100] * 1000, -(10**5000)):
        if parse is parse_whole and isinstance(value, int):
            continue
        with pytest.raises(QuantityError) as caught:
            parse(value)
        assert len(str(caught.value)) < 1000


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
nearly = st.from_regex(r"\A-?[0-9.]{0,6}(e[+-]?[0-9]{0,4})? ?[a-zA-Zµ%/]{0,5}\Z")


@pytest.mark.parametrize("parse", PARSERS)
@given(value=anything | nearly)
def test_nonsense_raises_nothing_else(parse: Callable[[object], Any], value: object) -> None:
    try:
        quantity = parse(value)
    except QuantityError:
        return
    assert math.isfinite(quantity)


@given(st.floats(0, 1e9))
def test_time_reads_back_as_it_was_written(seconds: float) -> None:
    assert parse_time(time_text(seconds)) == seconds


@given(st.floats(5e-324, 1e17) | st.integers(1, 2**53))
def test_rate_reads_back_as_it_was_written(bps: float) -> None:
    assert parse_rate(rate_text(bps)) == bps


@given(st.integers(0, 10**17))
def test_size_reads_back_as_it_was_written(size: int) -> None:
    assert parse_size(size_text(size)) == size


@given(
    st.builds(SizeOrTime, size=st.integers(0, 10**17))
    | st.builds(SizeOrTime, time_s=st.floats(0, 1e9, exclude_min=True))
)
def test_size_or_time_reads_back_as_it_was_written(length: SizeOrTime) -> None:
    assert parse_size_or_time(size_or_time_text(length)) == length


@given(st.floats(0, 1))
def test_share_reads_back_as_it_was_written(share: float) -> None:
    assert parse_share(share_text(share)) == share


def test_quantities_are_written_in_their_natural_units() -> None:
    assert [time_text(seconds) for seconds in (3e-7, 1e-5, 0.0015, 2, 300, 0)] == [
        "300ns", "10us", "1.5ms", "2s", "300s", "0s",
    ]  # fmt: skip
    assert [rate_text(bps) for bps in (1e11, 25.78125e9, 8e8, 9600, 5)] == [
        "100G", "25.78125G", "800M", "9.6k", "5bit/s",
    ]  # fmt: skip
    assert [size_text(size) for size in (65536, 16 << 20, 1000, 0)] == ["64K", "16M", "1000", "0"]
    assert [share_text(share) for share in (0.2, 1, 0, 0.125)] == ["20%", "100%", "0%", "12.5%"]


def test_measured_rate_is_shown_in_three_digits() -> None:
    assert [rounded_rate(bps) for bps in (12.34e9, 5e6, 999, 0)] == [
        "12.3 Gbit/s",
        "5 Mbit/s",
        "999 bit/s",
        "0 bit/s",
    ]


def test_things_are_counted_in_singular_and_plural() -> None:
    assert [counted(n, "host") for n in (0, 1, 2)] == ["0 hosts", "1 host", "2 hosts"]
    assert counted(2, "virtual switch", "virtual switches") == "2 virtual switches"
