"""Text of others made harmless: a line stays a line, and nothing in it is obeyed by a terminal."""

from __future__ import annotations


def visible(text: str) -> str:
    r"""Return a text with what a terminal would obey, or not show, as \xNN and the like."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
