"""What is wrong, said once: a line when it begins, a line when it has ended. Sans-IO."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

AT_ONCE: Final = 20
"""New lines that are said at a time; of more, only the number."""


class News(NamedTuple):
    """What is to be said."""

    begun: list[str]
    ended: list[str]


class Reported:
    """What has been said and holds still."""

    def __init__(self) -> None:
        self._lines: dict[str, None] = {}

    def news(self, lines: Iterable[str]) -> News:
        """Return what is new among all that holds now, and what holds no more."""
        now = dict.fromkeys(lines)
        begun = [line for line in now if line not in self._lines]
        ended = [line for line in self._lines if line not in now]
        self._lines = now
        return News(_cut(begun), _cut(ended))


def _cut(lines: list[str]) -> list[str]:
    if len(lines) <= AT_ONCE:
        return lines
    return [*lines[:AT_ONCE], f"... and {len(lines) - AT_ONCE} more; opavnic em status has all"]
