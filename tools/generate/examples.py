"""The examples that the package carries for `opavnic init`: copies of those in examples/.

They are files, not links: not everything that a repository passes through keeps links.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

_SUFFIXES: Final = (".yaml", ".conf")


def copies(root: Path) -> Iterator[tuple[str, str]]:
    """Yield each example of the repository as the package is to have it."""
    for path in sorted((root / "examples").iterdir()):
        if path.suffix in _SUFFIXES:
            yield f"opavnic/examples/{path.name}", path.read_text(encoding="utf-8")
