"""Quantities as people write them in files and on command lines: one grammar, with one meaning everywhere.

    kind    examples                       unit of the result
    time    300ns 10us 2ms 10s 5m 1h       seconds; a number alone is seconds
    delay   300ns 10us 0                   a time of the fabric, which has a unit: a number alone is no delay
    rate    800M 100G 25Gbit/s 10gbit      bits per second, with a unit; K is 1000
    size    65536 64K 16MiB                bytes; K is 1024, with or without i or B behind it
    share   20% 0.2                        a fraction of 1; 20 is none
    queue   64K 20ms                       a size or a time; a number alone, and m, are of a size
    whole   5 0x11                         a whole number; its range is for the caller to check

Each parser takes text, or a number as YAML and JSON give it, and raises nothing but `QuantityError`. Decimal units
shift the exponent of what was written instead of multiplying, so that `300ns` is the float 3e-7 and nothing beside it.
The functions that end in `_text` write what the parser of the same kind reads back as the same number.
"""

from __future__ import annotations

import math
import re
import reprlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from hfi_sim.base.errors import QuantityError

_QUANTITY: Final = re.compile(
    r"(?P<mantissa>\d+(?:\.\d*)?|\.\d+)(?:[eE](?P<exponent>[+-]?\d{1,3}))?\s*(?P<unit>[^\s\d]*)", re.ASCII
)
_WHOLE: Final = re.compile(r"-?(?:(?P<hex>0[xX][0-9a-fA-F]{1,16})|0|[1-9][0-9]{0,19})", re.ASCII)
_LED_BY_0: Final = re.compile(r"-?0[0-9]+", re.ASCII)
_TOO_MUCH: Final = 1e18
"""No quantity of any kind reaches this."""

Units = Mapping[str, tuple[int, int]]
"""What a unit means: a factor, and a power of ten."""
_TIMES: Final[Units] = {
    "h": (3600, 0),
    "min": (60, 0),
    "m": (60, 0),
    "": (1, 0),
    "s": (1, 0),
    "ms": (1, -3),
    "us": (1, -6),
    "µs": (1, -6),
    "μs": (1, -6),
    "ns": (1, -9),
}
_RATES: Final[Units] = {
    prefix + ending: (1, power)
    for prefix, power in {"T": 12, "G": 9, "M": 6, "k": 3, "K": 3, "": 0}.items()
    for ending in ("", "bit/s", "bps", "bit")
} | {f"{prefix}bit": (1, power) for prefix, power in {"t": 12, "g": 9, "m": 6}.items()}
"""As tc(8) writes them, too: 10gbit."""
_SIZES: Final[Units] = {
    prefix + ending: (1024**power, 0)
    for power, prefixes in enumerate(("", "kK", "mM", "gG", "tT"))
    for prefix in prefixes or [""]
    for ending in ("", "B", "iB", "b", "ib")
}
_SHARES: Final[Units] = {"%": (1, -2), "": (1, 0)}

_A_TIME: Final = "a time such as 300ns, 2ms, 10s or 5m"
_A_RATE: Final = "a rate such as 100G, 25G or 800M (bits per second)"
_A_SIZE: Final = "a size such as 65536, 64K or 16M (bytes)"
_A_SIZE_OR_TIME: Final = "a size such as 65536, 64K or 16M (bytes), or a time above 0 such as 20ms"
_A_SHARE: Final = "a share such as 20% or 0.2"
_A_WHOLE_NUMBER: Final = "a whole number such as 5 or 0x11"

_SHORT: Final = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxlong = _SHORT.maxother = 60
_EXACT_DIGITS: Final = 18


def parse_time(value: object, *, above_zero: bool = False) -> float:
    """Return a time in seconds.

    Raises:  QuantityError: not a time; or 0, where that makes no sense.
    """
    seconds = float(_parse(value, _TIMES, _A_TIME))
    if above_zero and not seconds:
        raise QuantityError(f"{_shown(value)} is not a time above 0 such as 500ms or 10s")
    return seconds


