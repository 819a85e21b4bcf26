"""Registers of the virtual HFI: the table of docs/reference/hfi1-registers.md, from the rows of the model."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tools.generate.sections import Section, fill

ROWS: Final = "opavnic/kernel/source/opa_virtual_hfi/registers.def"
PAGE: Final = "docs/reference/hfi1-registers.md"
_ROW: Final = re.compile(
    r"^R\((?P<name>\w+), (?P<offset>\w+), (?P<times>\d+), (?P<stride>\w+), (?P<values>\d+), (?P<reset>\w+), "
    r'(?P<write>\w+), "(?P<what>[^"]+)"\)$'
)
_PART: Final = re.compile(r"^/\* --- (?P<part>.*) --- \*/$")
_WRITES: Final = {"constant": "-", "stored": "kept"}


def pages(root: Path) -> Iterator[tuple[str, str]]:
    """Yield the page with its table."""
    text = "".join(f"{line}\n" for line in _table((root / ROWS).read_text().splitlines()))
    yield PAGE, fill(root / PAGE, {"registers": Section(text, ROWS)})


def _table(lines: list[str]) -> Iterator[str]:
    yield ""
    yield "| register | offset | values | at reset | a write | what, and where the driver asks for it |"
    yield "|---|---|---|---|---|---|"
    for line in lines:
        if part := _PART.match(line):
            yield f"| **{part['part']}** | | | | | |"
        elif row := _ROW.match(line):
            yield _cells(row)
        elif line.startswith("R("):
            raise ValueError(f"{ROWS}: not a row: {line}")
    yield ""


def _cells(row: re.Match[str]) -> str:
    times, values = int(row["times"]), int(row["values"])
    count = f"{times} x {values}, every {row['stride']}" if times > 1 else str(values)
    reset = f"{int(row['reset'], 0):#x}" if int(row["reset"], 0) else "0"
    write = _WRITES.get(row["write"], f"`{row['write']}`")
    return f"| {row['name']} | {row['offset']} | {count} | {reset} | {write} | {row['what']} |"
