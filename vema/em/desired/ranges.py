"""Names written as ranges, `h[1-16]`, and the one place where lab and EM files have them written out.

h[1-3]            h1 h2 h3
h[01-03,10]       h01 h02 h03 h10
leaf[1-2]:[1-2]   leaf1:1 leaf1:2 leaf2:1 leaf2:2
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from vema.em.desired.problems import KeyPath, Problem

ALL: Final = "all"
MAX_NAMES: Final = 4096
"""Names of one range."""
_PARTS: Final = re.compile(r"\[([^\[\]]*)\]")
_RANGE: Final = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?", re.ASCII)


def spread_name(text: str) -> list[str]:
    """Return the names that `text` means; itself where it has no range.

    Raises:  ValueError: a range that cannot be meant.
    """
    if "[" not in text and "]" not in text:
        return [text]
    fixed_and_ranges = _PARTS.split(text)
    if any(mark in piece for piece in fixed_and_ranges[::2] for mark in "[]"):
        raise ValueError(f'"{text}": a bracket has no partner; a range is written h[1-16] or h[1-4,7]')
    ranges = [_numbers(text, inside) for inside in fixed_and_ranges[1::2]]
    total = 1
    for numbers in ranges:
        total *= len(numbers)
    if total > MAX_NAMES:
        raise ValueError(f'"{text}" means {total} names; a range has at most {MAX_NAMES}')
    fixed = fixed_and_ranges[::2]
    return [
        "".join(itertools.chain(*zip(fixed, chosen, strict=False), fixed[len(chosen) :]))
        for chosen in itertools.product(*ranges)
    ]


def _numbers(text: str, inside: str) -> list[str]:
    numbers: list[str] = []
    for item in inside.split(","):
        match = _RANGE.fullmatch(item.strip())
        if match is None:
            raise ValueError(f'"{text}": "[{inside}]" is not a range such as [1-16] or [1-4,7]')
        first, last = match[1], match[2] or match[1]
        if int(first) > int(last):
            raise ValueError(f'"{text}": {first}-{last} counts down; write {last}-{first}')
        width = len(first) if first.startswith("0") else 0
        if int(last) - int(first) >= MAX_NAMES:
            raise ValueError(f'"{text}": a range has at most {MAX_NAMES} names')
        numbers += [str(number).zfill(width) for number in range(int(first), int(last) + 1)]
    if len(set(numbers)) != len(numbers):
        raise ValueError(f'"{text}": a number appears twice')
    return numbers


_FIRST_GUID: Final = 1 << 32


@dataclass(slots=True)
class Spread:
    """Plain data of a file with its ranges written out, and where each value stood before."""

    data: Any
    problems: list[Problem] = field(default_factory=list)
    """Ranges that cannot be meant; they are left as they are."""
    origins: dict[KeyPath, KeyPath] = field(default_factory=dict)
    """Where what has moved came from: the longest beginning of a path counts."""

    def place(self, problems: Iterable[Problem]) -> list[Problem]:
        """Return problems with the paths that the file has; what is wrong in many names of one range, once."""
        placed = (Problem(self._origin(problem.path), problem.message) for problem in problems)
        return list({(problem.path, problem.message): problem for problem in placed}.values())

    def names(self, value: object, path: KeyPath) -> object:
        """Return a list of names written out; a single text is a list of one. Other values are returned as they are."""
        if isinstance(value, str):
            value = [value]
            alone = True
        elif isinstance(value, list):
            alone = False
        else:
            return value
        spread: list[object] = []
        for index, name in enumerate(value):
            here = path if alone else (*path, index)
            if isinstance(name, int) and name >= _FIRST_GUID:
                name = f"{name:#018x}"  # a GUID without quotes, which YAML reads as a number
            for one in self.one(name, here) if isinstance(name, str) else (name,):
                self.origins[(*path, len(spread))] = here
                spread.append(one)
        return spread

    def one(self, text: str, path: KeyPath) -> list[str]:
        """Return the names that a text means, or the text and a problem."""
        try:
            return spread_name(text)
        except ValueError as error:
            self.problems.append(Problem(path, str(error)))
            return [text]

    def _origin(self, path: KeyPath) -> KeyPath:
        for length in range(len(path), 0, -1):
            if (origin := self.origins.get(path[:length])) is not None:
                return (*origin, *path[length:])
        return path


def spread_vesws(spread: Spread, everybody: list[str] | None = None) -> None:
    """Write out members and default ports of all virtual switches.

    Args:  everybody: what `all` means; None: it stays, as its meaning is not in the file.
    """
    vesws = spread.data.get("vesws") if isinstance(spread.data, Mapping) else None
    if not isinstance(vesws, list):
        return
    written = []
    for index, vesw in enumerate(vesws):
        if isinstance(vesw, Mapping):
            vesw = dict(vesw)
            for key in ("members", "default_ports"):
                if key not in vesw:
                    continue
                if key == "members" and vesw[key] == ALL:
                    if everybody is not None:
                        path: KeyPath = ("vesws", index, key)
                        spread.origins |= {(*path, at): path for at in range(len(everybody))}
                        vesw[key] = list(everybody)
                else:
                    vesw[key] = spread.names(vesw[key], ("vesws", index, key))
        written.append(vesw)
    spread.data = {**spread.data, "vesws": written}
