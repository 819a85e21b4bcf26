"""Quantities in lab files."""

from __future__ import annotations

import pytest

from opavnic.lab.units import parse_rate, parse_time, rate_text


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
    "text", ["", "G", "100X", "-1G", "0", 0, True, None, [], float("nan"), float("inf"), "1e9G"]
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
