"""An extension of griffe: our docstrings, in which Args, Returns and Raises are prose, as sections of Google's style.

    Args:    topology: gets one more HFI. seed: of all randomness.
    Raises:  TopologyError: the topology cannot be built.

becomes one item for each parameter and each exception, which the site shows as a table.

`python -m tools.docstrings` prints which callables of the API pages lack such a section; exit 1 if any does.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import yaml
from griffe import Class, Extension, Function, GriffeLoader, Object

ROOT: Final = Path(__file__).parents[1]
_SHOWN: Final = re.compile(r"^::: (\S+)\n(?:    options: (\{.*\})\n)?", re.MULTILINE)
"""What an API page shows, with its options."""

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


def problems(function: Function) -> Iterator[str]:
    """Yield what the docstring of a function lacks."""
    text = "" if function.docstring is None else function.docstring.value
    given = [parameter.name for parameter in function.parameters if parameter.name not in ("self", "cls")]
    begin, *parts = _SECTION.split(text)
    found = dict(zip(parts[::2], parts[1::2], strict=True))
    if given and not re.search(rf"\b({'|'.join(given)}): ", _line(found.get("Args", ""))):
        yield f"no Args: {', '.join(given)}"
    if error := re.search(rf"\b[Rr]aises ({_ERROR})", begin):
        yield f"{error[1]} stands in prose: write `Raises:  {error[1]}: when`"


def shown(page: str, loader: GriffeLoader) -> Iterator[Function]:
    """Yield the functions and methods that a page shows with their parameters."""
    for name, given in _SHOWN.findall(page):
        options = {"filters": ["!^_"]} | (yaml.safe_load(given) if given else {})
        if options.get("show_signature", True):
            hidden = re.compile("|".join(each[1:] for each in options["filters"]))
            for found in _functions(loader.modules_collection[name], options.get("inherited_members", False)):
                if not hidden.search(found.name):
                    yield found


def _functions(of: Any, inherited: bool) -> Iterator[Function]:
    if isinstance(of, Function):
        yield of
    else:
        members = of.all_members if inherited and isinstance(of, Class) else of.members
        for each in members.values():
            target = each.final_target if inherited and each.is_alias else each
            if isinstance(target, Function) and not target.labels & {"property"}:
                yield target


def main() -> int:
    """Print what the API pages lack; return 1 if they lack anything."""
    pages = sorted((ROOT / "docs/reference/api").glob("*.md"))
    texts = [page.read_text(encoding="utf-8") for page in pages]
    loader = GriffeLoader(search_paths=[ROOT])
    for package in {name.partition(".")[0] for text in texts for name, _ in _SHOWN.findall(text)}:
        loader.load(package)
    wrong = {
        f"{function.path}: {problem}"
        for text in texts
        for function in shown(text, loader)
        for problem in problems(function)
    }
    print("\n".join(sorted(wrong)), end="\n" if wrong else "", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
