"""Coroutines of a scenario that a test calls and does not await: nothing happens, and the test would pass."""

from __future__ import annotations

import contextlib
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TextIO

_NEVER: Final = re.compile(r"coroutine '([\w.]+)' was never awaited")
_OURS: Final = "opavnic.scenario"


@contextlib.contextmanager
def forgotten_awaits(test: Path) -> Iterator[list[str]]:
    """Collect, a line each, the coroutines of scenarios that are never awaited in this context. Python only warns.

    Args:  test: the file of the test: only of that is the line known, where the coroutine was dropped at once.
    """
    found: list[str] = []
    with warnings.catch_warnings():
        warnings.filterwarnings("always", _NEVER.pattern, RuntimeWarning)
        show = warnings.showwarning

        def shown(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            match = _NEVER.match(str(message))
            if match is not None and _is_of_a_scenario(match[1]):
                call = match[1].rpartition(".")[2]
                place = f"{test.name}:{lineno}: " if Path(filename) == test else ""
                found.append(f"{place}{call}(...) was called and never awaited: write await {call}(...)")
            else:
                show(message, category, filename, lineno, file, line)

        warnings.showwarning = shown
        yield found


def _is_of_a_scenario(name: str) -> bool:
    """Return whether a coroutine is a method of a class of `opavnic.scenario`. Args: name: Class.method."""
    modules = [module for key, module in sys.modules.items() if key.startswith(_OURS)]
    first = name.partition(".")[0]
    return any(
        getattr(getattr(module, first, None), "__module__", "").startswith(_OURS) for module in modules
    )
