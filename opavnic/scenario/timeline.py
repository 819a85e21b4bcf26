"""A timeline of events: the state changes that the packages log, with the scenario's own time."""

from __future__ import annotations

import contextlib
import logging
from collections import deque
from collections.abc import Iterator
from typing import Final

from hfi_sim.base.clock import Clock
from opavnic.base.log_packages import listening

_KEEP: Final = 500


class Timeline(logging.Handler):
    """Keeps the last events as (seconds, text)."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(logging.INFO)
        self.events: deque[tuple[float, str]] = deque(maxlen=_KEEP)
        self._clock = clock

    def emit(self, record: logging.LogRecord) -> None:
        """Add a log record."""
        self.note(f"{record.name}: {record.getMessage()}")

    def note(self, text: str) -> None:
        """Add an event of the test itself."""
        self.events.append((self._clock.time(), text))

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Listen to the packages' loggers while the context lasts."""
        with listening(self, logging.INFO):
            yield

    def text(self) -> str:
        """Return one line per event."""
        return "\n".join(f"{when * 1e3:12.6f} ms  {what}" for when, what in self.events) or "nothing happened"
