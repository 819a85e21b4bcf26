"""Output of commands: results on stdout, everything else on stderr in one line."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from hfi_sim.text import visible

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

EXIT_FAILED = 1
EXIT_USAGE = 2
WIDTH = 160


def say(line: str) -> None:
    """Print a line for people on stderr, so that it does not end up in a pipe.

    Control characters in file names or values are escaped, so it stays one line. If stderr cannot be written (reader
    gone, disk full), the line is discarded and the program goes on.
    """
    with contextlib.suppress(OSError):
        print(visible(line), file=sys.stderr, flush=True)


def print_line(line: str, *, flush: bool = False) -> None:
    """Print a line on stdout that may contain text from programs, files or peers.

    Use `flush` for output that is followed live: a signal that ends the program then leaves no half line.
    """
    sys.stdout.write(visible(line) + "\n")
    if flush:
        sys.stdout.flush()


def print_text(text: str) -> None:
    """Print lines on stdout that may contain text from programs, files or peers."""
    for line in io.StringIO(text, newline="\n"):
        print_line(line.removesuffix("\n"))


def fail(message: str, code: int = EXIT_FAILED) -> NoReturn:
    """Print `message` after the program's name and exit with `code`: 1 failure, 2 wrong usage or input."""
    say(f"opavnic: {message}")
    raise typer.Exit(code)


def print_json(data: object) -> None:
    """Print data as JSON on stdout."""
    print(json.dumps(data, indent=2, default=str))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]], title: str | None = None) -> None:
    """Print a table on stdout. A rich Text cell keeps its style; all other cells are shown verbatim."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=None if title is None else Text(visible(title), "bold"), title_justify="left")
    for column in columns:
        table.add_column(_plain(column), overflow="fold")
    for row in rows:
        table.add_row(*("" if cell is None else _plain(cell) for cell in row))
    print_rich(table)


def print_rich(*items: Table | Text | str) -> None:
    """Print tables and text, in color if stdout is a terminal; a str is never read as markup."""
    from rich.console import Console

    # output that does not go to a terminal is not cut to the width of one,
    # and the `:ab:` of a MAC address is not an emoji
    console = Console(highlight=False, emoji=False, width=None if sys.stdout.isatty() else WIDTH)
    for item in items:
        console.print(_plain(item) if isinstance(item, str) else item)


def _plain(cell: object) -> Text:
    """Return a cell as rich text: `[red]` in a name is not a color."""
    from rich.text import Text

    return cell if isinstance(cell, Text) else Text(visible(str(cell)))


def pick(data: Mapping[str, Any], *keys: str) -> list[Any]:
    """Return the values of `keys` as a row of a table, with None for a missing key."""
    return [data.get(key) for key in keys]
