"""Output of commands: results on stdout in one of three forms, everything else on stderr, one line each.

Forms: `table` for people, `json` and `csv` for programs. `opavnic.cli.base.forms` gives every command that prints data
the options that select one.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import typer

from hfi_sim.base.text import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

EXIT_FAILED = 1
EXIT_USAGE = 2
WRONG: Final = "red"
"""The style of what is wrong: down, dropped, failed."""
_UNLIMITED: Final = 1 << 14
"""Columns of output that does not go to a terminal: nothing is wrapped or cut."""
_NUMBER_CHARS: Final = frozenset("0123456789abcdefx.,%+-kMGTP")


class Form(StrEnum):
    """How a command prints data."""

    TABLE = "table"
    """Aligned columns, for people."""
    JSON = "json"
    CSV = "csv"
    """The tables of the command, separated by empty lines; what is not a table goes to stderr."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table that is still to be printed, or to be shown in a view."""

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    title: str | None = None


_form: ContextVar[Form] = ContextVar("form", default=Form.TABLE)
_csv_tables: ContextVar[bool] = ContextVar("csv_tables", default=False)
"""Whether this command has printed a table as CSV."""


@contextlib.contextmanager
def printing(form: Form) -> Iterator[None]:
    """Print data in a form; errors are JSON where data are."""
    token, first = _form.set(form), _csv_tables.set(False)
    try:
        yield
    finally:
        _form.reset(token)
        _csv_tables.reset(first)


def current_form() -> Form:
    """Return the form in which the command prints data."""
    return _form.get()


def say(line: str) -> None:
    """Print a line for people on stderr, so that it does not end up in a pipe.

    Control characters in file names or values are escaped, so it stays one line. If stderr cannot be written (reader
    gone, disk full), the line is discarded and the program goes on.
    """
    with contextlib.suppress(OSError):
        print(visible(line), file=sys.stderr, flush=True)


def complain(message: str, code: int, *, hint: str = "", problems: Sequence[str] = ()) -> None:
    """Print on stderr why a command ends with `code`: one line, or one for each problem; one JSON object with --json.

    Args:  hint: what to do about it. problems: the mistakes in a file, where they are what `message` says.
    """
    if _form.get() is Form.JSON:
        error: dict[str, Any] = {"error": message, "hint": hint or None, "exit_code": code}
        if problems:
            error["problems"] = list(problems)
        say(json.dumps(error))
    elif problems:
        for problem in problems:
            say(problem)
    else:
        say(f"opavnic: {message}{hint and f' ({hint})'}")


def fail(message: str, code: int = EXIT_FAILED, *, hint: str = "") -> NoReturn:
    """Print `message` after the program's name and exit with `code`: 1 failure, 2 wrong usage or input."""
    complain(message, code, hint=hint)
    raise typer.Exit(code)


def print_line(line: str, *, flush: bool = False) -> None:
    """Print a line on stdout that may contain text from programs, files or peers; on stderr if stdout takes CSV.

    Use `flush` for output that is followed live: a signal that ends the program then leaves no half line.
    """
    if _form.get() is Form.CSV:
        say(line)
        return
    sys.stdout.write(visible(line) + "\n")
    if flush:
        sys.stdout.flush()


def print_text(text: str) -> None:
    """Print lines that may contain text from programs, files or peers, as `print_line` does."""
    for line in io.StringIO(text, newline="\n"):
        print_line(line.removesuffix("\n"))


def write_file(path: Path, text: str) -> None:
    """Write a file that an option names, or end the command."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        fail(f"{path} cannot be written: {error.strerror}", EXIT_FAILED)


def print_json(data: object) -> None:
    """Print data as JSON on stdout. Numbers such as LIDs and P_Keys are integers."""
    print(json.dumps(data, indent=2, default=str))


def print_records(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print records with the same keys as a table, such as the rows of JSON data."""
    if rows:
        print_table(list(rows[0]), [list(row.values()) for row in rows])


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]], title: str | None = None) -> None:
    """Print a table on stdout, numbers to the right; nothing but the header if it has no rows.

    On a terminal, long text is wrapped inside its column. Elsewhere every row is one line.

    Args:  rows: a rich Text cell keeps its style; all other cells are shown verbatim; None is an empty cell.
    """
    if _form.get() is Form.CSV:
        _print_csv(columns, rows)
        return
    _print(*table_lines(columns, rows, title))


