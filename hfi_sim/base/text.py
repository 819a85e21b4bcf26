"""Text for people: counted nouns, articles, and foreign text made safe to print on one line of a terminal."""

from __future__ import annotations

from html import escape


def visible(text: str) -> str:
    r"""Return a text with control and invisible characters escaped as \xNN and the like."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def xml_text(text: str) -> str:
    """Return a text for an XML or HTML document, which may have neither control characters nor lone surrogates."""
    return escape(visible(text))


def counted(number: int, singular: str, plural: str = "") -> str:
    """Return `1 host` or `2 hosts`; `plural` is needed if it is not `singular` with an s."""
    return f"{number} {singular if number == 1 else plural or singular + 's'}"


def with_article(noun: str) -> str:
    """Return `a lab file` or `an EM file`."""
    return f"{'an' if noun.startswith(('a', 'e', 'i', 'o', 'EM ')) else 'a'} {noun}"
