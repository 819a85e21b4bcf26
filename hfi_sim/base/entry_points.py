"""What installed packages add to the program, by group; a process reads their lists once, each of which is a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TypeVar

Row = TypeVar("Row")


def entry_points_of(group: str) -> tuple[EntryPoint, ...]:
    """Return the entry points of a group, such as "opavnic.parts"."""
    return all_entry_points().get(group, ())


@cache
def all_entry_points() -> Mapping[str, tuple[EntryPoint, ...]]:
    """Return those of all groups, by group."""
    found = entry_points()
    return {group: tuple(found.select(group=group)) for group in sorted(found.groups)}


def owner_of(point: EntryPoint) -> str:
    """Return whose an entry point is, for messages."""
    return point.dist.name if point.dist else point.value


class JoinedRows(MutableMapping[str, Row]):
    """Rows by name: one's own, and those of installed packages, where no other has the name.

    A package is loaded when its row is first asked for: it may import the module of the rows, too.
    """

    def __init__(self, own: Mapping[str, Row], group: str, load: Callable[[EntryPoint], Row]) -> None:
        self._rows = dict(own)
        self._points = {point.name: point for point in entry_points_of(group)}
        self._load = load

    def __getitem__(self, name: str) -> Row:
        if name not in self._rows and name in self._points:
            self._rows[name] = self._load(self._points[name])
        return self._rows[name]

    def __setitem__(self, name: str, row: Row) -> None:
        self._rows[name] = row

    def __delitem__(self, name: str) -> None:
        del self._rows[name]

    def __contains__(self, name: object) -> bool:
        return name in self._rows or name in self._points

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self._rows, *self._points]))

    def __len__(self) -> int:
        return len(self._rows.keys() | self._points.keys())
