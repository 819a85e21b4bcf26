"""The name that a person probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str:
    """Return `known: a, b; nearest: a` for an error message about `name`."""
    names = list(known)
    if not names:
        return "none is known"
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.0)
    return f"known: {', '.join(names)}; nearest: {close[0]}"
