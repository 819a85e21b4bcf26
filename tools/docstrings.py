"""An extension of griffe: our docstrings, in which Args, Returns and Raises are prose, as sections of Google's style.

    Args:    topology: gets one more HFI. seed: of all randomness.
    Raises:  TopologyError: the topology cannot be built.

becomes one item for each parameter and each exception, which the site shows as a table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from griffe import Extension, Function, Object

_SECTION: Final = re.compile(
    r"(?:^|(?<=[.!?] ))[ ]*(Args|Returns|Yields|Raises|Source|Differs|Example):\s+", re.MULTILINE
)
_ITEMS: Final = ("Args", "Raises")
_PLAIN: Final = ("Source", "Differs", "Example")
_ERROR: Final = r"[A-Z]\w+(?:(?:, | or )[A-Z]\w+)*"


class Sections(Extension):
    """Rewrites the docstring of each object that is shown."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Rewrite a docstring, once."""
        if obj.docstring is not None:
            names = [parameter.name for parameter in obj.parameters] if isinstance(obj, Function) else []
            obj.docstring.value = sectioned(obj.docstring.value, names)


def sectioned(text: str, parameters: Iterable[str]) -> str:
    """Return a docstring in Google's style. Args: parameters: of the function, if it is one of a function."""
    begin, *parts = _SECTION.split(text)
    found = dict(zip(parts[::2], parts[1::2], strict=True))
    blocks = [begin.rstrip()]
    blocks += [f"**{name}:** {_line(found[name])}" for name in _PLAIN if name in found]
    for name, words in found.items():
        if name in _PLAIN:
            continue
        known = "|".join(map(re.escape, parameters)) if name == "Args" else _ERROR
        lines = _items(_line(words), known) if name in _ITEMS and known else [_line(words)]
        blocks.append("\n".join([f"{name}:", *(f"    {line}" for line in lines)]))
    return "\n\n".join(block for block in blocks if block)


def _line(text: str) -> str:
    return " ".join(text.split())


def _items(text: str, known: str) -> list[str]:
    """Return `name: text` for each item that the text names."""
    before, *parts = re.split(rf"(?:^|(?<=[.;?)] ))({known}): ", text)
    items = [f"{name}: {what.strip()}" for name, what in zip(parts[::2], parts[1::2], strict=True)]
    return [before, *items] if before.strip() else items