def parse_delay(value: object) -> float:
    """Return a time in seconds, which has a unit where it is text: the latency of a link is not 300 s.

    Raises:  QuantityError: not a time, or text without a unit that is not 0.
    """
    seconds = parse_time(value)
    if seconds and isinstance(value, str) and _is_bare(value):
        raise QuantityError(
            f"{_bare(value)} has no unit; a delay has one: {value.strip()}ns, {value.strip()}us or {value.strip()}ms"
        )
    return seconds


def with_unit(parse: Callable[[object], float]) -> Callable[[object], float]:
    """Return a parser of what files say, in which a number without a unit is none either; 0 needs no unit."""

    def parse_written(value: object) -> float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return parse(str(value) if is_number and value else value)

    return parse_written


def time_within(low: str, high: str = "") -> Callable[[object], float]:
    """Return a parser of times in seconds that accepts no others than those from `low` to `high`.

    It raises QuantityError, naming the limits as they are written here. Without `high` there is no upper limit.
    """
    least, most = parse_time(low), parse_time(high) if high else _TOO_MUCH
    accepted = f"from {low} to {high}" if high else f"of {low} or more"

    def parse(value: object) -> float:
        try:
            seconds = parse_time(value)
        except QuantityError:
            seconds = None
        if seconds is None or not least <= seconds <= most:
            raise QuantityError(f"{_shown(value)} is not a time {accepted}")
        return seconds

    return parse


def parse_rate(value: object) -> float:
    """Return a rate in bits per second.

    Raises:  QuantityError: not a rate, not above 0, or text without a unit.
    """
    rate = float(_parse(value, _RATES, _A_RATE))
    if not rate:
        raise QuantityError(f"{_shown(value)}: a rate is above 0")
    if isinstance(value, str) and _is_bare(value):
        number = value.strip()
        raise QuantityError(
            f"{_bare(value)} has no unit; a rate has one: {number}G, {number}M or {number}bit/s"
        )
    return rate


def parse_size(value: object) -> int:
    """Return a size in bytes.

    Raises:  QuantityError: not a size, or not a whole number of bytes.
    """
    size = _parse(value, _SIZES, _A_SIZE)
    if size != int(size):
        raise QuantityError(f"{_shown(value)} is not {_A_SIZE}")
    return int(size)


@dataclass(frozen=True, slots=True)
class SizeOrTime:
    """A length as a size in bytes or as a time in seconds; both None: the default of its user.

    Raises:  QuantityError: both are given, or one is out of range.
    """

    size: int | None = None
    time_s: float | None = None

    def __post_init__(self) -> None:
        if self.size is not None and self.time_s is not None:
            raise QuantityError(f"a length is {self.size} bytes or {self.time_s:g} s, not both")
        if self.size is not None and self.size < 0:
            raise QuantityError(f"a length of {self.size} bytes is below 0")
        if self.time_s is not None and not 0 < self.time_s < math.inf:
            raise QuantityError(f"a length of {self.time_s:g} s is not a time above 0")


def parse_size_or_time(value: object) -> SizeOrTime:
    """Return a length that is a size, as `parse_size` reads it, or else a time.

    Raises:  QuantityError: neither a size nor a time above 0.
    """
    if isinstance(value, SizeOrTime):
        return value
    try:
        return SizeOrTime(size=parse_size(value))
    except QuantityError:
        pass
    if isinstance(value, str) and not value.strip()[-1:].isdecimal():
        try:
            return SizeOrTime(time_s=parse_time(value, above_zero=True))
        except QuantityError:
            pass
    raise QuantityError(f"{_shown(value)} is not {_A_SIZE_OR_TIME}")


