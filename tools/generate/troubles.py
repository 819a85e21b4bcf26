"""The page of what goes wrong: a row for each drop and each event."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from opavnic.state.advice import DROPS, EVENTS, advice
from tools.generate.sections import Section, fill

PAGE: Final = "docs/reference/troubleshooting.md"
_ORIGIN: Final = "opavnic/state/advice.py"


def pages(root: Path) -> Iterator[tuple[str, str]]:
    """Yield the page with its tables made anew."""
    yield PAGE, fill(root / PAGE, {"drops": _table(map(str, DROPS)), "events": _table(EVENTS)})


def _table(names: Iterable[str]) -> Section:
    rows = advice()
    lines = ["| name | what it is | harmless | what to do |", "|---|---|---|---|"]
    lines += [
        f"| `{name}` | {rows[name].what.removesuffix('.')} | {rows[name].harmless or 'never'} | {rows[name].do} |"
        for name in names
    ]
    return Section("\n".join(lines) + "\n", _ORIGIN)
