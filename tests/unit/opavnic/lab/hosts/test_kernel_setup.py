"""What a host's setup says and its kernel does not have."""

from __future__ import annotations

from pathlib import Path

import pytest

from opavnic.lab.file.host_setup import HostSetup
from opavnic.lab.hosts import kernel_setup


def test_sysctl_with_another_value_or_that_is_not_there_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_setup, "_SYSCTLS", tmp_path)
    (tmp_path / "net").mkdir()
    for name, value in (("changed", "0"), ("kept", "1")):
        (tmp_path / "net" / name).write_text(f"{value}\n")
    wanted = HostSetup(sysctls={"net.changed": "1", "net.kept": "1", "net.gone": "1"})
    assert kernel_setup.missing_in_kernel(None, wanted) == [
        "sysctl net.changed is 0, not 1",
        "sysctl net.gone is missing",
    ]
