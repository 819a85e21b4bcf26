"""The examples of commands with their output: docs/reference/cli has them on the page of each command.

They stand in sessions, Markdown files of tools/sessions; each has the labs that its commands need, one for many. A
heading names a command, a block of sh calls it, and the block of text below it is what that prints, on both streams:

    ## opavnic ps
    ```sh
    opavnic ps
    ```
    ```text
    two-hosts  …
    ```

`…` stands for anything within a line, a line of it for any lines; runs of spaces and of rules are equal, however long.
tests/e2e/test_command_examples.py runs the sessions; with OPAVNIC_EXAMPLES=write it puts what they print in place of
what differs. A block that no test runs says why above it, as on all pages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.doc_blocks import ROOT, Block, blocks

SESSIONS: Final = ROOT / "tools" / "sessions"
ANY: Final = "…"
_HEADING: Final = re.compile(r"^## (.+)$", re.M)
_EXAMPLE: Final = re.compile(
    r"((?:^<!-- [^\n]*\n)*^```sh\n.*?^```\n)\n*(?:^```text\n(.*?)^```\n)?", re.M | re.S
)
_RUN_OF: Final = re.compile(r"[ \t]+|─{2,}|━{2,}|-{2,}")


@dataclass(frozen=True, slots=True)
class Example:
    """One call of a command, or several, with what they print."""

    words: str
    """The command: `opavnic em show`."""
    block: Block
    output: str

    def matches(self, printed: str) -> bool:
        """Return whether a command has printed what the example shows."""
        parts = [
            r"(?:.*\n)*?" if line.strip() == ANY else _line(line) + r"\n"
            for line in self.output.rstrip().splitlines()
        ]
        said = "".join(f"{line.rstrip()}\n" for line in printed.rstrip().splitlines())
        return re.fullmatch("".join(parts), said) is not None


def _line(text: str) -> str:
    """Return a pattern for a line."""
    words = _RUN_OF.split(text.rstrip())
    gaps = [re.escape(gap[0]) + "+" for gap in _RUN_OF.findall(text.rstrip())]
    return "".join(
        re.escape(word).replace(re.escape(ANY), ".*") + gap
        for word, gap in zip(words, [*gaps, ""], strict=True)
    )


def sessions() -> list[Path]:
    """Return the files of the sessions."""
    return sorted(SESSIONS.glob("*.md"))


def examples(text: str) -> Iterator[Example]:
    """Yield the examples of a session, in order."""
    _, *parts = _HEADING.split(text)
    for words, section in zip(parts[::2], parts[1::2], strict=True):
        for found in _EXAMPLE.finditer(section):
            (block,) = blocks(found[1])
            yield Example(words, block, found[2] or "")


def by_command() -> dict[str, list[Example]]:
    """Return the examples of all sessions, by their commands."""
    found: dict[str, list[Example]] = {}
    for session in sessions():
        for example in examples(session.read_text(encoding="utf-8")):
            found.setdefault(example.words, []).append(example)
    return found


def recorded(text: str, printed: dict[int, str]) -> str:
    """Return the text of a session whose examples show what has been printed, where they do not yet.

    Args:  printed: what the examples that are run have printed, by their numbers.
    """
    number = -1

    def anew(found: re.Match[str]) -> str:
        nonlocal number
        (block,) = blocks(found[1])
        if block.not_run:
            return found[0]
        number += 1
        if Example("", block, found[2] or "").matches(printed[number]):
            return found[0]
        return f"{found[1]}```text\n{printed[number].rstrip()}\n```\n\n"

    return _EXAMPLE.sub(anew, text)
