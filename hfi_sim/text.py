"""Text for people: numbers of things, and foreign text that stays on its line and commands no terminal."""

from __future__ import annotations


def visible(text: str) -> str:
    r"""Return a text with what a terminal would obey, or not show, as \xNN and the like."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def counted(number: int, singular: str, plural: str = "") -> str:
    """Return `1 host` or `2 hosts`; `plural` where an s is not enough."""
    return f"{number} {singular if number == 1 else plural or singular + 's'}"
