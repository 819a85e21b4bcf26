"""The database of the EM: damaged, half-made, somebody else's, full of old readings."""

from __future__ import annotations

import os
import random
import sqlite3
from collections import Counter
from pathlib import Path

import pytest

from hfi_sim.base.types import MacAddr
from unit.vema.em.em_fabric import EmFabric, config
from vema.em.store.database import IN_MEMORY, RECORDS_LOST, Store, StoreError, StoreWriter
from vema.em.store.persisted import CountersRecord, EventRecord, SlotsRecord, Tombstone, VportRecord


def store(path: Path | str, *, history: int = 1000) -> Store:
    return Store(path, wall_clock=lambda: 0.0, history=history)


def test_database_of_another_program_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "other.sqlite"
    other = sqlite3.connect(file)
    other.execute("CREATE TABLE settings (name TEXT, value TEXT)")
    other.execute("CREATE TABLE bookmarks (url TEXT)")
    other.commit()
    other.close()
    before = file.read_bytes()
    with pytest.raises(
        StoreError, match=r"other\.sqlite: a database of another program \(tables bookmarks, settings"
    ):
        store(file)
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["other.sqlite"]


@pytest.mark.parametrize("content", [b"no database at all" * 100, b"SQLite format 3\0" + b"\xff" * 5000])
def test_file_that_is_no_database_is_refused_and_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "em.db"
    file.write_bytes(content)
    with pytest.raises(StoreError, match=r"em\.db: "):
        store(file)
    assert file.read_bytes() == content


def test_place_without_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"none/em\.db: unable to open"):
        store(tmp_path / "none" / "em.db")


def test_schema_of_another_version_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "em.db"
    store(file).close()
    with sqlite3.connect(file) as db:
        db.execute("UPDATE settings SET value='99' WHERE name='schema'")
    db.close()
    with pytest.raises(StoreError, match="schema 99, this program knows 1"):
        store(file)


@pytest.mark.asyncio
@pytest.mark.looptime
@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE vports SET layout=X'010203'",
        "UPDATE vports SET guid='x' || guid",
        "UPDATE vports SET uc_macs=NULL",
        "UPDATE slots SET slots=X'0102'",
        "UPDATE settings SET value='{\"vesws\": 7}' WHERE name='config'",
        "DROP TABLE slots; CREATE TABLE slots (a TEXT)",
    ],
)
async def test_damaged_contents_are_refused_with_what_to_do(tmp_path: Path, damage: str) -> None:
    fabric = EmFabric(2)
    file = tmp_path / "em.db"
    em = fabric.em(database=file)
    em.start(config())
    assert await em.wait_converged()
    em.stop()
    db = sqlite3.connect(file)
    db.executescript(damage)
    db.close()
    again = fabric.em(database=file)
    with pytest.raises(StoreError, match=r"em\.db: damaged \(.*\); move it away"):
        again.start()
    again.stop()
    file.unlink()
    sets = fabric.sets()
    without = fabric.em(database=file)
    without.start(config())
    assert await without.wait_converged()
    assert fabric.sets() == sets
    without.stop()


def filled(path: Path) -> bytes:
    """Write a database with something of everything, and return its bytes."""
    written = store(path)
    written.set_config("{}")
    mac = MacAddr(b"\2\0\0\0\0\1")
    written.write([VportRecord(n, 1, 2, 5, (1, 2), (mac,), 3, (mac,), 4, mac) for n in range(20)])
    written.write([SlotsRecord(2, tuple((n, mac) for n in range(20)))])
    written.write([EventRecord("port-joined", f"h{n}:1", 1, 2, "text") for n in range(100)])
    written.write([CountersRecord(n, 1, 2, {"tx_packets": n}) for n in range(100)])
    written.close()
    return path.read_bytes()


