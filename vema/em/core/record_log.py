"""What the EM has to remember and what a person may want to know, until it is written. Sans-IO."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from vema.em.core.state import Port, Vport
from vema.em.store.persisted import EventRecord, Record

log = logging.getLogger("vema.em")


class RecordLog:
    """Records in the order in which they were added."""

    def __init__(self) -> None:
        self._records: list[Record] = []

    def add(self, *records: Record) -> None:
        """Add records."""
        self._records += records

    def extend(self, records: Iterable[Record]) -> None:
        """Add all records of an iterable."""
        self._records += records

    def event(self, kind: str, port: Port, vport: Vport | None = None, *, text: str = "") -> None:
        """Add an event of a port, and log it."""
        num, vesw_id = (None, None) if vport is None else (vport.num, vport.vesw_id or None)
        log.info("[%s%s] %s %s", port.facts.name, "" if num is None else f" vport {num}", kind, text)
        self._records.append(EventRecord(kind, port.facts.name, num, vesw_id, text))

    def take(self) -> list[Record]:
        """Return the records added since the last call."""
        records, self._records = self._records, []
        return records
