"""The database of the EM in SQLite: WAL, one transaction for each batch of records, safe against kill -9.

A disk that is full for a while does not stop the EM (`StoreWriter`). Counters and events have a time from the wall
clock that the caller provides, in seconds.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sqlite3
from collections.abc import Callable, Hashable, Iterable, Sequence
from pathlib import Path
from typing import Final, TypeVar

from hfi_sim.base.private_file import close_to_others, make_private_file
from vema.base.errors import VemaError
from vema.em.store.persisted import (
    CountersRecord,
    EventRecord,
    Memory,
    Record,
    SlotsRecord,
    Tombstone,
    VportRecord,
)
from vema.em.store.rows import (
    Row,
    counters_record,
    event_record,
    guid_text,
    slots_record,
    slots_row,
    text,
    text_of,
    vport_record,
    vport_row,
)

log = logging.getLogger("vema.em")

Item = TypeVar("Item")

SCHEMA_VERSION: Final = 1
EVENTS_KEPT: Final = 10_000
IN_MEMORY: Final = ":memory:"

_SCHEMA: Final = f"""
BEGIN;
CREATE TABLE IF NOT EXISTS settings (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS vports (
  guid TEXT, vport_num INTEGER, vesw_id INTEGER, digest INTEGER, layout BLOB,
  uc_macs BLOB, uc_gen INTEGER, mc_macs BLOB, mc_gen INTEGER, base_mac BLOB,
  PRIMARY KEY (guid, vport_num)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS slots (vesw_id INTEGER PRIMARY KEY, slots BLOB);
CREATE TABLE IF NOT EXISTS counters (
  id INTEGER PRIMARY KEY, time REAL, guid TEXT, vport_num INTEGER, vesw_id INTEGER, counts TEXT);
CREATE INDEX IF NOT EXISTS counters_of_vport ON counters (guid, vport_num, id);
CREATE TABLE IF NOT EXISTS events (
  id INTEGER PRIMARY KEY, time REAL, kind TEXT, port TEXT, vport_num INTEGER, vesw_id INTEGER, text TEXT);
INSERT OR IGNORE INTO settings VALUES ('schema', '{SCHEMA_VERSION}');
COMMIT;
"""  # noqa: S608
_WITHOUT: Final = (
    "move it away: a manager without a database reads the agents, and changes nothing that is right"
)


class StoreError(VemaError):
    """The database cannot be opened, read or written; the message includes the reason."""


class Store:
    """One database file; `:memory:` lasts only as long as the process."""

    def __init__(self, path: Path | str, *, wall_clock: Callable[[], float], history: int = 1000) -> None:
        """Open or create the database, accessible only to its user.

        Args:    wall_clock: seconds since 1970; history: readings of counters kept for each vport.
        Raises:  StoreError: not a database of this version, or not writable; such a file is not changed.
        """
        self._path = path
        self._wall_clock = wall_clock
        self.history = history
        """Readings of counters kept for each vport."""
        self._file: os.stat_result | None = None
        """Identifies the file; None for `:memory:`."""
        self.is_closed = False
        """It has nothing to read any more."""
        on_disk = str(path) != IN_MEMORY
        if on_disk:
            make_private_file(path)
        try:
            self._db = sqlite3.connect(str(path), isolation_level=None)
        except sqlite3.Error as error:
            raise StoreError(f"{path}: {error}") from error
        self._db.text_factory = text_of
        try:
            self._recognise()
            if on_disk:
                close_to_others(path)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.executescript(_SCHEMA)
            if on_disk:
                self._file = os.stat(path)
        except StoreError:
            self._db.close()
            raise
        except (sqlite3.Error, OSError, ValueError) as error:
            self._db.close()
            raise StoreError(f"{path}: {error}") from error

    def _recognise(self) -> None:
        """Check, before anything is written, that this is not the database of another program or version."""
        tables = {name for (name,) in self._db.execute("SELECT name FROM sqlite_master WHERE type='table'")}
        if not tables:
            return
        version = self._setting("schema") if "settings" in tables else None
        if version is None:
            raise StoreError(
                f"{self._path}: a database of another program (tables {', '.join(sorted(tables))})"
            )
        if version != str(SCHEMA_VERSION):
            raise StoreError(f"{self._path}: schema {version}, this program knows {SCHEMA_VERSION}")

    def close(self) -> None:
        """Close the database. May be called twice."""
        self.is_closed = True
        with contextlib.suppress(sqlite3.Error):  # committed data is safe in the WAL
            self._db.close()

    # --- writing -------------------------------------------------------------------------------------------

    def _check_place(self) -> None:
        """Check that the file is still at its path: SQLite silently goes on with a removed one."""
        if self._file is None:
            return
        try:
            there = os.path.samestat(self._file, os.stat(self._path))
        except OSError:
            there = False
        if not there:
            raise StoreError(f"{self._path}: cannot write: removed or replaced since it was opened")

    def write(self, records: Iterable[Record]) -> None:
        """Write a batch of records, all or none.

        Raises:  StoreError: they cannot be written, or the file has been removed.
        """
        self._check_place()
        db = self._db
        try:
            db.execute("BEGIN")
            for record in records:
                if isinstance(record, VportRecord):
                    db.execute("REPLACE INTO vports VALUES (?,?,?,?,?,?,?,?,?,?)", vport_row(record))
                elif isinstance(record, SlotsRecord):
                    db.execute("REPLACE INTO slots VALUES (?,?)", slots_row(record))
                elif isinstance(record, Tombstone):
                    self._forget(record)
                elif isinstance(record, EventRecord):
                    self._write_event(record)
                else:
                    self._write_counters(record)
            db.execute("COMMIT")
        except sqlite3.Error as error:
            with contextlib.suppress(sqlite3.Error):
                if db.in_transaction:
                    db.execute("ROLLBACK")
            raise StoreError(f"{self._path}: cannot write: {error}") from error

    def _forget(self, gone: Tombstone) -> None:
        if isinstance(gone.key, int):
            self._db.execute("DELETE FROM slots WHERE vesw_id=?", (gone.key,))
        else:
            guid, vport_num = gone.key
            self._db.execute("DELETE FROM vports WHERE guid=? AND vport_num=?", (guid_text(guid), vport_num))

    def _write_event(self, event: EventRecord) -> None:
        row = (self._wall_clock(), event.kind, event.port, event.vport_num, event.vesw_id, event.text)
        cursor = self._db.execute("INSERT INTO events VALUES (NULL,?,?,?,?,?,?)", row)
        if (cursor.lastrowid or 0) % 100 == 0:
            self._db.execute("DELETE FROM events WHERE id<=?", ((cursor.lastrowid or 0) - EVENTS_KEPT,))

    def _write_counters(self, record: CountersRecord) -> None:
        guid = guid_text(record.guid)
        row = (self._wall_clock(), guid, record.vport_num, record.vesw_id, json.dumps(dict(record.values)))
        self._db.execute("INSERT INTO counters VALUES (NULL,?,?,?,?,?)", row)
        self._db.execute(
            "DELETE FROM counters WHERE guid=?1 AND vport_num=?2 AND id<=(SELECT id FROM counters WHERE guid=?1 "
            "AND vport_num=?2 ORDER BY id DESC LIMIT 1 OFFSET ?3)",
            (guid, record.vport_num, self.history),
        )

    def set_config(self, text: str) -> None:
        """Store the current configuration.

        Raises:  StoreError: it cannot be written, or the file has been removed.
        """
        self._check_place()
        try:
            self._db.execute("REPLACE INTO settings VALUES ('config',?)", (text,))
        except sqlite3.Error as error:
            raise StoreError(f"{self._path}: cannot write: {error}") from error

    def clear(self) -> None:
        """Forget everything, the configuration too.

        Raises:  StoreError: it cannot be written, or the file has been removed.
        """
        self._check_place()
        tables = ("vports", "slots", "counters", "events")
        deletions = "; ".join(f"DELETE FROM {table}" for table in tables)  # noqa: S608
        try:
            self._db.executescript(f"BEGIN; {deletions}; DELETE FROM settings WHERE name='config'; COMMIT;")  # noqa: S608
        except sqlite3.Error as error:
            with contextlib.suppress(sqlite3.Error):
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
            raise StoreError(f"{self._path}: cannot write: {error}") from error

    def _setting(self, name: str) -> str | None:
        row = self._db.execute("SELECT value FROM settings WHERE name=?", (name,)).fetchone()
        return None if row is None else text(row[0])

    # --- reading -------------------------------------------------------------------------------------------

    def load(self) -> Memory:
        """Return the records of the last run of the EM.

        Raises:  StoreError: the file is damaged.
        """
        try:
            vports = [vport_record(row) for row in self._db.execute("SELECT * FROM vports")]
            slots = [slots_record(row) for row in self._db.execute("SELECT vesw_id, slots FROM slots")]
            return Memory(vports, slots, self._setting("config"))
        except (sqlite3.Error, ValueError) as error:
            raise self.damaged(error) from error

    def damaged(self, error: Exception) -> StoreError:
        """Return the error for contents that this program cannot have written."""
        return StoreError(f"{self._path}: damaged ({' '.join(str(error).split())}); {_WITHOUT}")

    def events(self, *, after: int = 0, limit: int = 100) -> list[EventRecord]:
        """Return the last `limit` events with a number above `after`, oldest first; damaged ones are left out.

        Raises:  StoreError: the file is damaged.
        """
        query = "SELECT * FROM events WHERE id>? ORDER BY id DESC LIMIT ?"
        return self._read(query, (after, limit), event_record)

    def counters(self, *, guid: int | None = None, limit: int = 100) -> list[CountersRecord]:
        """Return the last `limit` readings, of one port or of all, oldest first; damaged ones are left out.

        Raises:  StoreError: the file is damaged.
        """
        where, arguments = ("WHERE guid=?", [guid_text(guid)]) if guid is not None else ("", [])
        query = (
            f"SELECT time, guid, vport_num, vesw_id, counts FROM counters {where} ORDER BY id DESC LIMIT ?"  # noqa: S608
        )
        return self._read(query, (*arguments, limit), counters_record)

    def _read(self, query: str, arguments: Sequence[int | str], make: Callable[[Row], Item]) -> list[Item]:
        """Convert the rows with `make` and return them in reverse order; log how many are damaged."""
        try:
            rows = self._db.execute(query, arguments).fetchall()
        except (sqlite3.Error, ValueError) as error:  # ValueError: the name of a column is not text
            raise self.damaged(error) from error
        found = []
        for row in reversed(rows):
            with contextlib.suppress(ValueError):
                found.append(make(row))
        if len(found) < len(rows):
            log.warning("%s: %d damaged rows are left out", self._path, len(rows) - len(found))
        return found


RECORDS_LOST = "records-lost"
"""The event that states how many events and readings are missing from the database."""


class StoreWriter:
    """Writes batches of records, and retries failed ones together with the next batch.

    For that it keeps the newest record of each vport and each table, and counts events and readings, so that their
    number can be written instead. So the memory it needs is limited by the number of vports and tables.
    """

    def __init__(self, store: Store) -> None:
        self.lost = 0
        """Events and readings lost since the last successful write."""
        self._store = store
        self._waiting: dict[Hashable, Record] = {}
        self._broken = False

    def write(self, records: Sequence[Record]) -> None:
        """Write a batch and everything pending. Disk errors are not raised but logged when they start and end."""
        if not records:
            return
        gap = [EventRecord(RECORDS_LOST, text=_gap(self.lost))] if self.lost else []
        try:
            self._store.write([*self._waiting.values(), *gap, *records])
        except StoreError as error:
            if not self._broken:
                log.warning("the state is not stored; a restart of the EM would lose it: %s", error)
            self._broken = True
            self._keep(records)
            return
        if self._broken:
            log.warning(
                "the database of the EM is written again%s", f"; {_gap(self.lost)}" if self.lost else ""
            )
        self._broken = False
        self._waiting.clear()
        self.lost = 0

    def _keep(self, records: Sequence[Record]) -> None:
        for record in records:
            if isinstance(record, EventRecord | CountersRecord):
                self.lost += 1
            else:
                key: Hashable = record.key if isinstance(record, VportRecord | Tombstone) else record.vesw_id
                self._waiting[key] = record


def _gap(lost: int) -> str:
    return f"{lost} events and readings could not be written"
