"""The memory of the EM in SQLite: WAL, one transaction for each batch of records, safe against kill -9.

Counters and events carry the time of a wall clock, in seconds, that the caller gives.
"""

from __future__ import annotations

import json
import sqlite3
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from hfi_sim.types import MacAddr
from vema.em.records import CountersRecord, EventRecord, Gone, Memory, Record, SlotsRecord, VportRecord
from vema.errors import VemaError

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
    "move it away: a manager without a database asks the agents, and changes nothing that is right"
)
_SLOT: Final = struct.Struct(">Q6s")
_MAC_SIZE: Final = 6


class StoreError(VemaError):
    """The database cannot be opened or written, with what SQLite says."""


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """An event with its place in time."""

    number: int
    time: float
    event: EventRecord


@dataclass(frozen=True, slots=True)
class StoredCounters:
    """A reading of counters with its place in time."""

    time: float
    counters: CountersRecord


class Store:
    """One database file; `:memory:` keeps it for the life of the process only."""

    def __init__(self, path: Path | str, *, wall_clock: Callable[[], float], history: int = 1000) -> None:
        """Open or make the database.

        Args:    wall_clock: seconds since 1970; history: readings of counters kept for each vport.
        Raises:  StoreError: not a database of this version, or not writable; such a file is left as it is.
        """
        self._path = path
        self._wall_clock = wall_clock
        self.history = history
        """Readings of counters kept for each vport."""
        try:
            self._db = sqlite3.connect(str(path), isolation_level=None)
        except sqlite3.Error as error:
            raise StoreError(f"{path}: {error}") from error
        try:
            self._recognise()
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.executescript(_SCHEMA)
        except StoreError:
            self._db.close()
            raise
        except (sqlite3.Error, ValueError) as error:  # ValueError: text that is no UTF-8
            self._db.close()
            raise StoreError(f"{path}: {error}") from error

    def _recognise(self) -> None:
        """Look before anything is written: somebody else's database is no place for ours."""
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
        """Close the database; harmless when done twice."""
        self._db.close()

    # --- writing -------------------------------------------------------------------------------------------

    def write(self, records: Iterable[Record]) -> None:
        """Write a batch of records, all of them or none."""
        db = self._db
        try:
            db.execute("BEGIN")
            for record in records:
                if isinstance(record, VportRecord):
                    db.execute("REPLACE INTO vports VALUES (?,?,?,?,?,?,?,?,?,?)", _vport_row(record))
                elif isinstance(record, SlotsRecord):
                    blob = b"".join(_SLOT.pack(owner, mac) for owner, mac in record.slots)
                    db.execute("REPLACE INTO slots VALUES (?,?)", (record.vesw_id, blob))
                elif isinstance(record, Gone):
                    self._forget(record)
                elif isinstance(record, EventRecord):
                    self._write_event(record)
                else:
                    self._write_counters(record)
            db.execute("COMMIT")
        except sqlite3.Error as error:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise StoreError(f"{self._path}: cannot write: {error}") from error

    def _forget(self, gone: Gone) -> None:
        if isinstance(gone.key, int):
            self._db.execute("DELETE FROM slots WHERE vesw_id=?", (gone.key,))
        else:
            guid, vport_num = gone.key
            self._db.execute("DELETE FROM vports WHERE guid=? AND vport_num=?", (_guid(guid), vport_num))

    def _write_event(self, event: EventRecord) -> None:
        row = (self._wall_clock(), event.kind, event.port, event.vport_num, event.vesw_id, event.text)
        cursor = self._db.execute("INSERT INTO events VALUES (NULL,?,?,?,?,?,?)", row)
        if (cursor.lastrowid or 0) % 100 == 0:
            self._db.execute("DELETE FROM events WHERE id<=?", ((cursor.lastrowid or 0) - EVENTS_KEPT,))

    def _write_counters(self, record: CountersRecord) -> None:
        guid = _guid(record.guid)
        row = (self._wall_clock(), guid, record.vport_num, record.vesw_id, json.dumps(dict(record.values)))
        self._db.execute("INSERT INTO counters VALUES (NULL,?,?,?,?,?)", row)
        self._db.execute(
            "DELETE FROM counters WHERE guid=?1 AND vport_num=?2 AND id<=(SELECT id FROM counters WHERE guid=?1 "
            "AND vport_num=?2 ORDER BY id DESC LIMIT 1 OFFSET ?3)",
            (guid, record.vport_num, self.history),
        )

    def set_config(self, text: str) -> None:
        """Remember the configuration that is in force.

        Raises:  StoreError: it cannot be written.
        """
        try:
            self._db.execute("REPLACE INTO settings VALUES ('config',?)", (text,))
        except sqlite3.Error as error:
            raise StoreError(f"{self._path}: cannot write: {error}") from error

    def _setting(self, name: str) -> str | None:
        row = self._db.execute("SELECT value FROM settings WHERE name=?", (name,)).fetchone()
        return None if row is None else str(row[0])

    # --- reading -------------------------------------------------------------------------------------------

    def load(self) -> Memory:
        """Return what the last life of the EM left.

        Raises:  StoreError: the file is damaged.
        """
        try:
            vports = [_vport_record(row) for row in self._db.execute("SELECT * FROM vports")]
            slots = [
                SlotsRecord(vesw_id, tuple((owner, MacAddr(mac)) for owner, mac in _SLOT.iter_unpack(blob)))
                for vesw_id, blob in self._db.execute("SELECT vesw_id, slots FROM slots")
            ]
            return Memory(vports, slots, self._setting("config"))
        except (sqlite3.Error, struct.error, TypeError, ValueError) as error:
            raise self.damaged(error) from error

    def damaged(self, error: Exception) -> StoreError:
        """Return what to say of contents that this program has not written."""
        return StoreError(f"{self._path}: damaged ({' '.join(str(error).split())}); {_WITHOUT}")

    def events(self, *, after: int = 0, limit: int = 100) -> list[StoredEvent]:
        """Return the last `limit` events with a number above `after`, oldest first."""
        rows = self._db.execute(
            "SELECT * FROM events WHERE id>? ORDER BY id DESC LIMIT ?", (after, limit)
        ).fetchall()
        return [StoredEvent(row[0], row[1], EventRecord(*row[2:])) for row in reversed(rows)]

    def counters(self, *, guid: int | None = None, limit: int = 100) -> Iterator[StoredCounters]:
        """Yield the last `limit` readings, of one port or of all, oldest first."""
        where, arguments = ("WHERE guid=?", [_guid(guid)]) if guid is not None else ("", [])
        query = (
            f"SELECT time, guid, vport_num, vesw_id, counts FROM counters {where} ORDER BY id DESC LIMIT ?"  # noqa: S608
        )
        for row in reversed(self._db.execute(query, [*arguments, limit]).fetchall()):
            yield StoredCounters(row[0], CountersRecord(int(row[1], 16), row[2], row[3], json.loads(row[4])))


def _guid(guid: int) -> str:
    return f"{guid:016x}"


def _vport_row(record: VportRecord) -> tuple[Any, ...]:
    layout = None if record.layout is None else struct.pack(f">{len(record.layout)}Q", *record.layout)
    return (
        _guid(record.guid),
        record.vport_num,
        record.vesw_id,
        record.digest,
        layout,
        b"".join(record.uc_macs),
        record.uc_gen,
        b"".join(record.mc_macs),
        record.mc_gen,
        record.base_mac,
    )


def _vport_record(row: tuple[Any, ...]) -> VportRecord:
    guid, vport_num, vesw_id, digest, layout, uc_macs, uc_gen, mc_macs, mc_gen, base_mac = row
    keys = None if layout is None else struct.unpack(f">{len(layout) // 8}Q", layout)
    return VportRecord(
        int(guid, 16), vport_num, vesw_id, digest, keys,
        _macs(uc_macs), uc_gen, _macs(mc_macs), mc_gen, MacAddr(base_mac),
    )  # fmt: skip


def _macs(blob: bytes) -> tuple[MacAddr, ...]:
    return tuple(MacAddr(blob[at : at + _MAC_SIZE]) for at in range(0, len(blob), _MAC_SIZE))
