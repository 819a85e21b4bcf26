"""Whether what was done many times has left something behind: counts of objects, by type, before and after."""

from __future__ import annotations

import gc
from collections import Counter
from typing import Final

import pytest

from opavnic.world import change_log
from vema.attributes.counters import ErrorCounters, SummaryCounters

WARM_UP: Final = 40
"""Times until caches and lists of the last events are as large as they become."""
_MORE: Final = 300
"""Objects more that may be there afterwards, however many times it was: timers, caches."""
_COME_AND_GO: Final = ("ReferenceType", "TimerHandle", "Context")
"""Types of which there are now more and now fewer."""


def shorten_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the log of the last changes be full when a lab has warmed up."""
    monkeypatch.setattr(change_log, "CHANGES_KEPT", WARM_UP)


def objects() -> Counter[str]:
    """Return how many objects of each type there are."""
    for counters in (SummaryCounters, ErrorCounters):
        counters.parse(bytes(counters.SIZE)).build()  # compiled when the EM polls for the first time
    gc.collect()
    return Counter(type(one).__qualname__ for one in gc.get_objects())


def left_behind(before: Counter[str], times: int) -> dict[str, int]:
    """Return the types of which one object or more is left for each time, or all that has grown if that is much."""
    grown = objects() - before
    for name in _COME_AND_GO:
        grown.pop(name, None)
    return {name: count for name, count in grown.items() if count >= times or grown.total() > _MORE}
