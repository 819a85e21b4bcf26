r"""The log of a lab: written to a file and sent to its followers. Logging never fails or blocks the caller.

Records that cannot be written (full disk, removed directory) are counted, and reported once writing works again.
Of similar messages, the first `MAX_ALIKE` in ten seconds are written and the others counted.
The file has a limited size, see `log_file`; a follower that does not keep up misses lines and is told how many.
A record is one line, with control characters shown as \xNN; only tracebacks take more lines.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections import deque
from collections.abc import Hashable
from pathlib import Path
from typing import Final

from hfi_sim.base.clock import TimerHandle
from hfi_sim.base.text import visible
from opavnic.base.packages import listening
from opavnic.lab.file.parts import part_log_names
from opavnic.lab.ownership.log_file import LogFile

KEPT_LINES: Final = 2000
"""Number of recent lines in memory: a new follower starts with them, and a slow one may leave as many unread."""
RETRY_S: Final = 5.0
"""Interval between attempts to write again after a failure: no kernel announces that a disk has room again."""
_FORMAT: Final = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
_NAME: Final = "opavnic.lab.run.logs"


class _Formatter(logging.Formatter):
    """Formats a record, with a limited length."""

    def format(self, record: logging.LogRecord) -> str:
        try:
            record.message = shortened(record.getMessage())
        except Exception as error:  # arguments that do not match the format, or whose str() fails
            record.message = (
                f"{record.pathname}:{record.lineno} logs what cannot be shown: {type(error).__name__}"
            )
        record.asctime = self.formatTime(record)
        text = visible(self.formatMessage(record))
        if record.exc_info and record.exc_info[0] is not None:
            trace = shortened(self.formatException(record.exc_info))
            text += "".join(f"\n{visible(line)}" for line in trace.splitlines())
        return text


class LogFollower:
    """The lines for one reader: the recent ones, then new ones. A reader that is too slow misses the oldest."""

    def __init__(self, kept: deque[str]) -> None:
        self._lines = deque(kept, maxlen=KEPT_LINES)
        self._missed = 0
        self._ended = False
        self._news = asyncio.Event()

    def put(self, line: str) -> None:
        """Add a line."""
        self._missed += len(self._lines) == KEPT_LINES
        self._lines.append(line)
        self._news.set()

    def end(self) -> None:
        """Announce that no more lines will come."""
        self._ended = True
        self._news.set()

    @property
    def has_news(self) -> bool:
        """Whether `next` returns at once."""
        return bool(self._missed or self._lines or self._ended)

    async def next(self) -> str | None:
        """Wait for the next line; return None if no more will come."""
        while not self.has_news:
            self._news.clear()
            await self._news.wait()
        if self._missed:
            missed, self._missed = self._missed, 0
            return f"... {missed} lines are left out here: they came faster than they were read"
        return self._lines.popleft() if self._lines else None


class LogHub(logging.Handler):
    """A logging handler that writes a file, keeps the recent lines, and feeds followers."""

    def __init__(self, file: Path) -> None:
        """Attach to the loggers of all packages that take part in a lab. Needs a running event loop."""
        super().__init__(logging.INFO)
        self.setFormatter(_Formatter(_FORMAT))
        self.lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._file = LogFile(file)
        self._limit = RateLimit()
        self._followers: list[LogFollower] = []
        self._timer: TimerHandle | None = None
        self._lost = 0
        """Records since `_lost_since` that are missing from the file."""
        self._lost_since = self._lost_why = ""
        self._listening = contextlib.ExitStack()
        self._listening.enter_context(listening(self, self.level, part_log_names()))
        bugs = logging.getLogger("asyncio")  # exceptions of tasks and callbacks that are never awaited
        bugs.addHandler(self)
        self._listening.callback(bugs.removeHandler, self)

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record. Never raises."""
        if threading.get_ident() == self._thread:
            self._take(record)
        else:
            with contextlib.suppress(RuntimeError):  # the loop is closed because the lab has ended
                self._loop.call_soon_threadsafe(self._take, record)

    def _take(self, record: logging.LogRecord) -> None:
        try:
            now = self._loop.time()
            self._report_left_out(now)
            if self._limit.admit(now, (record.name, record.pathname, record.lineno), record):
                self._put(record)
            self._arm(now)
        except Exception as error:  # a bug in the log must not affect the code that logs
            self._lose(record, f"{type(error).__name__}: {error}")

    def _put(self, record: logging.LogRecord) -> None:
        line = self.format(record)
        self._show(line)
        notice = self._notice()
        text = line if notice is None else f"{notice}\n{line}"
        why = self._file.append(text.encode() + b"\n")
        if why:
            self._lose(record, why)
        elif notice is not None:
            self._found(notice)

    def _show(self, line: str) -> None:
        self.lines.append(line)
        for follower in self._followers:
            follower.put(line)

    def _lose(self, record: logging.LogRecord, why: str) -> None:
        if not self._lost:
            self._lost_since = logging.Formatter().formatTime(record)
        self._lost += 1
        self._lost_why = why

    def _notice(self) -> str | None:
        """Return a line about the records missing from the file; None if there are none."""
        if not self._lost:
            return None
        text = f"{self._lost} records since {self._lost_since} could not be written here: {self._lost_why}"
        return self.format(_record(logging.WARNING, _NAME, text))

    def _found(self, notice: str) -> None:
        """Note that the file is writable again; the notice has been written to it."""
        self._lost = 0
        self._show(notice)

    def _report_left_out(self, now: float) -> None:
        for number, last in self._limit.take(now):
            self._put(_left_out(number, last))

    def _arm(self, now: float) -> None:
        """Set a timer for the end of an interval in which messages were left out, or for retrying the file."""
        if self._timer is not None:
            return
        due = now + RETRY_S if self._lost else None
        if self._limit.ends_at is not None:
            due = self._limit.ends_at if due is None else min(due, self._limit.ends_at)
        if due is not None:
            self._timer = self._loop.call_at(due, self._due)

    def _due(self) -> None:
        self._timer = None
        now = self._loop.time()
        self._report_left_out(now)
        self._retry()
        self._arm(now)

    def _retry(self) -> None:
        notice = self._notice()
        if notice is not None and not self._file.append(notice.encode() + b"\n"):
            self._found(notice)

    @property
    def followers(self) -> int:
        """Number of followers."""
        return len(self._followers)

    def subscribe(self) -> LogFollower:
        """Return the recent lines and all new ones, for one reader."""
        follower = LogFollower(self.lines)
        self._followers.append(follower)
        return follower

    def unsubscribe(self, follower: LogFollower) -> None:
        """Stop sending lines to a reader."""
        self._followers.remove(follower)

    def end_followers(self) -> None:
        """Tell the followers that no more lines will come."""
        for follower in self._followers:
            follower.end()

    def close(self) -> None:
        """Detach from the loggers, restore them, and write the pending notices. Never raises."""
        self._listening.close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._report_left_out(float("inf"))
        self._retry()
        self._file.close()
        super().close()


