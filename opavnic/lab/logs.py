"""What a lab logs: into its file, and to everyone who follows it."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from pathlib import Path
from typing import Final

KEPT_LINES: Final = 2000
_FORMAT: Final = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
_PACKAGES: Final = ("hfi_sim", "vema", "opavnic")


class LogHub(logging.Handler):
    """A logging handler that writes a file, keeps the last lines, and feeds followers."""

    def __init__(self, file: Path, level: int = logging.INFO) -> None:
        """Open `file` for appending."""
        super().__init__(level)
        self.setFormatter(logging.Formatter(_FORMAT))
        self.lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._file = file.open("a", encoding="utf-8", buffering=1)
        self._followers: list[asyncio.Queue[str | None]] = []
        self._loggers = [logging.getLogger(name) for name in _PACKAGES]
        for logger in self._loggers:
            logger.addHandler(self)
            logger.setLevel(level)

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        line = self.format(record)
        self.lines.append(line)
        self._file.write(line + "\n")
        for queue in self._followers:
            queue.put_nowait(line)

    def subscribe(self) -> asyncio.Queue[str | None]:
        """Return a queue of the lines to come; None ends it."""
        queue: asyncio.Queue[str | None] = asyncio.Queue()
        self._followers.append(queue)
        return queue

    def unsubscribe(self, queue: asyncio.Queue[str | None]) -> None:
        """Stop feeding a queue."""
        self._followers.remove(queue)

    def end_followers(self) -> None:
        """Tell the followers that nothing more will come."""
        for queue in self._followers:
            queue.put_nowait(None)

    def close(self) -> None:
        """Stop listening to the loggers and close the file."""
        for logger in self._loggers:
            logger.removeHandler(self)
        self._file.close()
        super().close()
