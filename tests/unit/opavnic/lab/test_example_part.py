"""The example of a package that brings a part works as its README says."""

from __future__ import annotations

import asyncio
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import outside_part
import pytest

from opavnic.lab.file.errors import ConfigError
from opavnic.lab.file.loader import parse_lab
from opavnic.lab.run.lab import Lab

PROJECT = Path(__file__).parents[4] / "examples" / "part-project"
LAB = (PROJECT / "lab.yaml").read_text()


@pytest.fixture(autouse=True)
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install it as pip does, without a build."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    points = project["entry-points"]["opavnic.parts"]
    outside_part.describe(tmp_path, project["name"], project["version"], points)
    monkeypatch.syspath_prepend(PROJECT)
    monkeypatch.syspath_prepend(tmp_path)
    outside_part.forget()
    yield
    sys.modules.pop("traffic_log", None)
    outside_part.forget()


async def test_it_logs_what_hosts_have_sent_for_as_long_as_the_lab_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    logged: asyncio.Queue[str] = asyncio.Queue()
    async with Lab(parse_lab(LAB.replace("1s", "1ms"), "lab.yaml"), netdev="memory") as lab:
        log = sys.modules["traffic_log"].log
        monkeypatch.setattr(log, "info", lambda text, *values: logged.put_nowait(text % values))
        line = await logged.get()
        sent = lab.status().parts["traffic"]
    assert line.startswith("packets sent: h1 ")
    assert set(sent) == {"h1", "h2"}
    assert min(sent.values()) > 0


def test_unknown_host_is_refused_with_its_line() -> None:
    with pytest.raises(
        ConfigError, match=r'lab\.yaml:8: traffic\.hosts\[0\]: unknown host "h3" \(known: h1, h2'
    ):
        parse_lab(LAB + "  hosts: [h3]\n", "lab.yaml")
