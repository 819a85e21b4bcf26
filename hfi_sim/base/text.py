"""Text for people: counted nouns, articles, hints for unknown names, foreign text made safe to print on one line."""

from __future__ import annotations

from collections.abc import Iterable
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


def attribute_docs(declared: type) -> dict[str, str]:
    """Return the docstrings of the members of a class by name; only the source of the class has them."""
    import ast  # late: few programs need it
    import inspect
    import textwrap
    from itertools import pairwise

    tree = ast.parse(textwrap.dedent(inspect.getsource(declared)))
    body = next(node.body for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    docs = {}
    for item, after in pairwise(body):
        target = item.targets[0] if isinstance(item, ast.Assign) else getattr(item, "target", None)
        if isinstance(target, ast.Name) and isinstance(after, ast.Expr):
            docs[target.id] = " ".join(str(ast.literal_eval(after.value)).split())
    return docs


NEAR = 0.4
"""The least similarity of two names, by difflib, at which one is suggested for the other.

So `h1` is suggested for `h9` and `h77`, and nothing for `zebra`."""
MISSPELT = 0.6
"""The same for words that are misspelt by a letter or two, as keys are: `qdisc` is not a misspelt `hfis`."""
_SHOWN = 8
_LISTED = 12
_HINTS = 100


def unknown_name(what: str, name: str, known: Iterable[str]) -> str:
    """Return `unknown host "h9" (nearest: "h1"; known: h1, h2)`, with at most eight of the known names.

    If none is similar, only the known names are listed.
    """
    names = list(known)
    if not names:
        return f'unknown {what} "{name}" (none exist)'
    close = closest(name, names)
    like = f'nearest: "{close[0]}"; ' if close else ""
    rest = f", ... ({len(names)} in all)" if len(names) > _SHOWN else ""
    return f'unknown {what} "{name}" ({like}known: {", ".join(names[:_SHOWN])}{rest})'


def nearest(name: str, known: Iterable[str], near: float = NEAR) -> str:
    """Return `known: a, b; nearest: a` for a message about `name`, with at most twelve of the known names.

    If none is similar, no nearest name is given.
    """
    names = list(known)
    if not names:
        return "none exist"
    more = ", ..." if len(names) > _LISTED else ""
    close = closest(name, names, near)
    return f"known: {', '.join(names[:_LISTED])}{more}" + (f"; nearest: {close[0]}" if close else "")


def like(name: object, known: Iterable[str]) -> str:
    """Return ` (nearest: "external")` for a message that lists all that is known; empty if none is similar."""
    close = closest(name, known, MISSPELT) if isinstance(name, str) else []
    return f' (nearest: "{close[0]}")' if close else ""


def hint(name: str, known: Iterable[str], before: int) -> str:
    """Return what `nearest` does, in brackets; nothing where `before`, the mistakes listed already, are many.

    To compare a name with all that are known takes time, and the hundredth hint is not read.
    """
    return f" ({nearest(name, known)})" if before < _HINTS else ""


def closest(name: str, known: Iterable[str], near: float = NEAR) -> list[str]:
    """Return the name most like another one, or nothing."""
    import difflib  # only mistakes need it

    lowered = {one.lower(): one for one in reversed(list(known))}
    return [lowered[one] for one in difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=near)]
