"""The control plane's state in SQLite, written before the data plane is programmed and read at start."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

from ejfat.errors import EjfatError
from hfi_sim.private_file import close_to_others, make_private_file

_BUSY = 5
"""The low byte of SQLITE_BUSY and its extended result codes."""
_SCHEMA = """
CREATE TABLE IF NOT EXISTS state (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    data TEXT NOT NULL
);
"""


class Store:
    """A single row that each transaction replaces as a whole, so that a reader gets the state before or after a change.

    The database belongs to one process, because two load balancers would overwrite each other's epochs. SQLite's
    lock is released with the process, however it ends.
    """

    def __init__(self, path: Path | str) -> None:
        """Open the database; if it is missing, create it with access for its user only. ":memory:" keeps it in memory.

        Raises:  EjfatError: it cannot be opened, is not a database, or is used by another process.
        """
        self.path = path
        on_disk = str(path) != ":memory:"
        if on_disk:
            make_private_file(path)  # it holds tokens
        try:
            self._db = sqlite3.connect(path, timeout=0)
        except sqlite3.Error as error:
            raise EjfatError(f"{path}: {error}") from None
        try:
            # in this order: a locking mode set before the first access holds from that access on
            self._db.execute("PRAGMA locking_mode=EXCLUSIVE")
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.executescript(_SCHEMA)
            if on_disk:
                close_to_others(path)
        except sqlite3.Error as error:
            self._db.close()
            if getattr(error, "sqlite_errorcode", 0) & 0xFF == _BUSY:
                raise EjfatError(f"{path}: another process uses this state file") from None
            raise EjfatError(f"{path}: {error}") from None
        self._last = ""

    def save(self, state: dict[str, Any]) -> bool:
        """Store the state; return False if it equals the last stored one.

        Raises:  EjfatError: it cannot be written.
        """
        text = json.dumps(state, separators=(",", ":"))
        if text == self._last:
            return False
        try:
            with self._db:
                self._db.execute("INSERT OR REPLACE INTO state (id, data) VALUES (1, ?)", (text,))
        except sqlite3.Error as error:
            raise EjfatError(f"{self.path}: {error}") from None
        self._last = text
        return True

    def load(self) -> dict[str, Any] | None:
        """Return the last stored state; None if there is none.

        Raises:  EjfatError: it cannot be read.
        """
        try:
            row = self._db.execute("SELECT data FROM state WHERE id = 1").fetchone()
            state = json.loads(row[0]) if row else None
        except (sqlite3.Error, ValueError, RecursionError) as error:
            raise EjfatError(f"{self.path}: {error}") from None
        if state is not None and not isinstance(state, dict):
            raise EjfatError(f"{self.path}: the stored state is not a JSON object")
        return state

    def close(self) -> None:
        """Close the database; may be called twice."""
        self._db.close()
