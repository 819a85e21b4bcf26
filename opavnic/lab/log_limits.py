"""What keeps a log short whatever is logged: how often messages of one kind may come, how long one may be. Sans-IO."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

INTERVAL_S: Final = 10.0
MAX_ALIKE: Final = 200
"""Messages of one kind in an interval; further ones are counted."""
MAX_KINDS: Final = 256
"""Kinds that are told apart in an interval; further ones are taken for one kind."""
MAX_RECORD: Final = 8192
"""Characters of a record; of a longer one the middle is left out."""

Item = TypeVar("Item")


@dataclass(slots=True)
class Alike(Generic[Item]):
    """What came of one kind in an interval."""

    last: Item
    seen: int = 0
    left_out: int = 0


class RateLimit(Generic[Item]):
    """Lets `MAX_ALIKE` items of a kind pass in an interval and counts the rest; intervals begin with an item."""

    def __init__(self) -> None:
        self.ends_at: float | None = None
        """When the interval ends in which something was left out; None: nothing was."""
        self._until = float("-inf")
        self._kinds: dict[Hashable, Alike[Item]] = {}

    def admit(self, now: float, kind: Hashable, item: Item) -> bool:
        """Return whether an item may pass. What `take` returns of an interval that has ended comes before it."""
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
        """Return what was left out of the interval, where that has ended: each kind once."""
        if self.ends_at is None or now < self.ends_at:
            return []
        found = [alike for alike in self._kinds.values() if alike.left_out]
        self._kinds.clear()
        self.ends_at = None
        return found


def shortened(text: str, limit: int = MAX_RECORD) -> str:
    """Return `text` with so much left out of its middle that begin and end of it have `limit` characters."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]} ... {len(text) - 2 * half} characters left out ... {text[-half:]}"
