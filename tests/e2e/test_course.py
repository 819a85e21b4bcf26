"""The lectures of the course, and guides to captures, congestion and faults: their commands print what the pages show,
without root's privileges."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from e2e.page_script import run_script
from permission import require
from tools.doc_blocks import ROOT, blocks, script

LECTURES = sorted((ROOT / "docs/tutorials/course").glob("[0-9]-*.md"))
PAGES = [*LECTURES, *(ROOT / "docs/how-to" / name for name in ("capture.md", "congestion.md", "fail.md"))]
QUICK = {"1-ethernet.md"}
"""The page that `make test` runs; the others are slow."""
_FENCE = re.compile(r"^```(sh|python|text)\n(.*?)^```$", re.M | re.S)


def answers(page: str) -> dict[int, list[str]]:
    """Return what the page shows of the output of a block, by the number of the block."""
    found: dict[int, list[str]] = {}
    number = -1
    for language, text in _FENCE.findall(page):
        if language == "text":
            found.setdefault(number, []).extend(text.splitlines())
        else:
            number += 1
    return found


def missing(shown: list[str], printed: str) -> list[str]:
    """Return the lines of an answer that the output does not have; `…` stands for anything, spaces for any number."""
    lines = [" ".join(line.split()) for line in printed.splitlines()]
    patterns = {line: re.escape(" ".join(line.split())).replace("…", ".*") for line in shown}
    return [line for line, pattern in patterns.items() if not any(re.match(pattern, one) for one in lines)]


@pytest.mark.parametrize(
    "page",
    [pytest.param(p, id=p.name, marks=[] if p.name in QUICK else [pytest.mark.slow]) for p in PAGES],
)
def test_page_shows_what_its_commands_print(page: Path, tmp_path: Path) -> None:
    require(["iperf3", "curl", "tshark"])
    text = page.read_text(encoding="utf-8")
    found = blocks(text)
    if page in LECTURES:
        assert text.count("**Question ") == text.count("<summary>Answer</summary>") >= 4
    printed = run_script(script(found), tmp_path, rootless=True)
    wrong = {found[number].text: missing(shown, printed[number]) for number, shown in answers(text).items()}
    told = "\n".join(f"{code}    lacks {lines}" for code, lines in wrong.items() if lines)
    assert not told, f"{told}\n{printed}"


def test_answer_that_is_not_printed_is_found() -> None:
    assert missing(["a …b", "c"], "a x b and more\n  c\n") == []
    assert missing(["a b", "d"], "a x b\nc\n") == ["a b", "d"]
