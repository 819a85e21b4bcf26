"""Numbers of the fabric on the command line: decimal, or with 0x as the program prints many of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import typer

MAX_LID: Final = 0xFFFFFF
MAX_VPORT: Final = 255
MAX_VESW_ID: Final = 0xFFF
METAVAR: Final = "NUMBER"
_NUMBER: Final = re.compile(r"-?(0[xX][0-9a-fA-F]{1,16}|[0-9]{1,20})", re.ASCII)


def number(low: int, high: int) -> Callable[[object], int]:
    """Return what reads an option that is a number from `low` to `high`, as `parser` of a typer.Option.

    It raises typer.BadParameter with what would be right: exit code 2.
    """

    def parse(value: object) -> int:
        text = str(value)  # a default is no text
        if not _NUMBER.fullmatch(text):
            raise typer.BadParameter(
                f"{text!r} is no number: {low} to {high}, or in hex {low:#x} to {high:#x}"
            )
        found = _read(text)
        if not low <= found <= high:
            raise typer.BadParameter(f"{text} is not {low} to {high} (in hex {low:#x} to {high:#x})")
        return found

    return parse


def as_number(text: str) -> int:
    """Return the number in a field=value of the command line. Raises ValueError where it is none."""
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{text!r} is no number: decimal, or 0x and hex digits")
    return _read(text)


def _read(text: str) -> int:
    return int(text, 16 if "x" in text.lower() else 10)
