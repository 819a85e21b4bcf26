"""Quantities as people write them in a lab file: `100G` bits per second, `300ns`."""

from __future__ import annotations

import re
from typing import Final

_QUANTITY: Final = re.compile(r"(?P<number>\d+(\.\d+)?)\s*(?P<unit>[^\d\s]*)")
_RATES: Final = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_TIMES: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
_SIZES: Final = {"": 1.0, "k": 1024.0, "K": 1024.0, "M": 1024.0**2, "G": 1024.0**3}
_SIZE_ENDINGS: Final = ("iB", "B")
_MOST: Final = 1e18
_RATE_ENDINGS: Final = ("bit/s", "bps", "bit")


def parse_rate(value: object) -> float:
    """Return a rate in bits per second: `100G`, `25Gbit/s`, `800M`, or a plain number of bits per second.

    Raises:  ValueError: not a rate, or not above 0.
    """
    rate = _parse(value, _RATES, "a rate such as 100G, 25G or 800M (bits per second)", _RATE_ENDINGS)
    if rate <= 0:
        raise ValueError(f"{value!r}: a rate is above 0")
    return rate


def parse_time(value: object) -> float:
    """Return a time in seconds: `300ns`, `1us`, `2ms`, `0.5s`, or a plain number of seconds.

    Raises:  ValueError: not a time.
    """
    return _parse(value, _TIMES, "a time such as 300ns, 1us or 2ms", ())


def parse_size(value: object) -> int:
    """Return a size in bytes: `64K` (of 1024 bytes), `16M`, `64KiB`, or a plain number of bytes.

    Raises:  ValueError: not a size, or not a whole number of bytes.
    """
    what = "a size such as 65536, 64K or 16M (bytes)"
    size = _parse(value, _SIZES, what, _SIZE_ENDINGS)
    if size != int(size):
        raise ValueError(f"{value!r} is not {what}")
    return int(size)


def counted(number: int, singular: str, plural: str = "") -> str:
    """Return `1 host` or `2 hosts`; `plural` where it is not an s more."""
    return f"{number} {singular if number == 1 else plural or singular + 's'}"


def _parse(value: object, units: dict[str, float], what: str, endings: tuple[str, ...]) -> float:
    if isinstance(value, bool):
        raise ValueError(f"{value!r} is not {what}")
    if isinstance(value, int | float):
        if not 0 <= value < _MOST:
            raise ValueError(f"{value!r} is not {what}")
        return float(value)
    match = _QUANTITY.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"{value!r} is not {what}")
    unit = match["unit"]
    for ending in endings:
        unit = unit.removesuffix(ending)
    if unit not in units or (unit == "" and "" not in units):
        raise ValueError(f"{value!r} is not {what}")
    quantity = float(match["number"]) * units[unit]
    if quantity >= _MOST:
        raise ValueError(f"{value!r} is not {what}")
    return quantity


def rate_text(bps: float) -> str:
    """Return a rate for people: `12.3 Gbit/s`."""
    for factor, unit in ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")):
        if bps >= factor:
            return f"{bps / factor:.3g} {unit}"
    return f"{bps:.3g} bit/s"