def test_bytes_that_changed_on_disk_are_values_or_a_store_error(tmp_path: Path) -> None:
    file = tmp_path / "em.db"
    good = filled(file)
    outcomes: Counter[str] = Counter()
    for seed in range(250):
        rng = random.Random(seed)
        content = bytearray(good)
        if seed % 10 == 0:
            del content[rng.randrange(1, len(content)) :]
        for _ in range(rng.choice((1, 5, 50, 300))):
            content[rng.randrange(len(content))] = rng.randrange(256)
        for beside in tmp_path.iterdir():
            beside.unlink()
        file.write_bytes(content)
        try:
            read = store(file)
        except StoreError:
            outcomes["not opened"] += 1
            continue
        for name in ("load", "events", "counters"):
            try:
                getattr(read, name)()
                outcomes[name] += 1
            except StoreError as error:
                outcomes[f"{name} refused"] += len(str(error).splitlines())
        read.close()
    assert set(outcomes) == {  # the fuzz reaches every way out
        "not opened", "load", "events", "counters", "load refused", "events refused", "counters refused",
    }  # fmt: skip


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE events SET kind=X'ff41' WHERE id=2",
        "UPDATE events SET kind=CAST(X'ff41' AS TEXT) WHERE id=2",
        "UPDATE events SET time='noon' WHERE id=2",
        "UPDATE events SET time=9e999 WHERE id=2",
        "UPDATE events SET vesw_id='two' WHERE id=2",
        "UPDATE events SET text=NULL WHERE id=2",
    ],
)
def test_damaged_event_is_left_out_and_said(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    read = store(tmp_path / "em.db")
    read.write([EventRecord(kind) for kind in ("one", "two", "three")])
    read._db.execute(damage)
    assert [stored.kind for stored in read.events()] == ["one", "three"]
    assert caplog.messages == [f"{tmp_path}/em.db: 1 damaged rows are left out"]
    read.close()


@pytest.mark.parametrize(
    "damage",
    [
        "guid='xyz'",
        "guid=7.5",
        "counts='{'",
        "counts='[]'",
        'counts=\'{"tx": "1"}\'',
        "counts=CAST(X'7bff7d' AS TEXT)",
        f"counts='{'[' * 50_000}'",
        "vport_num=X'00'",
        "time=NULL",
    ],
)
def test_damaged_reading_is_left_out_and_said(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    read = store(tmp_path / "em.db")
    read.write([CountersRecord(1, number, 2, {"tx_packets": number}) for number in (1, 2, 3)])
    read._db.execute(f"UPDATE counters SET {damage} WHERE id=2")  # noqa: S608
    assert [stored.vport_num for stored in read.counters()] == [1, 3]
    assert caplog.messages == [f"{tmp_path}/em.db: 1 damaged rows are left out"]
    read.close()


def test_database_is_for_its_user_alone_from_the_start(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        kept = store(tmp_path / "em.db")
        kept.write([EventRecord("x")])
        modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
        kept.close()
    finally:
        os.umask(before)
    assert modes == {"em.db": 0o600, "em.db-wal": 0o600, "em.db-shm": 0o600}


def test_database_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    file = tmp_path / "em.db"
    filled(file)
    file.chmod(0o644)
    store(file).close()
    assert file.stat().st_mode & 0o777 == 0o600


def limit_pages(kept: Store, pages: int) -> None:
    """Have SQLite refuse to grow a database beyond so many pages, as on a full disk."""
    kept._db.execute(f"PRAGMA max_page_count={pages}")


@pytest.mark.looptime
async def test_em_on_a_disk_that_takes_nothing_converges_and_writes_what_it_knows_when_there_is_room(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fabric = EmFabric(4)
    file = tmp_path / "em.db"
    em = fabric.em(database=file)
    em.start(config())
    em.store._db.execute("PRAGMA query_only=ON")  # as on a file system that became read-only
    assert await em.wait_converged()
    assert await em.verify() == []
    assert [message for message in caplog.messages if "a restart of the EM would lose it" in message]
    with pytest.raises(StoreError, match="cannot write: attempt to write a readonly database"):
        em.apply(config(polling={"counters": 1, "history": 5}))
    em.store._db.execute("PRAGMA query_only=OFF")
    em.apply(config(polling={"counters": 1, "history": 5}))
    await em.wait_for(lambda: False, 5.0)
    assert [event.text for event in em.store.events(limit=1000) if event.kind == RECORDS_LOST]
    assert [message for message in caplog.messages if "is written again" in message]
    em.stop()
    sets = fabric.sets()
    again = fabric.em(database=file)
    again.start()
    assert await again.wait_converged()
    assert fabric.sets() == sets
    assert len(again.store.load().vports) == 4
    again.stop()


@pytest.mark.parametrize("how", ["removed", "replaced", "its directory moved"])
def test_database_that_is_no_longer_at_its_place_takes_nothing(tmp_path: Path, how: str) -> None:
    file = tmp_path / "place" / "em.db"
    file.parent.mkdir()
    kept = store(file)
    if how == "its directory moved":
        file.parent.rename(tmp_path / "elsewhere")
    else:
        file.unlink()
    if how == "replaced":
        file.touch()
    for write in (lambda: kept.write([EventRecord("x")]), lambda: kept.set_config("{}")):
        with pytest.raises(StoreError, match=r"em\.db: cannot write: removed or replaced"):
            write()
    kept.close()


def test_records_that_wait_for_room_are_bounded_and_the_newest_of_each() -> None:
    kept = store(IN_MEMORY)
    writer = StoreWriter(kept)
    limit_pages(kept, 1)
    with pytest.raises(StoreError, match="database or disk is full"):
        kept.write([EventRecord("too much", text="y" * 100_000)])
    for number in range(1000):
        writer.write(
            [
                VportRecord(1, 1, 2, digest=number, layout=tuple(range(600))),
                VportRecord(1, 2, 2, layout=tuple(range(600))),
                EventRecord("lost"),
                CountersRecord(1, 1, 2, {}),
            ]
        )
    writer.write([Tombstone((1, 2)), SlotsRecord(7, ()), EventRecord("lost", text="y" * 4000)])
    assert writer.lost == 2001
    limit_pages(kept, 100_000)
    writer.write([EventRecord("after")])
    memory = kept.load()
    assert [(record.vport_num, record.digest) for record in memory.vports] == [(1, 999)]
    assert [record.vesw_id for record in memory.slots] == [7]
    assert [(event.kind, event.text) for event in kept.events()] == [
        (RECORDS_LOST, "2001 events and readings could not be written"),
        ("after", ""),
    ]
    assert writer.lost == 0
    kept.close()


def test_readings_beyond_the_history_are_forgotten(tmp_path: Path) -> None:
    kept = store(tmp_path / "em.db", history=3)
    for number in range(10):
        kept.write([CountersRecord(1, 1, 2, {"tx_packets": number}), CountersRecord(2, 1, 2, {})])
    assert [item.values["tx_packets"] for item in kept.counters(guid=1)] == [7, 8, 9]
    kept.close()


@pytest.mark.asyncio
@pytest.mark.looptime
async def test_history_follows_the_configuration() -> None:
    fabric = EmFabric(1)
    em = fabric.em()
    em.start(config(polling={"counters": 1, "history": 5}))
    await em.wait_for(lambda: False, 20.0)
    assert len(list(em.store.counters())) == 5
    em.apply(config(polling={"counters": 1, "history": 2}))
    await em.wait_for(lambda: False, 5.0)
    assert len(list(em.store.counters())) == 2
    em.stop()
