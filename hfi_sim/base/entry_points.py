"""What installed packages add to the program, by group; a process reads their lists once, each of which is a file."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points


def entry_points_of(group: str) -> tuple[EntryPoint, ...]:
    """Return the entry points of a group, such as "opavnic.parts"."""
    return all_entry_points().get(group, ())


@cache
def all_entry_points() -> Mapping[str, tuple[EntryPoint, ...]]:
    """Return those of all groups, by group."""
    found = entry_points()
    return {group: tuple(found.select(group=group)) for group in sorted(found.groups)}