def parse_share(value: object) -> float:
    """Return a fraction of 1. A percentage above 100% is returned as it is: the caller judges whether it makes sense.

    Raises:  QuantityError: not a share, or a number above 1.
    """
    share = float(_parse(value, _SHARES, _A_SHARE))
    if share > 1 and not (isinstance(value, str) and "%" in value):
        number = f"{value}".strip()
        raise QuantityError(f"{_shown(value)} is not {_A_SHARE}: with a unit it is {number:.60}%")
    return share


def parse_whole(value: object) -> int:
    """Return a whole number, which is written in decimal or with 0x in front.

    Raises:  QuantityError: not a whole number, or one of very many digits.
    """
    if isinstance(value, str):
        if match := _WHOLE.fullmatch(value.strip()):
            return int(match[0], 16 if match["hex"] else 10)
    elif isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and _LED_BY_0.fullmatch(value.strip()):
        raise QuantityError(
            f"{_shown(value)}: a whole number does not begin with 0, which means octal to some programs"
        )
    raise QuantityError(f"{_shown(value)} is not {_A_WHOLE_NUMBER}")


def time_text(seconds: float) -> str:
    """Return `300ns` for 3e-7."""
    return _text(seconds, _TIMES, ("s", "ms", "us", "ns"), plain="s")


def rate_text(bps: float) -> str:
    """Return `100G` for 1e11."""
    return _text(bps, _RATES, ("T", "G", "M", "k"), plain="bit/s")


def size_text(size: int) -> str:
    """Return `64K` for 65536."""
    for unit in ("T", "G", "M", "K"):
        factor, _ = _SIZES[unit]
        if size and size % factor == 0:
            return f"{size // factor}{unit}"
    return str(size)


def size_or_time_text(length: SizeOrTime) -> str:
    """Return `64K` or `20ms`."""
    return size_text(length.size or 0) if length.time_s is None else time_text(length.time_s)


def share_text(share: float) -> str:
    """Return `20%` for 0.2."""
    return _text(share, _SHARES, ("%",))


def rounded_rate(bps: float) -> str:
    """Return a measured rate in three digits: `12.3 Gbit/s`."""
    for factor, unit in ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")):
        if bps >= factor:
            return f"{bps / factor:.3g} {unit}"
    return f"{bps:.3g} bit/s"


def _parse(value: object, units: Units, what: str) -> float:
    quantity: float | None = None
    if isinstance(value, str):
        match = _QUANTITY.fullmatch(value.strip())
        if match is not None and match["unit"] in units:
            factor, power = units[match["unit"]]
            quantity = _number(match["mantissa"], power + int(match["exponent"] or 0)) * factor
    elif isinstance(value, int | float) and not isinstance(value, bool):
        quantity = value
    if quantity is None or not 0 <= quantity < _TOO_MUCH:
        raise QuantityError(f"{_shown(value)} is not {what}")
    return quantity


def _is_bare(text: str) -> bool:
    """Return whether a quantity is a number alone."""
    match = _QUANTITY.fullmatch(text.strip())
    return match is not None and not match["unit"]


def _bare(text: str) -> str:
    return f"{text.strip():.60}"


def _number(mantissa: str, power: int) -> float:
    """Return a whole number as such: a float does not hold every size."""
    if not power and mantissa.isdecimal() and len(mantissa) <= _EXACT_DIGITS:
        return int(mantissa)
    return float(f"{mantissa}e{power}")


def _text(value: float, units: Units, by_size: tuple[str, ...], *, plain: str = "") -> str:
    """Return a value in the first unit that it reaches, or in the plain one where only that is exact."""
    for unit in by_size:
        scale = float(f"1e{units[unit][1]}")
        text = f"{value / scale:.15g}{unit}"
        if (value >= scale or unit == "%") and _parse(text, units, "") == value:
            return text
    return f"{value!r}{plain}"


def _shown(value: object) -> str:
    try:
        return _SHORT.repr(value)
    except ValueError:  # more digits than Python turns into text
        return f"a {type(value).__name__} of very many digits"
