"""Which port of a machine is meant, and what sysfs says of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hfi_sim.base.errors import InputError
from hfi_sim.base.types import PortState
from opavnic.manager.port_files import all_ports, find_port, read_port


def put(root: Path, umad: int, hfi: str, number: int = 1, *, state: str = "4: ACTIVE", lid: int = 2) -> None:
    """Write what sysfs has of a port."""
    port = root / "infiniband" / hfi / "ports" / str(number)
    for name, text in {
        "gids/0": f"fe80:0000:0000:0000:0011:7501:0100:00{umad:02x}",
        "lid": f"{lid:#x}",
        "sm_lid": "0x1",
        "sm_sl": "3",
        "state": state,
        "pkeys/0": "0x8001",
        "pkeys/1": "0x7fff",
        "pkeys/2": "0xffff",
        "pkeys/10": "0x0000",
    }.items():
        (port / name).parent.mkdir(parents=True, exist_ok=True)
        (port / name).write_text(f"{text}\n")
    device = root / "infiniband_mad" / f"umad{umad}"
    device.mkdir(parents=True)
    (device / "ibdev").write_text(f"{hfi}\n")
    (device / "port").write_text(f"{number}\n")


@pytest.fixture
def sysfs(tmp_path: Path) -> Path:
    put(tmp_path, 0, "hfi1_0", state="1: DOWN", lid=0)
    put(tmp_path, 1, "hfi1_1", lid=0x12345)
    put(tmp_path, 10, "hfi1_1", 2)
    (tmp_path / "infiniband_mad" / "abi_version").write_text("5\n")
    return tmp_path


def test_reading_has_what_sysfs_says(sysfs: Path) -> None:
    port = read_port("/dev/infiniband/umad1", "hfi1_1", 1, sysfs)
    assert (port.name, port.guid, port.lid, port.sm_lid, port.sm_sl) == (
        "hfi1_1:1",
        0x0011750101000001,
        0x12345,
        1,
        3,
    )
    assert port.state is PortState.ACTIVE
    assert port.pkeys == (0x8001, 0x7FFF, 0xFFFF, 0)
    assert (port.management_pkey, port.pkey_index) == (0xFFFF, 2)


@pytest.mark.parametrize(
    ("device", "name", "found"),
    [
        ("", "", "hfi1_1:1"),
        ("/dev/infiniband/umad0", "", "hfi1_0:1"),
        ("umad10", "", "hfi1_1:2"),
        ("", "hfi1_1:2", "hfi1_1:2"),
        ("", "hfi1_1", "hfi1_1:1"),
        ("", "0x001175010100000a", "hfi1_1:2"),
        ("", "11750101000000", "hfi1_0:1"),
    ],
)
def test_port_is_found_by_device_name_guid_or_as_the_first_active(
    sysfs: Path, device: str, name: str, found: str
) -> None:
    assert find_port(device, name, sysfs).name == found


def test_without_an_active_port_the_first_is_taken(tmp_path: Path) -> None:
    put(tmp_path, 0, "hfi1_0", state="2: INIT")
    put(tmp_path, 1, "hfi1_1", state="1: DOWN")
    assert find_port("", "", tmp_path).name == "hfi1_0:1"


def test_port_that_is_not_there_is_refused_with_those_that_are(sysfs: Path) -> None:
    with pytest.raises(InputError, match=r"hfi1_2:1: no such port.*hfi1_0:1 \(/dev/infiniband/umad0, 0x0011"):
        find_port("", "hfi1_2:1", sysfs)
    with pytest.raises(InputError, match="no port with a umad device"):
        find_port("", "", sysfs / "none")


def test_port_that_vanishes_while_it_is_read_is_left_out(sysfs: Path) -> None:
    (sysfs / "infiniband" / "hfi1_1" / "ports" / "1" / "lid").unlink()
    (sysfs / "infiniband" / "hfi1_0" / "ports" / "1" / "lid").write_text("nonsense")
    assert [port.name for port in all_ports(sysfs)] == ["hfi1_1:2"]
