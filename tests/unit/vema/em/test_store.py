"""The database of the EM: damaged, half-made, somebody else's, full of old readings."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

import pytest

from unit.vema.em.em_fabric import EmFabric, config
from vema.em.records import CountersRecord, EventRecord
from vema.em.store import Store, StoreError


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


@pytest.mark.parametrize("seed", range(30))
def test_bytes_that_changed_on_disk_are_a_store_error_or_nothing(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    file = tmp_path / "em.db"
    written = store(file)
    written.set_config("{}")
    written.write([EventRecord("port-joined", f"h{n}:1") for n in range(200)])
    written.close()
    content = bytearray(file.read_bytes())
    if seed % 3 == 0:
        del content[rng.randrange(1, len(content)) :]
    for _ in range(200):
        content[rng.randrange(len(content))] = rng.randrange(256)
    file.write_bytes(content)
    try:
        read = store(file)
    except StoreError:
        return
    try:
        read.load()
    except StoreError:
        pass
    finally:
        read.close()


def test_readings_beyond_the_history_are_forgotten(tmp_path: Path) -> None:
    kept = store(tmp_path / "em.db", history=3)
    for number in range(10):
        kept.write([CountersRecord(1, 1, 2, {"tx_packets": number}), CountersRecord(2, 1, 2, {})])
    assert [item.counters.values["tx_packets"] for item in kept.counters(guid=1)] == [7, 8, 9]
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
