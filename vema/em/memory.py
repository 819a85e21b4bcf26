"""Stores the records of an EM on a disk that may be full for a while; the EM goes on meanwhile."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Sequence

from vema.em.persisted import CountersRecord, EventRecord, Record, Tombstone, VportRecord
from vema.em.store import Store, StoreError

log = logging.getLogger("vema.em")

RECORDS_LOST = "records-lost"
"""The event that says how many events and readings the database lacks."""


class StoreWriter:
    """Writes batches of records. What could not be written is written with the next batch that can be.

    Of each vport and each table the newest record is kept for that; events and readings are counted, and their number
    is written in their place. So what waits is never more than what the EM manages.
    """

    def __init__(self, store: Store) -> None:
        self.lost = 0
        """Events and readings that could not be written since the database last could."""
        self._store = store
        self._waiting: dict[Hashable, Record] = {}
        self._broken = False

    def write(self, records: Sequence[Record]) -> None:
        """Write a batch, and what waits. Never raises what a disk does; the log says when that begins and ends."""
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
