"""Numbers and quantities as options of commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import typer

from hfi_sim.errors import QuantityError
from hfi_sim.quantities import parse_whole

MAX_LID: Final = 0xFFFFFF
MAX_VPORT: Final = 255
MAX_VESW_ID: Final = 0xFFF
METAVAR: Final = "NUMBER"
Quantity = TypeVar("Quantity")


def number(low: int, high: int) -> Callable[[object], int]:
    """Return what reads an option that is a number from `low` to `high`, as `parser` of a typer.Option.

    It raises typer.BadParameter with what would be right: exit code 2.
    """

    def parse(value: object) -> int:
        try:
            found = parse_whole(value)
        except QuantityError:
            raise typer.BadParameter(
                f"{value!r} is no number: {low} to {high}, or in hex {low:#x} to {high:#x}"
            ) from None
        if not low <= found <= high:
            raise typer.BadParameter(f"{value} is not {low} to {high} (in hex {low:#x} to {high:#x})")
        return found

    return parse


def quantity(parse: Callable[[object], Quantity]) -> Callable[[object], Quantity]:
    """Return what reads an option with a parser of `hfi_sim.quantities`, as `parser` of a typer.Option.

    It raises typer.BadParameter with what would be right: exit code 2.
    """

    def parse_option(value: object) -> Quantity:
        try:
            return parse(value)
        except QuantityError as error:
            raise typer.BadParameter(str(error)) from None

    return parse_option
