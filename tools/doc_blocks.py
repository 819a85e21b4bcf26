"""The blocks of code in the pages: what tests run of them. `python -m tools.doc_blocks` counts them and prints what is
wrong with them: a block that no test could find, a reason that names a test which is not there. Exit 1 if any is.

A fenced block whose language is sh or python is run, all of a page in one go, as tests/e2e/test_pages.py does. Comments
in the lines above it say otherwise, or what is to be run before it that no reader needs to see:

    <!-- not run: REASON -->
    <!-- before: COMMAND -->
"""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Iterator
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


def problems(text: str) -> Iterator[str]:
    """Yield what is wrong with the blocks of a page."""
    fences = re.findall(r"^```(.*)$", text, re.M)
    if len(fences) % 2 or any(fences[1::2]):
        yield "a block has no end"
    if not all(fences[::2]):
        yield "a block names no language"
    prose = re.sub(r"^```\w+\n.*?^```$", "", text, flags=re.M | re.S)
    for before, paragraph in itertools.pairwise(re.split(r"\n{2,}", prose)):
        if paragraph.startswith(("    ", "\t")) and not re.match(r" *(?:[-*]|\d+\.) ", before):
            yield f"code without a fence: {paragraph[:60]}"
    found = blocks(text)
    for block in found:
        for named in re.findall(r"tests/[\w/]+(?:\.py)?", block.not_run):
            if not (ROOT / named).exists():
                yield f"not run: {named} is not there"
    for word, used in (
        ("not run", sum(bool(block.not_run) for block in found)),
        ("before", sum(len(block.before) for block in found)),
    ):
        if text.count(f"<!-- {word}:") != used:
            yield f"a comment `{word}` is above no block"


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


def main() -> int:
    """Print how many blocks are run, which are not, and problems; return 1 if there are any of these."""
    ran = dict.fromkeys(RUN, 0)
    left_out, wrong = [], []
    for page in pages():
        text, name = page.read_text(encoding="utf-8"), page.relative_to(ROOT)
        wrong += [f"{name}: {problem}" for problem in problems(text)]
        for block in blocks(text):
            if block.not_run:
                left_out.append(f"{name}: {block.text.splitlines()[0][:50]}: {block.not_run}")
            else:
                ran[block.language] += 1
    print(
        f"{ran['sh']} shell and {ran['python']} Python blocks of the pages are run by tests, {len(left_out)} are not"
    )
    if "-v" in sys.argv:
        print("\n".join(left_out))
    for problem in wrong:
        print(problem, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
