"""Commands as documents give them: in comments of lab files, and in indented or fenced blocks of pages."""

from __future__ import annotations

import shlex
from pathlib import Path


def commands(document: Path, program: str) -> list[list[str]]:
    """Return the words of each command of a program that a document gives, in order. A backslash continues a line."""
    found = []
    lines = iter(document.read_text(encoding="utf-8").splitlines())
    for line in lines:
        text = line.strip().lstrip("#").strip()
        if not text.startswith(f"{program} "):
            continue
        while text.endswith("\\"):
            text = text[:-1] + next(lines).strip().lstrip("#").strip()
        found.append(shlex.split(text, comments=True))
    return found
