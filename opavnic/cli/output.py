"""What commands print: results on stdout, everything else on stderr in one line."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import typer

if TYPE_CHECKING:
    from rich.table import Table

EXIT_FAILED = 1
EXIT_USAGE = 2
WIDTH = 160


def say(line: str) -> None:
    """Print a line for people on stderr, where it does not get into a pipe.

    A line stays a line, whatever name of a file or value in it has control characters.
    """
    print(visible(line), file=sys.stderr, flush=True)


def visible(text: str) -> str:
    r"""Return a text with what a terminal would obey, or not show, as \xNN and the like."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def fail(message: str, code: int = EXIT_FAILED) -> NoReturn:
    """Print `message` after the program's name and end with `code`: 1 it failed, 2 it was asked wrongly."""
    say(f"opavnic: {message}")
    raise typer.Exit(code)


def print_at_once(line: str) -> None:
    """Print a line on stdout for one who reads along: a signal that ends the program does not leave half of it."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def print_json(data: object) -> None:
    """Print data as JSON on stdout."""
    print(json.dumps(data, indent=2, default=str))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]], title: str | None = None) -> None:
    """Print a table on stdout."""
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*("" if cell is None else str(cell) for cell in row))
    print_rich(table)


def print_rich(*items: Table | str) -> None:
    """Print tables and text, in colours where stdout is a terminal."""
    from rich.console import Console

    # what is not read by a person at a terminal is not cut to the width of one
    # and the `:ab:` of a MAC address is no picture
    console = Console(highlight=False, emoji=False, width=None if sys.stdout.isatty() else WIDTH)
    for item in items:
        console.print(item)


def pick(data: Mapping[str, Any], *keys: str) -> list[Any]:
    """Return the values of `keys`, None where one is missing: a row of a table."""
    return [data.get(key) for key in keys]
