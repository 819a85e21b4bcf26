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

from hfi_sim.base.clock import NS_PER_S, to_ns
from hfi_sim.base.quantities import (
    parse_delay,
    parse_rate,
    parse_share,
    parse_size,
    parse_size_or_time,
    parse_time,
    parse_whole,
    rate_text,
    share_text,
    size_or_time_text,
    size_text,
    time_text,
)

_SHOWN: Final = 10**18


@dataclass(frozen=True, slots=True)
class Quantity:
    """A kind of value: how it is read, and how it is written so that it reads back as the same value."""

    parse: Callable[[object], Any]
    """Takes text, or a number as YAML and JSON give it; raises QuantityError or an error of the package."""
    text: Callable[[Any], str] = str
    scale: int = 1
    """The field's value that limits count as 1."""


WHOLE: Final = Quantity(parse_whole)
WHOLES: Final = Quantity(lambda values: tuple(map(parse_whole, values)))  # type: ignore[call-overload] # a list
"""Several whole numbers, each in the range of the option."""
SIZE: Final = Quantity(parse_size, size_text)
SIZE_OR_TIME: Final = Quantity(parse_size_or_time, size_or_time_text)
HEX: Final = Quantity(parse_whole, hex)
SHARE: Final = Quantity(parse_share, share_text)
RATE: Final = Quantity(parse_rate, rate_text)
TIME: Final = Quantity(parse_time, time_text)
NANOSECONDS: Final = Quantity(
    lambda value: to_ns(parse_delay(value)), lambda ns: time_text(ns / NS_PER_S), NS_PER_S
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
    """Its range: of a time in seconds, of any other as the field has it."""
    shown_default: str = ""
    """For docs/, where the default of the dataclass says nothing."""
    field: str = ""
    default: Any = None
    """Both as the dataclass has them; `options_of` adds them."""

    def default_text(self) -> str:
        """Return the default as people write it; empty: it is not set."""
        if self.shown_default or self.default is None:
            return self.shown_default
        return self.quantity.text(self.default) if self.default else "0"

    def range_text(self) -> str:
        """Return its range: `1 to 1000`, or `0 or more`."""
        scale = self.quantity.scale
        least, most = (
            self.quantity.text(limit * scale) if limit and limit != math.inf else "0"
            for limit in (self.least, self.most)
        )
        return f"{least} or more" if self.most == math.inf else f"{least} to {most}"

    def misfit(self, value: Any) -> str | None:
        """Return `2000, not 1 to 1000` for a number, or the first of several, out of range; None: the value fits."""
        if isinstance(value, list | tuple):
            return next(filter(None, map(self.misfit, value)), None)
        scale = self.quantity.scale
        if not isinstance(value, int | float) or self.least * scale <= value <= self.most * scale:
            return None
        shown = (
            self.quantity.text(value)
            if 0 <= value < _SHOWN * scale
            else short(value if scale == 1 else value / scale)
        )
        return f"{shown}, not {self.range_text()}"

    def problem(self, value: Any) -> str | None:
        """Return the same as a sentence: `copies is 2000, not 1 to 1000`."""
        misfit = self.misfit(value)
        return misfit and f"{self.key} is {misfit}"


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
