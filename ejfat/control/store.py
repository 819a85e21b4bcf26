"""The control plane's state in SQLite: what changed is written by a thread of its own, and all is read at start."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ejfat.base.errors import EjfatError
from hfi_sim.base.private_file import close_to_others, make_private_file

_BUSY = 5
"""The low byte of SQLITE_BUSY and its extended result codes."""
_SCHEMA = "CREATE TABLE IF NOT EXISTS part (key TEXT PRIMARY KEY, data TEXT NOT NULL) WITHOUT ROWID;"
_OLDER = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'state'"
"""Finds the only table of the format before this one."""


class StateStore:
    """Parts of the state by key. Changes that wait are written in one transaction, so that a reader gets the state
    before or after them.

    The database belongs to one process, because two load balancers would overwrite each other's epochs. SQLite's
    lock is released with the process, however it ends.
    """

    def __init__(
        self, path: Path | str, on_trouble: Callable[[str | None], None] = lambda reason: None
    ) -> None:
        """Open the database; if it is missing, create it with access for its user only. ":memory:" keeps it in memory.

        Args:    on_trouble: called by the thread with the reason when writing begins to fail, and with None when it
            succeeds again.
        Raises:  EjfatError: it cannot be opened, is not a database, has another format, or is used by another process.
        """
        self.path = path
        on_disk = str(path) != ":memory:"
        if on_disk:
            make_private_file(path)  # it holds hashes of tokens
        try:
            # one thread at a time: this one until the first change, then that of `_write`
            self._db = sqlite3.connect(path, timeout=0, check_same_thread=False)
        except sqlite3.Error as error:
            raise EjfatError(f"{path}: {error}") from None
        try:
            # in this order: a locking mode set before the first access holds from that access on
            self._db.execute("PRAGMA locking_mode=EXCLUSIVE")
            self._db.execute("PRAGMA journal_mode=WAL")
            (older,) = self._db.execute(_OLDER).fetchone()
            self._db.executescript(_SCHEMA)
            if on_disk:
                close_to_others(path)
        except sqlite3.Error as error:
            self._db.close()
            if getattr(error, "sqlite_errorcode", 0) & 0xFF == _BUSY:
                raise EjfatError(f"{path}: another process uses this state file") from None
            raise EjfatError(f"{path}: {error}") from None
        if older:
            self._db.close()
            raise EjfatError(f"{path}: state of format 1, which this version does not read; remove the file")
        self._on_trouble = on_trouble
        self._state = threading.Condition()
        self._waiting: dict[str, Any] = {}
        """Changes that the thread has not taken yet."""
        self._given = self._tried = 0
        """How often changes were given, and up to which the thread has tried to write them."""
        self._waiters: list[tuple[int, Callable[[], None]]] = []
        self._trouble: str | None = None
        self._ending = False
        self._thread: threading.Thread | None = None

    def put(self, changes: Mapping[str, Any]) -> None:
        """Have changes written: plain data by key; None removes what is stored under the key.

        If writing failed before, what could not be written is tried again, also without changes.
        """
        with self._state:
            if not changes and self._trouble is None:
                return
            self._waiting.update(changes)
            self._given += 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._write, name="ejfat-state", daemon=True)
                self._thread.start()
            self._state.notify_all()

    def flush(self) -> None:
        """Wait until what was given has been written.

        Raises:  EjfatError: it cannot be written.
        """
        with self._state:
            given = self._given
            self._state.wait_for(lambda: self._tried >= given)
            if self._trouble is not None:
                raise EjfatError(f"{self.path}: {self._trouble}")

    async def written(self) -> None:
        """Wait, without blocking the loop, until what was given has been written or could not be."""
        loop = asyncio.get_running_loop()
        done = loop.create_future()

        def tell() -> None:
            if not done.done():
                done.set_result(None)

        with self._state:
            if self._tried >= self._given:
                return
            self._waiters.append((self._given, lambda: _soon(loop, tell)))
        await done

    def load(self) -> dict[str, Any]:
        """Return all parts by key; empty if there are none.

        Raises:  EjfatError: they cannot be read.
        """
        try:
            return {key: json.loads(text) for key, text in self._db.execute("SELECT key, data FROM part")}
        except (sqlite3.Error, ValueError, RecursionError) as error:
            raise EjfatError(f"{self.path}: {error}") from None

    def close(self) -> None:
        """Write what waits and close the database; may be called twice."""
        with self._state:
            self._ending = True
            self._state.notify_all()
        if self._thread is not None:
            self._thread.join()
        self._db.close()

    def _write(self) -> None:
        while True:
            with self._state:
                self._state.wait_for(lambda: self._ending or self._tried < self._given)
                if self._tried >= self._given:
                    return
                changes, self._waiting, given = self._waiting, {}, self._given
            trouble = self._write_all(changes)
            with self._state:
                if trouble is not None:  # newer values of the same parts win
                    self._waiting = changes | self._waiting
                before, self._trouble, self._tried = self._trouble, trouble, given
                due = [tell for number, tell in self._waiters if number <= given]
                self._waiters = [waiter for waiter in self._waiters if waiter[0] > given]
                if (before is None) != (trouble is None):
                    self._on_trouble(trouble)
                for tell in due:
                    tell()
                self._state.notify_all()

    def _write_all(self, changes: Mapping[str, Any]) -> str | None:
        """Write changes in one transaction; return the reason if that fails."""
        rows = [
            (key, json.dumps(data, separators=(",", ":")))
            for key, data in changes.items()
            if data is not None
        ]
        gone = [(key,) for key, data in changes.items() if data is None]
        try:
            with self._db:
                self._db.executemany("INSERT OR REPLACE INTO part (key, data) VALUES (?, ?)", rows)
                self._db.executemany("DELETE FROM part WHERE key = ?", gone)
        except sqlite3.Error as error:
            return str(error)
        return None


def _soon(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    with contextlib.suppress(RuntimeError):  # the loop has ended, and the waiters with it
        loop.call_soon_threadsafe(call)
