"""The reference of commands, made from their helps: docs/reference/cli.md, and a page each in docs/reference/cli."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from opavnic.cli.base.group import ELSEWHERE, RENAMED
from opavnic.cli.program.tree import PROGRAM, CommandPage, Paragraph, pages
from tools.examples import Example, by_command
from tools.generate.sections import Section, fill

PAGE: Final = "docs/reference/cli.md"
DIRECTORY: Final = "docs/reference/cli"
_SITE: Final = "mkdocs.yml"
_ORIGIN: Final = "opavnic/cli"
_TOGETHER: Final = 15
"""Commands of a group that stand on one page; where there are more, each of its own groups has a page."""


def reference(root: Path) -> Iterator[tuple[str, str]]:
    """Yield the list of commands, their pages, and the site's contents with these."""
    by_page = _by_page(list(pages()))
    shown = by_command()
    sections = {
        "commands": Section("\n".join(_listed(by_page)) + "\n", _ORIGIN),
        "old-spellings": Section("\n".join(_old_spellings()) + "\n", _ORIGIN),
        "words-elsewhere": Section("\n".join(_words_elsewhere()) + "\n", _ORIGIN),
    }
    yield PAGE, fill(root / PAGE, sections)
    for name, commands in by_page.items():
        lines = (
            line
            for level, one in enumerate(commands)
            for line in (*_reference(one, "##" if level else "#"), *_examples(shown.get(one.words, [])))
        )
        yield f"{DIRECTORY}/{_file(name)}", "\n".join(lines).rstrip() + "\n"
    entries = "".join(
        f"          - {name.removeprefix(PROGRAM + ' ')}: reference/cli/{_file(name)}\n" for name in by_page
    )
    yield _SITE, fill(root / _SITE, {"commands": Section(entries, _ORIGIN)})


def _by_page(commands: list[CommandPage]) -> dict[str, list[CommandPage]]:
    """Return the commands that stand on a page together, by the words of the first."""
    sizes = Counter(_words(command, 2) for command in commands)
    found: dict[str, list[CommandPage]] = {}
    for command in commands:
        name = _words(command, 2 if sizes[_words(command, 2)] <= _TOGETHER else 3)
        found.setdefault(name, []).append(command)
    return found


def _words(command: CommandPage, number: int) -> str:
    return " ".join(command.words.split()[:number])


def _file(name: str) -> str:
    return f"{name.removeprefix(PROGRAM + ' ').replace(' ', '-')}.md"


def _listed(by_page: dict[str, list[CommandPage]]) -> Iterator[str]:
    yield "| command | |"
    yield "|---|---|"
    for name, commands in by_page.items():
        yield f"| [`{name}`](cli/{_file(name)}) | {_escaped(commands[0].summary)} |"


def _reference(page: CommandPage, heading: str) -> Iterator[str]:
    yield f"{heading} {page.words}"
    yield ""
    yield "```text"
    yield f"{page.words} {page.usage}"
    yield "```"
    yield ""
    for paragraph in page.paragraphs:
        yield from _paragraph(paragraph)
        yield ""
    yield from _records(page)


def _paragraph(paragraph: Paragraph) -> Iterator[str]:
    if paragraph.verbatim:
        yield from ("```text", *paragraph.text.splitlines(), "```")
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


def _examples(shown: list[Example]) -> Iterator[str]:
    for example in shown:
        said = "What it prints:" if example.output else "It prints nothing:"
        yield "For example:" if example.block.not_run else said
        yield ""
        yield "```console"
        yield from (f"$ {line}" for line in example.block.text.splitlines())
        yield from example.output.splitlines()
        yield "```"
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
