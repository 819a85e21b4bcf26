"""Numbers that are kept: for what is gone and may come back, and in a file for what order would number otherwise."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Final, Generic, TypeVar

REMEMBERED: Final = 256
"""Things that are gone whose numbers are kept for them; the one that left first is forgotten first."""

Name = TypeVar("Name", bound=Hashable)
Value = TypeVar("Value")
Key = TypeVar("Key", bound=Hashable)
Number = TypeVar("Number")


class Remembered(Generic[Name, Value]):
    """Values by the names of things that are gone, a bounded number of them."""

    def __init__(self, limit: int = REMEMBERED) -> None:
        """Start empty. Args: limit: how many are kept."""
        self._limit = limit
        self._values: OrderedDict[Name, Value] = OrderedDict()

    def keep(self, name: Name, value: Value) -> list[tuple[Name, Value]]:
        """Keep the value of a thing that goes; return those that are forgotten for it."""
        self._values[name] = value
        self._values.move_to_end(name)
        return [self._values.popitem(last=False) for _ in range(len(self._values) - self._limit)]

    def get(self, name: Name) -> Value | None:
        """Return the value that a thing had, which stays kept; None: it is not known."""
        return self._values.get(name)

    def take(self, name: Name) -> Value | None:
        """Return the value of a thing that comes back, and keep it no longer; None: it is not known."""
        return self._values.pop(name, None)

    def forget_oldest(self) -> tuple[Name, Value] | None:
        """Forget what left first, and return it; None: nothing is kept."""
        return self._values.popitem(last=False) if self._values else None

    def values(self) -> Iterator[Value]:
        """Yield the values that are kept, the oldest first."""
        return iter(self._values.values())

    def __len__(self) -> int:
        return len(self._values)


def pins_for(
    actual: Mapping[Key, Number], give: Callable[[Mapping[Key, Number]], Mapping[Key, Number]]
) -> dict[Key, Number]:
    """Return a part of `actual` with which `give` returns all of it.

    Args:  give: gives each key its number; those of its argument are fixed.
    """
    pinned: dict[Key, Number] = {}
    while True:
        given = give(pinned)
        wrong = {key: number for key, number in actual.items() if given.get(key) != number}
        if not wrong.keys() - pinned.keys():
            return pinned
        pinned |= wrong
