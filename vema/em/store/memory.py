"""Store the records of an EM on a disk that may be temporarily full, while the EM goes on."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Sequence

from vema.em.store.database import Store, StoreError
from vema.em.store.persisted import CountersRecord, EventRecord, Record, Tombstone, VportRecord

log = logging.getLogger("vema.em")

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
