"""What tests of commands and of the web view share: a directory of labs of their own, and a lab in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab_in_memory import running_directory
from opavnic.lab.ownership.runtime import LabDir


@pytest.fixture
def own_runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory of labs for this test alone."""
    monkeypatch.setenv("OPAVNIC_RUNTIME_DIR", str(tmp_path / "run"))


@pytest.fixture
def directory(own_runtime: None, tmp_path: Path) -> Iterator[LabDir]:
    """The directory of a lab that runs in this process."""
    with running_directory(tmp_path / "run" / "x") as lab:
        yield lab
