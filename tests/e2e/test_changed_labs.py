"""Whatever has happened to a lab of real TAPs, it is what a fresh start of its saved file is, on both engines."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from lab_law import LAB, changed_at_random, differing, facts_of

from opavnic.lab.file.loader import parse_lab
from opavnic.lab.run.lab import Lab
from opavnic.lab.run.save import save


@pytest.fixture(autouse=True)
def _own_runtime_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OPAVNIC_RUNTIME_DIR", str(tmp_path / "run"))


async def _holds(engine: str, seed: int, steps: int) -> None:
    text = LAB % (f"changed-{os.getpid()}-{engine}", engine)
    async with Lab(parse_lab(text, "lab.yaml", {})) as lab:
        changing = await changed_at_random(lab, seed, steps)
        before, saved = facts_of(lab), save(lab).lab_file
    async with Lab(parse_lab(saved, "saved.yaml", {})) as fresh:
        assert differing(before, facts_of(fresh)) == {}, (seed, changing.done)


@pytest.mark.parametrize("engine", ["python", "native"])
async def test_changed_lab_is_what_its_saved_file_is(engine: str) -> None:
    await _holds(engine, 1, 12)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 12))
@pytest.mark.parametrize("engine", ["python", "native"])
async def test_changed_lab_is_what_its_saved_file_is_after_many_changes(engine: str, seed: int) -> None:
    await _holds(engine, seed, 40)