def print_sheets(items: Iterable[Sheet | str]) -> None:
    """Print tables and lines in their order."""
    for item in items:
        if isinstance(item, Sheet):
            print_table(item.columns, item.rows, item.title)
        else:
            print_line(item)


def as_rich(item: Sheet | str) -> Iterator[Table | Text]:
    """Yield a table or a line as it is printed, for a view that is updated in place."""
    if isinstance(item, Sheet):
        yield from table_lines(item.columns, item.rows, item.title)
    else:
        yield _plain(item)


def table_lines(
    columns: Sequence[str], rows: Sequence[Sequence[object]], title: str | None = None
) -> Iterator[Table | Text]:
    """Yield the title and the table that `print_table` prints."""
    from rich.table import Table
    from rich.text import Text

    if title is not None:
        yield Text(visible(title), "bold")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    cells = [["" if cell is None else _plain(cell) for cell in row] for row in rows]
    for index, column in enumerate(columns):
        here = [str(row[index]) for row in cells]
        numbers = all(map(_is_number, here)) and any(here)
        table.add_column(
            _plain(column),
            justify="right" if numbers else "left",
            no_wrap=numbers or all(_is_address(text) for text in here),
            overflow="fold",
        )
    for row in cells:
        table.add_row(*row)
    yield table


def _is_number(text: str) -> bool:
    return not text or ((text[0].isdigit() or text[0] in "+-") and _NUMBER_CHARS.issuperset(text))


def _is_address(text: str) -> bool:
    """Return whether a cell is unreadable when it is wrapped: a MAC address, or a single short word."""
    return len(text) <= 17 and " " not in text


def _print_csv(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    import csv

    if _csv_tables.get():
        print()
    _csv_tables.set(True)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(map(visible, columns))
    for row in rows:
        writer.writerow(["" if cell is None else visible(str(cell)) for cell in row])


def print_rich(*items: Table | Text | str) -> None:
    """Print tables and text, in color if stdout is a terminal; a str is never read as markup."""
    if _form.get() is Form.CSV:
        for item in items:
            say(str(item))
        return
    _print(*items)


def _print(*items: Table | Text | str) -> None:
    console = make_console()
    if console.is_terminal:
        for item in items:
            console.print(_plain(item) if isinstance(item, str) else item)
        return
    with console.capture() as captured:
        for item in items:
            console.print(_plain(item) if isinstance(item, str) else item)
    for line in captured.get().splitlines():
        print(line.rstrip())


def is_screen() -> bool:
    """Return whether there is a terminal that can redraw, with keys."""
    ends = (sys.stdin, sys.stdout)
    return all(end is not None and end.isatty() for end in ends) and os.environ.get("TERM", "") not in (
        "",
        "dumb",
        "unknown",
    )


def make_console() -> Console:
    """Return a console on stdout: in color on a terminal unless NO_COLOR is set, and plain text elsewhere."""
    from rich.console import Console

    # the `:ab:` of a MAC address is not an emoji
    if sys.stdout.isatty():
        return Console(highlight=False, emoji=False)
    return Console(highlight=False, emoji=False, width=_UNLIMITED, color_system=None, force_terminal=False)


def wrong(text: object, is_wrong: bool) -> Text:
    """Return a cell that stands out if what it shows is wrong."""
    from rich.text import Text

    return Text(visible(str(text)), WRONG if is_wrong else "")


def _plain(cell: object) -> Text:
    """Return a cell as rich text: `[red]` in a name is not a color."""
    from rich.text import Text

    return cell if isinstance(cell, Text) else Text(visible(str(cell)))


def pick(data: Mapping[str, Any], *keys: str) -> list[Any]:
    """Return the values of `keys` as a row of a table, with None for a missing key."""
    return [data.get(key) for key in keys]


def lid_text(lid: int | None) -> str:
    """Return a LID as tables show it: hex, as the tools of Omni-Path do."""
    return "" if lid is None else f"{lid:#x}"


def pkey_text(pkey: int) -> str:
    """Return a P_Key as tables show it: four hex digits."""
    return f"{pkey:#06x}"
