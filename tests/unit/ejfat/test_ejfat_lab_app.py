"""The load balancer in a lab file."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

from ejfat.tables.schema import Dialect
from opavnic.lab.file.errors import LabError
from opavnic.lab.file.loader import parse_lab
from opavnic.lab.file.parts import lab_model
from opavnic.lab.run.lab import Lab
from unit.ejfat.pipelines import entries
from vema.base.sections import AS_WRITTEN

FILE = """name: x
hosts: {lb: {}, s: {}, w: {}}
vesws:
  - {id: 7, name: daq, subnet: 10.7.0.0/24, members: [lb, s, w]}
  - {id: 8, name: bare, members: [s]}
apps:
  - {kind: ejfat-lb, host: lb, options: OPTIONS}
"""


def lab_file(options: str = "{}") -> str:
    return FILE.replace("OPTIONS", options)


async def test_app_runs_in_a_lab_and_ends_with_it() -> None:
    async with Lab(
        parse_lab(lab_file("{senders: [s, 10.9.9.9], period: 200ms}"), "x.yaml"), netdev="memory"
    ) as lab:
        (app,) = lab.status().apps
        status = app.as_json()
        assert (status["kind"], status["host"]) == ("ejfat-lb", "lb")
        assert status["uri"].startswith("ejfat://")
        app: Any = lab.parts.apps["lb"]
        assert sorted(map(str, app.app.plane.get("1").balancer.senders)) == ["10.7.0.2", "10.9.9.9"]
        sender = lab.interface("s", "daq").memory_host
        assert sender is not None
        assert await sender.ping(lab.interface("lb", "daq").address.ip, 1) == 1  # type: ignore[union-attr, arg-type]
        assert lab.world.fabric.balance() == {}


@pytest.mark.parametrize(("options", "used"), [("{}", True), ("{v1: false}", False)])
async def test_app_serves_version_1_unless_it_is_told_not_to(options: str, used: bool) -> None:
    async with Lab(parse_lab(lab_file(options), "x.yaml"), netdev="memory") as lab:
        app: Any = lab.parts.apps["lb"]
        assert (entries(app.app.pipeline.tables, Dialect.V1) > 0) is used
        (status_of,) = lab.status().apps
        status = status_of.as_json()
        assert status["versions"] == ([1, 2, 3] if used else [2, 3])
        assert (status["syncs"], status["bad_syncs"]) == (0, 0)


async def test_app_that_cannot_start_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    senders = ", ".join(f"10.8.{number // 256}.{number % 256}" for number in range(257))
    model = parse_lab(lab_file(f"{{senders: [{senders}]}}"), "x.yaml")
    with pytest.raises(LabError, match="257 senders; the source filter holds 256"):
        async with Lab(model, netdev="memory"):
            pass
    assert os.listdir(tmp_path) == []


async def test_app_of_an_unknown_kind_is_refused() -> None:
    model = lab_model().model_validate(
        parse_lab(lab_file(), "x.yaml").model_dump(mode="json", context=AS_WRITTEN)
        | {"apps": [{"kind": "ejfat-bl", "host": "lb"}]}
    )
    with pytest.raises(LabError, match=r'unknown kind of app "ejfat-bl".*nearest: ejfat-lb'):
        async with Lab(model, netdev="memory"):
            pass
