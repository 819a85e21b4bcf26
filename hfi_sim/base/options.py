"""Options that people set, of faults and of links: how one is declared.

An option is a field of a dataclass, annotated with its row:

    copies: Annotated[int, Option("copies", WHOLE, "additional packets that arrive", 1, 1000)] = 1

The parser of faults, lab files, helps, the tables of docs/ and the structures of native/ take options from there.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Final, get_type_hints

from hfi_sim.base.instants import NS_PER_S, to_ns
from hfi_sim.base.quantities import (
    parse_rate,
    parse_share,
    parse_time,
    parse_whole,
    rate_text,
    share_text,
    time_text,
)

_SHOWN: Final = 10**18


@dataclass(frozen=True, slots=True)
class Quantity:
    """A kind of value: how it is read, and how it is written so that it reads back as the same value."""

    parse: Callable[[object], Any]
    """Takes text, or a number as YAML and JSON give it; raises QuantityError or an error of the package."""
    text: Callable[[Any], str] = str
    unit: str = ""
    """What messages count it in."""
    scale: int = 1
    """How much of the field's value is one unit."""


WHOLE: Final = Quantity(parse_whole)
HEX: Final = Quantity(parse_whole, hex)
SHARE: Final = Quantity(parse_share, share_text)
RATE: Final = Quantity(parse_rate, rate_text, "bit/s")
TIME: Final = Quantity(parse_time, time_text, "s")
NANOSECONDS: Final = Quantity(
    lambda value: to_ns(parse_time(value)), lambda ns: time_text(ns / NS_PER_S), "s", NS_PER_S
)
"""A time that people write as any other, in a field of whole nanoseconds."""


@dataclass(frozen=True, slots=True)
class Option:
    """The row of one option."""

    key: str
    """As people write it."""
    quantity: Quantity
    meaning: str
    """A line for helps and docs/, without a full stop."""
    least: float = 0
    most: float = math.inf
    """Its range, in the quantity's unit."""
    field: str = ""
    default: Any = None
    """Both as the dataclass has them; `options_of` adds them."""

    def written(self, value: Any) -> str:
        """Return a value as people write it; empty: it is not set."""
        return "" if value is None else self.quantity.text(value)

    def range_text(self) -> str:
        """Return its range: `1 to 1000`, or `0 or more`."""
        scale = self.quantity.scale
        least, most = (
            self.quantity.text(limit * scale) if limit and limit != math.inf else "0"
            for limit in (self.least, self.most)
        )
        return f"{least} or more" if self.most == math.inf else f"{least} to {most}"

    def problem(self, value: Any) -> str | None:
        """Return what is wrong with a value that is out of range; None: it is in range, or is not set."""
        scale = self.quantity.scale
        if value is None or self.least * scale <= value <= self.most * scale:
            return None
        shown = (
            self.quantity.text(value)
            if 0 <= value < _SHOWN * scale
            else short(value if scale == 1 else value / scale)
        )
        return f"{self.key} is {shown}, not {self.range_text()}"


@functools.cache
def options_of(declared: type) -> tuple[Option, ...]:
    """Return the options of a dataclass: its own in their order, then those that it inherits."""
    hints = get_type_hints(declared, include_extras=True)
    defaults = {item.name: item.default for item in fields(declared)}
    names = [name for kind in declared.__mro__ for name in inspect.get_annotations(kind)]
    return tuple(
        replace(option, field=name, default=defaults[name])
        for name in dict.fromkeys(names)
        for option in getattr(hints[name], "__metadata__", ())
        if isinstance(option, Option)
    )


def short(number: float) -> str:
    """Return a number in a form short enough for an error message."""
    if isinstance(number, int) and abs(number) > _SHOWN:
        return f"a number of {number.bit_length()} bits"
    return f"{number:g}"
