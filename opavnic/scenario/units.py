"""Units of time: `within=ms(5)`. Each function returns seconds."""

from __future__ import annotations


def seconds(value: float) -> float:
    """Return `value` seconds."""
    return float(value)


def ms(value: float) -> float:
    """Return milliseconds in seconds."""
    return value * 1e-3


def us(value: float) -> float:
    """Return microseconds in seconds."""
    return value * 1e-6


def ns(value: float) -> float:
    """Return nanoseconds in seconds."""
    return value * 1e-9
