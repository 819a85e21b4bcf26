"""Limits that keep a log short: the number of similar messages in an interval, and the length of one. Sans-IO."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

INTERVAL_S: Final = 10.0
MAX_ALIKE: Final = 200
"""Messages of one kind in an interval; further ones are counted."""
MAX_KINDS: Final = 256
"""Kinds that are distinguished in an interval; all further ones count as one kind."""
MAX_RECORD: Final = 8192
"""Characters of a record; the middle of a longer one is left out."""

Item = TypeVar("Item")


@dataclass(slots=True)
class Alike(Generic[Item]):
    """The items of one kind in an interval."""

    last: Item
    seen: int = 0
    left_out: int = 0


class RateLimit(Generic[Item]):
    """Admits `MAX_ALIKE` items of a kind in an interval and counts the rest; an interval begins with an item."""

    def __init__(self) -> None:
        self.ends_at: float | None = None
        """The end of the interval, if something was left out in it; else None."""
        self._until = float("-inf")
        self._kinds: dict[Hashable, Alike[Item]] = {}

    def admit(self, now: float, kind: Hashable, item: Item) -> bool:
        """Return whether an item is admitted. Call `take` first: this discards what an ended interval left out."""
        if now >= self._until:
            self._kinds.clear()
            self._until = now + INTERVAL_S
        if kind not in self._kinds and len(self._kinds) >= MAX_KINDS:
            kind = None
        alike = self._kinds.setdefault(kind, Alike(item))
        alike.seen += 1
        if alike.seen <= MAX_ALIKE:
            return True
        alike.last = item
        alike.left_out += 1
        self.ends_at = self._until
        return False

    def take(self, now: float) -> list[Alike[Item]]:
        """Return what was left out of the last interval, once for each kind; nothing until it has ended."""
        if self.ends_at is None or now < self.ends_at:
            return []
        found = [alike for alike in self._kinds.values() if alike.left_out]
        self._kinds.clear()
        self.ends_at = None
        return found


def shortened(text: str) -> str:
    """Return `text`, reduced to its ends if it has more than MAX_RECORD characters."""
    if len(text) <= MAX_RECORD:
        return text
    half = MAX_RECORD // 2
    return f"{text[:half]} ... {len(text) - 2 * half} characters left out ... {text[-half:]}"
