"""The file that the control plane's state is in."""

from __future__ import annotations

import subprocess
import sys
from ipaddress import ip_address
from pathlib import Path

import pytest

from ejfat.control.plane import ControlPlane, InstanceAddresses, PlaneConfig
from ejfat.control.store import Store
from ejfat.errors import EjfatError
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
        with pytest.raises(EjfatError, match=r"state\.db: another process keeps its state there"):
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