def _left_out(number: int, last: logging.LogRecord) -> logging.LogRecord:
    """Return a record about messages that were left out: their number and the text of the last one."""
    try:
        text = last.getMessage()
    except Exception:  # as in _Formatter
        text = f"{last.pathname}:{last.lineno}"
    more = f"{number} more like it within {INTERVAL_S:g} s, the last one: {text}"
    return _record(last.levelno, last.name, more)


def _record(level: int, name: str, text: str) -> logging.LogRecord:
    return logging.LogRecord(name, level, __file__, 0, text, None, None)


INTERVAL_S: Final = 10.0
MAX_ALIKE: Final = 200
"""Messages of one kind in an interval; further ones are counted."""
MAX_KINDS: Final = 256
"""Kinds that are distinguished in an interval; all further ones count as one kind."""
MAX_RECORD: Final = 8192
"""Characters of a record; the middle of a longer one is left out."""


class RateLimit:
    """Admits `MAX_ALIKE` records of a kind in an interval and counts the rest; an interval begins with a record."""

    def __init__(self) -> None:
        self.ends_at: float | None = None
        """The end of the interval, if something was left out in it; else None."""
        self._until = float("-inf")
        self._kinds: dict[Hashable, tuple[int, logging.LogRecord]] = {}
        """How many there were of each in the interval, and the last one."""

    def admit(self, now: float, kind: Hashable, item: logging.LogRecord) -> bool:
        """Return whether a record is admitted. Call `take` first: this discards what an ended interval left out."""
        if now >= self._until:
            self._kinds.clear()
            self._until = now + INTERVAL_S
        if kind not in self._kinds and len(self._kinds) >= MAX_KINDS:
            kind = None
        seen, _ = self._kinds.get(kind, (0, item))
        self._kinds[kind] = seen + 1, item
        if seen < MAX_ALIKE:
            return True
        self.ends_at = self._until
        return False

    def take(self, now: float) -> list[tuple[int, logging.LogRecord]]:
        """Return how many of each kind the last interval left out, and the last one; nothing until it has ended."""
        if self.ends_at is None or now < self.ends_at:
            return []
        found = [(seen - MAX_ALIKE, last) for seen, last in self._kinds.values() if seen > MAX_ALIKE]
        self._kinds.clear()
        self.ends_at = None
        return found


def shortened(text: str) -> str:
    """Return `text`, reduced to its ends if it has more than MAX_RECORD characters."""
    if len(text) <= MAX_RECORD:
        return text
    half = MAX_RECORD // 2
    return f"{text[:half]} ... {len(text) - 2 * half} characters left out ... {text[-half:]}"
