"""The blocks of code in the pages: what tests run of them. `python -m tools.doc_blocks` counts them.

A fenced block whose language is sh or python is run, all of a page in one go, as tests/e2e/test_pages.py does. Comments
in the lines above it say otherwise, or what is to be run before it that no reader needs to see:

    <!-- not run: REASON -->
    <!-- before: COMMAND -->
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
GENERATED: Final = "cli.md"
"""Its blocks are the help of the commands."""
RUN: Final = ("sh", "python")
_FENCE: Final = re.compile(r"((?:^<!-- (?:not run|before): .*? -->\n)*)^```(\w+)\n(.*?)^```$", re.M | re.S)
_NOT_RUN: Final = re.compile(r"^<!-- not run: (.*?) -->$", re.M)
_BEFORE: Final = re.compile(r"^<!-- before: (.*?) -->$", re.M)


@dataclass(frozen=True, slots=True)
class Block:
    """A block of code in a page."""

    language: str
    text: str
    before: tuple[str, ...]
    """Commands to run before it."""
    not_run: str
    """Why it is not run; empty if it is."""

    @property
    def is_scenario(self) -> bool:
        """Whether it has tests for pytest."""
        return self.language == "python" and "def test_" in self.text


def pages() -> list[Path]:
    """Return the pages that have blocks of their own."""
    return [*sorted(path for path in ROOT.glob("docs/**/*.md") if path.name != GENERATED), ROOT / "README.md"]


def blocks(text: str) -> list[Block]:
    """Return the blocks of a page in languages that are run."""
    return [
        Block(language, code, tuple(_BEFORE.findall(above)), "; ".join(_NOT_RUN.findall(above)))
        for above, language, code in _FENCE.findall(text)
        if language in RUN
    ]


def script(found: list[Block]) -> str:
    """Return a script for bash that runs blocks of a page in order, and prints `== NUMBER` before each.

    Args:  found: blocks that are run, none of them scenarios.
    """
    parts = []
    for number, block in enumerate(found):
        code = (
            block.text
            if block.language == "sh"
            else f"python - <<'END OF PYTHON'\n{block.text}END OF PYTHON\n"
        )
        parts.append(f"echo '== {number}'\n" + "".join(f"{line}\n" for line in block.before) + code)
    return "".join(parts)


def main() -> None:
    """Print how many blocks are run, and which are not."""
    ran = dict.fromkeys(RUN, 0)
    left_out = []
    for page in pages():
        for block in blocks(page.read_text(encoding="utf-8")):
            if block.not_run:
                left_out.append(
                    f"{page.relative_to(ROOT)}: {block.text.splitlines()[0][:50]}: {block.not_run}"
                )
            else:
                ran[block.language] += 1
    print(
        f"{ran['sh']} shell and {ran['python']} Python blocks of the pages are run by tests, {len(left_out)} are not"
    )
    if "-v" in sys.argv:
        print("\n".join(left_out))


if __name__ == "__main__":
    main()
