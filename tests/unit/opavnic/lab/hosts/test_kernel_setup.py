"""What a host's setup says and its kernel does not have."""

from __future__ import annotations

from pathlib import Path

import pytest

from opavnic.lab.file.host_setup import HostSetup
from opavnic.lab.hosts import kernel_setup


@pytest.fixture
def sysctls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the kernel's values stand, of the group `net`."""
    monkeypatch.setattr(kernel_setup, "_SYSCTLS", tmp_path)
    (tmp_path / "net").mkdir()
    return tmp_path / "net"


def test_sysctl_that_cannot_be_read_is_written_once(sysctls: Path) -> None:
    wanted = HostSetup(sysctls={"net.flush": "1"})
    (sysctls / "flush").write_bytes(b"\xff")
    assert kernel_setup.reconcile_kernel(None, HostSetup(), wanted) == []
    assert (sysctls / "flush").read_bytes() == b"1"
    (sysctls / "flush").write_bytes(b"\xff")
    assert kernel_setup.reconcile_kernel(None, wanted, wanted) == []
    assert (sysctls / "flush").read_bytes() == b"\xff"


def test_sysctl_with_another_value_or_that_is_not_there_is_named(sysctls: Path) -> None:
    for name, value in (("changed", "0"), ("kept", "1")):
        (sysctls / name).write_text(f"{value}\n")
    wanted = HostSetup(sysctls={"net.changed": "1", "net.kept": "1", "net.gone": "1"})
    assert kernel_setup.missing_in_kernel(None, wanted) == [
        "sysctl net.changed is 0, not 1",
        "sysctl net.gone is missing",
    ]
