"""Quantities in lab files."""

from __future__ import annotations

import pytest

from opavnic.lab.units import counted, parse_rate, parse_size, parse_time, rate_text


@pytest.mark.parametrize(
    ("text", "bps"),
    [
        ("100G", 100e9),
        ("25Gbit/s", 25e9),
        ("800M", 8e8),
        ("1.5 Tbps", 1.5e12),
        ("9600", 9600),
        (10, 10),
        ("64k", 64e3),
    ],
)
def test_rate_is_read_as_bits_per_second(text: object, bps: float) -> None:
    assert parse_rate(text) == pytest.approx(bps)


@pytest.mark.parametrize(
    ("text", "seconds"), [("300ns", 300e-9), ("1us", 1e-6), ("2 ms", 2e-3), ("0.5s", 0.5), (1, 1)]
)
def test_time_is_read_as_seconds(text: object, seconds: float) -> None:
    assert parse_time(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text",
    ["", "G", "100X", "-1G", "0", 0, True, None, [], float("nan"), float("inf"), "1e9G", "9" * 400 + "T"],
)
def test_rate_that_is_none_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="rate"):
        parse_rate(text)


@pytest.mark.parametrize("text", ["", "ns", "300", "300x", "-1us", False, None, {}, float("nan"), -1])
def test_time_that_is_none_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="is not a time"):
        parse_time(text)


def test_rate_is_shown_in_its_natural_unit() -> None:
    assert [rate_text(bps) for bps in (12.34e9, 5e6, 999, 0)] == [
        "12.3 Gbit/s",
        "5 Mbit/s",
        "999 bit/s",
        "0 bit/s",
    ]


@pytest.mark.parametrize(
    ("text", "size"), [("64K", 65536), ("64KiB", 65536), ("1.5k", 1536), ("16M", 16 << 20), ("9", 9), (0, 0)]
)
def test_size_is_read_as_bytes(text: object, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "K", "64X", "-1K", "0.3", 0.5, True, None, [], "9" * 30])
def test_size_that_is_none_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="is not a size such as"):
        parse_size(text)


def test_things_are_counted_in_singular_and_plural() -> None:
    assert [counted(n, "host") for n in (0, 1, 2)] == ["0 hosts", "1 host", "2 hosts"]
    assert counted(2, "virtual switch", "virtual switches") == "2 virtual switches"
