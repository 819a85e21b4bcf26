"""Write, or with --check compare, every generated file: `python -m tools.generate [--check]`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from tools.generate import (
    api,
    cli,
    counters,
    docs,
    gallery,
    lab_file,
    lua,
    lua_attributes,
    machines,
    metrics,
    options,
    registers,
    rust,
    troubles,
)
from tools.generate.sections import SectionError

ROOT: Final = Path(__file__).parents[2]

Output = Callable[[Path], Iterable[tuple[str, str]]]
OUTPUTS: Final[tuple[Output, ...]] = (
    docs.pages,
    registers.pages,
    lua.scripts,
    lua_attributes.scripts,
    rust.sources,
    counters.sources,
    counters.stubs,
    options.sources,
    options.pages,
    metrics.pages,
    troubles.pages,
    cli.reference,
    api.pages,
    lab_file.pages,
    machines.pages,
    gallery.pages,
    lab_file.schemas,
)
"""Functions that take the root of the repository, and yield the path of each file and what it is to hold."""


def stale(root: Path, outputs: Iterable[Output] = OUTPUTS) -> dict[str, str]:
    """Return the files that do not hold what their declarations make, with what they are to hold.

    Raises:  SectionError: a file that is there does not mark a section that it is to have.
    """
    made = [made for output in outputs for made in output(root)]
    return {path: text for path, text in made if _content(root / path) != text}


def _content(path: Path) -> str | None:
    return path.read_text() if path.exists() else None


def main() -> int:
    """Do what the command line says; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.generate", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if something is out of date"
    )
    check = parser.parse_args().check
    try:
        changed = stale(ROOT)
    except SectionError as error:
        print(error, file=sys.stderr)
        return 1
    for path, text in changed.items():
        if check:
            print(f"{path} is out of date with its declarations; run: make generated", file=sys.stderr)
        else:
            (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
            (ROOT / path).write_text(text)
            print(f"{path} written")
    return 1 if check and changed else 0


if __name__ == "__main__":
    sys.exit(main())
