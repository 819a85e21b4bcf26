"""A load balancer without a control plane: its tables are a script in a file, and follow it while it is changed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from ejfat.live.carrier import NativeCarrier
from ejfat.live.ports import EthernetPort
from ejfat.pipeline import Pipeline
from ejfat.pipeline.native import NativePipeline
from ejfat.tables.schema import Op, TableSet, Update
from ejfat.tables.script import load_script
from opavnic.base.errors import OpavnicError
from opavnic.base.files import MAX_TEXT, read_text

log = logging.getLogger("ejfat.live.tables_file")
LOOK_S = 0.2
"""Seconds between two looks at the file; it is read once it is as it was at the look before."""
Stamp = tuple[int, int, int]
"""Inode, size and time of the last change of a file."""


class TablesFile:
    """A script in a file, and the tables that follow it."""

    def __init__(self, path: Path, tables: TableSet) -> None:
        self._path = path
        self._tables = tables
        self._seen: Stamp | None = None
        """The file at the last look."""
        self._read: Stamp | None = None
        """The file when it was last read."""

    def load(self) -> int:
        """Make the tables those of the file, at once; return the number of entries that changed.

        Raises:  FileError, EjfatError: the file cannot be read or is not a table script; the tables are as before.
        """
        self._seen = self._read = self._stamp()
        wanted = load_script(read_text(self._path, MAX_TEXT, "tables"), str(self._path))
        updates = changes(self._tables, wanted)
        self._tables.apply(updates)
        return len(updates)

    def look(self) -> bool:
        """Return whether the file has changed since it was read, and is no longer being written."""
        before, self._seen = self._seen, self._stamp()
        return self._seen is not None and self._seen == before and self._seen != self._read

    def _stamp(self) -> Stamp | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns


def changes(present: TableSet, wanted: TableSet) -> list[Update]:
    """Return the updates that turn some tables into others: what goes first, because tables may be full."""
    gone: list[Update] = []
    come: list[Update] = []
    for dialect, table in present:
        name = table.spec.name
        new = {entry.matches: entry for entry in wanted.table(dialect, name)}
        old = {entry.matches: entry for entry in table}
        gone += [Update(Op.DELETE, dialect, name, one) for key, one in old.items() if key not in new]
        come += [Update(Op.PUT, dialect, name, one) for key, one in new.items() if old.get(key) != one]
    return gone + come


async def serve_tables(
    path: Path,
    pipeline: Pipeline,
    port: EthernetPort,
    ended: asyncio.Event,
    failed: Callable[[str], None],
    ready: Callable[[], None],
) -> int:
    """Forward frames by the tables of a file until `ended`; return the number of frames the interface did not accept.

    Args:    failed: called with the reason if the interface is lost. ready: called when frames are forwarded.
    Raises:  FileError, EjfatError: the file cannot be read or is not a table script.
    """
    file = TablesFile(path, pipeline.tables)
    file.load()

    def receive(frame: bytes) -> None:
        verdict = pipeline.process(frame)
        if verdict.frame is not None and not verdict.to_host:
            port.send(verdict.frame)

    carrier = None
    if isinstance(pipeline, NativePipeline):
        carrier = NativeCarrier(pipeline, port, receive, failed)
        carrier.start()
    else:
        port.start(receive, failed)
    ready()
    try:
        while not ended.is_set():
            try:
                await asyncio.wait_for(ended.wait(), LOOK_S)
            except TimeoutError:
                _follow(file, path)
    finally:
        if carrier is not None:
            carrier.close()
    return port.lost + (carrier.lost if carrier is not None else 0)


def _follow(file: TablesFile, path: Path) -> None:
    if not file.look():
        return
    try:
        count = file.load()
    except OpavnicError as error:
        log.error("the tables stay as they were: %s", error)
    else:
        log.warning("%s was read again: %d entries changed", path, count)
