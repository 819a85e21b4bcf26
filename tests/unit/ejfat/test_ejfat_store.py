"""The file that the control plane's state is in."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from ipaddress import ip_address
from pathlib import Path

import pytest

from ejfat.control.plane import ControlPlane, InstanceAddresses, PlaneConfig
from ejfat.control.store import Store
from ejfat.errors import EjfatError
from ejfat.live.app import AppConfig, LbApp
from processes import child


def test_store_belongs_to_one_process_and_is_free_when_that_ends(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    program = (
        f"from ejfat.control.store import Store; Store({str(path)!r}).save({{'a': 1}}); print('up'); input()"
    )
    command = [sys.executable, "-c", program]
    with child(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "up\n"
        with pytest.raises(EjfatError, match=r"state\.db: another process uses this state file"):
            Store(path)
        other.kill()
    store = Store(path)
    assert store.load() == {"a": 1}
    with pytest.raises(EjfatError, match="another process"):
        Store(path)
    store.close()
    Store(path).close()


def test_store_of_other_bytes_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_bytes(b"no database at all, just some text that is long enough" * 30)
    with pytest.raises(EjfatError, match=r"x\.db: "):
        Store(tmp_path / "x.db")
    with pytest.raises(EjfatError, match=r"none.*unable to open"):
        Store(tmp_path / "none" / "x.db")
    config = PlaneConfig(mac=0x020000000001, instances=(InstanceAddresses(ip_address("10.0.0.1")),))
    plane = ControlPlane(config, lambda updates: None)
    with pytest.raises(EjfatError, match="stored state of format None"):
        plane.restore({}, 0.0)
    with pytest.raises(EjfatError, match="stored state of the control plane: KeyError"):
        plane.restore({"format": 1}, 0.0)


def test_state_is_for_its_user_alone_from_the_start(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store = Store(tmp_path / "state.db")
        store.save({"token": "secret"})
        modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
        store.close()
    finally:
        os.umask(before)
    assert set(modes) >= {"state.db", "state.db-wal"}
    assert set(modes.values()) == {0o600}


def test_state_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    Store(file).close()
    file.chmod(0o644)
    Store(file).close()
    assert file.stat().st_mode & 0o777 == 0o600


def allow_writing(app: LbApp, allowed: bool) -> None:
    """Have SQLite refuse to write, as on a file system that became read-only."""
    assert app._store is not None
    app._store._db.execute(f"PRAGMA query_only={'OFF' if allowed else 'ON'}")


def test_balancer_whose_disk_refuses_works_on_and_stores_its_state_when_it_can(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = PlaneConfig(mac=0x020000000001, instances=(InstanceAddresses(ip_address("10.0.0.1")),))
    app = LbApp(AppConfig(config, state=tmp_path / "state.db"), lambda frame: None, now=lambda: 1000.0)
    app.program()
    allow_writing(app, False)
    app.reserve("run", [ip_address("10.0.0.9")])
    for _ in range(3):
        app.advance()
    assert [one.balancer.name for one in app.plane.reservations.values()] == ["run"]
    assert app.pipeline.tables.v23["ipv4_src_filter_table"]
    said = [
        record.getMessage() for record in caplog.records if "the state is not stored" in record.getMessage()
    ]
    assert len(said) == 1
    allow_writing(app, True)
    app.advance()
    assert "the state is stored again" in caplog.text
    asyncio.run(app.stop())
    again = LbApp(AppConfig(config, state=tmp_path / "state.db"), lambda frame: None, now=lambda: 1001.0)
    again.program()
    assert [one.balancer.name for one in again.plane.reservations.values()] == ["run"]
    asyncio.run(again.stop())


def test_balancer_that_cannot_store_its_first_state_does_not_start(tmp_path: Path) -> None:
    config = PlaneConfig(mac=0x020000000001, instances=(InstanceAddresses(ip_address("10.0.0.1")),))
    app = LbApp(AppConfig(config, state=tmp_path / "state.db"), lambda frame: None)
    allow_writing(app, False)
    with pytest.raises(EjfatError, match=r"state\.db: attempt to write a readonly database"):
        app.program()
    asyncio.run(app.stop())
