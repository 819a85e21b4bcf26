"""The file that the control plane's state is in."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from ejfat.base.errors import EjfatError
from ejfat.control.members import Session, Worker
from ejfat.control.plane import InstanceAddresses, PlaneConfig
from ejfat.control.store import StateStore
from ejfat.control.stored import parts_of
from ejfat.live.app import LbApp
from ejfat.live.app_config import AppConfig
from processes import child


def app_on(path: Path, now: float = 1000.0, token: str = "") -> LbApp:
    instances = tuple(InstanceAddresses(ip_address(f"10.0.0.{number}")) for number in range(1, 9))
    config = PlaneConfig(mac=0x020000000001, instances=instances)
    return LbApp(AppConfig(config, admin_token=token, state=path), lambda frame: None, now=lambda: now)


def test_store_belongs_to_one_process_and_is_free_when_that_ends(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    program = (
        f"from ejfat.control.store import StateStore; s = StateStore({str(path)!r}); s.put({{'a': 1}}); s.flush()\n"
        "print('up'); input()"
    )
    command = [sys.executable, "-c", program]
    with child(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "up\n"
        with pytest.raises(EjfatError, match=r"state\.db: another process uses this state file"):
            StateStore(path)
        other.kill()
    store = StateStore(path)
    assert store.load() == {"a": 1}
    with pytest.raises(EjfatError, match="another process"):
        StateStore(path)
    store.close()
    StateStore(path).close()


def test_store_of_other_bytes_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_bytes(b"no database at all, just some text that is long enough" * 30)
    with pytest.raises(EjfatError, match=r"x\.db: "):
        StateStore(tmp_path / "x.db")
    with pytest.raises(EjfatError, match=r"none.*unable to open"):
        StateStore(tmp_path / "none" / "x.db")
    plane = app_on(tmp_path / "y.db").plane
    with pytest.raises(EjfatError, match="stored state of format None"):
        plane.restore({}, 0.0)
    with pytest.raises(EjfatError, match="stored state of the control plane: KeyError"):
        plane.restore({"plane": {"format": 2}}, 0.0)


def test_state_is_for_its_user_alone_from_the_start(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store = StateStore(tmp_path / "state.db")
        store.put({"token": "secret"})
        store.flush()
        modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
        store.close()
    finally:
        os.umask(before)
    assert set(modes) >= {"state.db", "state.db-wal"}
    assert set(modes.values()) == {0o600}


def test_state_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    StateStore(file).close()
    file.chmod(0o644)
    StateStore(file).close()
    assert file.stat().st_mode & 0o777 == 0o600


def allow_writing(app: LbApp, allowed: bool) -> None:
    """Have SQLite refuse to write, as on a file system that became read-only."""
    assert app._store is not None
    app._store._db.execute(f"PRAGMA query_only={'OFF' if allowed else 'ON'}")


def test_balancer_whose_disk_refuses_works_on_and_stores_its_state_when_it_can(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    app = app_on(tmp_path / "state.db")
    app.program()
    store = app._store
    assert store is not None
    allow_writing(app, False)
    app.reserve("run", [ip_address("10.0.0.9")])
    for _ in range(3):
        app.advance()
        with pytest.raises(EjfatError, match="readonly"):
            store.flush()
    assert [one.balancer.name for one in app.plane.reservations.values()] == ["run"]
    assert app.pipeline.tables.v23["ipv4_src_filter_table"]
    assert caplog.text.count("the state is not stored") == 1
    allow_writing(app, True)
    app.advance()
    store.flush()
    assert "the state is stored again" in caplog.text
    asyncio.run(app.stop())
    again = app_on(tmp_path / "state.db", 1001.0)
    again.program()
    assert [one.balancer.name for one in again.plane.reservations.values()] == ["run"]
    asyncio.run(again.stop())


def register(app: LbApp, reservation: str, number: int) -> Session:
    one = Worker(f"w{number}", ip_address("10.1.0.0") + number, 5000, mac=number)
    return app.plane.register(app.plane.get(reservation), one, 1000.0)


def test_change_writes_what_it_changed_whatever_else_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = app_on(tmp_path / "state.db")
    app.program()
    app.reserve("run", [ip_address("10.0.0.99")])
    store, written = app._store, list[dict[str, Any]]()
    assert store is not None
    monkeypatch.setattr(store, "put", lambda changes: written.append(dict(changes)))
    for number in range(300):
        register(app, "1", number)
    assert {len(changes) for changes in written} == {3}, "session, member, next numbers"
    written.clear()
    app.plane.get("1").balancer.deregister(5)
    assert list(app.plane.take_changes()) == ["reservation/1/session/5"]
    asyncio.run(app.stop())


def test_state_after_any_changes_is_that_of_a_restart(tmp_path: Path) -> None:
    """Given changes of each kind, when the program is started again, then it has what the first one had."""
    app = app_on(tmp_path / "state.db", token="operator")
    app.program()
    for name in ("one", "two", "gone"):
        app.reserve(name, [ip_address("10.0.0.99")])
    for number in range(12):
        register(app, "1", number)
        register(app, "3", number)
    app.advance()
    balancer = app.plane.get("1").balancer
    balancer.deregister(3)
    app.plane.program(balancer.add_senders([ip_address("fd00::5")]))
    app.plane.program(balancer.remove_senders([ip_address("10.0.0.99")]))
    app.plane.free(app.plane.get("3"))
    app.advance()
    token = app.plane.tokens.find("operator")
    before = parts_of(balancer)
    kept = sorted(app.plane.tokens.numbers)
    asyncio.run(app.stop())
    again = app_on(tmp_path / "state.db", token="operator")
    again.program()
    assert sorted(again.plane.reservations) == [1, 2]
    after = parts_of(again.plane.get("1").balancer)
    for name, part in after.items():
        if name.startswith("session/"):
            assert part["worker"] == before[name]["worker"]
            assert part["state"] == before[name]["state"]
        else:
            assert part == before[name]
    assert set(after) == set(before)
    assert sorted(again.plane.tokens.numbers) == kept
    assert again.plane.tokens.find("operator").token_id == token.token_id
    asyncio.run(again.stop())


def test_operators_token_is_replaced_by_a_restart_with_another_one(tmp_path: Path) -> None:
    app = app_on(tmp_path / "state.db", token="first")
    app.program()
    uri = app.reserve("run", [ip_address("10.0.0.99")])
    asyncio.run(app.stop())
    again = app_on(tmp_path / "state.db", token="second")
    again.program()
    tokens = again.plane.tokens
    with pytest.raises(EjfatError, match="no such token"):
        tokens.find("first")
    assert tokens.find("second").name == "operator"
    assert tokens.find(uri.token).name == "run", "what it made stays"
    assert len([number for number in tokens.numbers if tokens.get(number).parent is None]) == 1
    asyncio.run(again.stop())


def test_hashes_of_one_token_differ_from_file_to_file(tmp_path: Path) -> None:
    rows = []
    for name in ("a.db", "b.db"):
        app = app_on(tmp_path / name, token="operator")
        app.program()
        rows.append(app.plane.tokens.find("operator").digest)
        asyncio.run(app.stop())
    assert rows[0] != rows[1]


def test_state_of_the_format_before_is_refused_in_a_line(tmp_path: Path) -> None:
    db = sqlite3.connect(tmp_path / "state.db")
    db.execute("CREATE TABLE state (id INTEGER PRIMARY KEY, data TEXT NOT NULL)")
    db.close()
    with pytest.raises(EjfatError, match=r"state\.db: state of format 1, .*; remove the file"):
        StateStore(tmp_path / "state.db")


@pytest.mark.parametrize("turn", range(3))
def test_changes_reported_as_written_outlive_kill_9(tmp_path: Path, turn: int) -> None:
    program = (
        "import asyncio\n"
        "from ejfat.control.store import StateStore\n"
        f"store = StateStore({str(tmp_path / 'state.db')!r})\n"
        "async def main():\n"
        "    for number in range(10**9):\n"
        "        store.put({f'token/{number}': number})\n"
        "        await store.written()\n"
        "        print(number, flush=True)\n"
        "asyncio.run(main())\n"
    )
    with child([sys.executable, "-c", program], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        for _ in range(20 + 30 * turn):
            last = int(writer.stdout.readline())
        writer.kill()
        writer.wait()
    store = StateStore(tmp_path / "state.db")
    kept = store.load()
    store.close()
    assert all(kept[f"token/{number}"] == number for number in range(last + 1))


def test_balancer_that_cannot_store_at_its_start_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    app = app_on(tmp_path / "state.db")
    allow_writing(app, False)
    with pytest.raises(EjfatError, match=r"state\.db: .*readonly"):
        app.program()
    assert caplog.records == [], "whoever started it shows the exception"
    asyncio.run(app.stop())
