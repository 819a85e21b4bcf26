"""Generated sections of files that are otherwise written by hand.

A section begins with a comment `generated: NAME` and ends with `end of generated`:

    -- generated: lrh16b (made by `make generated` from hfi_sim/wire/lrh16b.py; do not edit)
    -- end of generated
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_SECTION: Final = re.compile(
    r"^(?P<indent> *)(?P<open>--|//|#|<!--) generated: (?P<name>[\w-]+).*?^ *(?P=open) end of generated[^\n]*\n",
    re.DOTALL | re.MULTILINE,
)
_CLOSING: Final = {"<!--": " -->"}


class SectionError(Exception):
    """The sections that a file marks are not those that are made for it; the message names both."""


@dataclass(frozen=True, slots=True)
class Section:
    """The text of one section, and the files that it is made from."""

    text: str
    origin: str


def note(origin: str) -> str:
    """Return what the head of everything generated says."""
    return f"made by `make generated` from {origin}; do not edit"


def fill(path: Path, sections: Mapping[str, Section]) -> str:
    """Return the text of a file with its sections made anew.

    Raises:  SectionError: the file marks other sections, or one of them twice.
    """
    text = path.read_text()
    marked = [match["name"] for match in _SECTION.finditer(text)]
    if sorted(marked) != sorted(sections):
        there, wanted = ", ".join(sorted(marked)) or "none", ", ".join(sorted(sections))
        raise SectionError(f"{path}: marks the generated sections {there}; it is to have {wanted}")

    def made_anew(found: re.Match[str]) -> str:
        section = sections[found["name"]]
        before, after = f"{found['indent']}{found['open']} ", f"{_CLOSING.get(found['open'], '')}\n"
        head = f"generated: {found['name']} ({note(section.origin)})"
        return f"{before}{head}{after}{section.text}{before}end of generated{after}"

    return _SECTION.sub(made_anew, text)
