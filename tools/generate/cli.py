"""docs/cli.md: the reference of the commands, made from their helps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from opavnic.cli.base.errors import ELSEWHERE, RENAMED
from opavnic.cli.program.tree import CommandPage, Paragraph, pages
from tools.generate.sections import Section, fill

PAGE: Final = "docs/cli.md"
_ORIGIN: Final = "opavnic/cli"


def reference(root: Path) -> Iterator[tuple[str, str]]:
    """Yield the page with its sections made anew."""
    sections = {
        "commands": Section("\n".join(_reference()) + "\n", _ORIGIN),
        "old-spellings": Section("\n".join(_old_spellings()) + "\n", _ORIGIN),
        "words-elsewhere": Section("\n".join(_words_elsewhere()) + "\n", _ORIGIN),
    }
    yield PAGE, fill(root / PAGE, sections)


def _reference() -> Iterator[str]:
    for page in pages():
        yield f"### {page.words}"
        yield ""
        yield f"    {page.words} {page.usage}"
        yield ""
        for paragraph in page.paragraphs:
            yield from _paragraph(paragraph)
            yield ""
        yield from _records(page)


def _paragraph(paragraph: Paragraph) -> Iterator[str]:
    if paragraph.verbatim:
        yield from (f"    {line}" for line in paragraph.text.splitlines())
    else:
        yield _escaped(paragraph.text)


def _records(page: CommandPage) -> Iterator[str]:
    records = [record for record in (*page.arguments, *page.options) if "--help" not in record[0]]
    if not records:
        return
    yield "| argument or option | |"
    yield "|---|---|"
    for spelling, text in records:
        cell = _escaped(" ".join(text.split())).replace("|", "\\|")
        yield f"| `{spelling.replace('|', chr(92) + '|')}` | {cell} |"
    yield ""


def _escaped(text: str) -> str:
    return text.replace("<", "&lt;").replace("*", "\\*")


def _old_spellings() -> Iterator[str]:
    yield "| command | was | is |"
    yield "|---|---|---|"
    for (words, old), new in RENAMED.items():
        yield f"| `opavnic {words}` | `{old}` | `{new}` |"


def _words_elsewhere() -> Iterator[str]:
    yield "| you type | it is |"
    yield "|---|---|"
    for theirs, ours in ELSEWHERE.items():
        yield f"| `{theirs}` | `opavnic {ours}` |"
