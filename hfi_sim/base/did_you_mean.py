"""Error messages for unknown names."""

from __future__ import annotations

from collections.abc import Iterable

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
