"""Scenarios run on the engine of --fabric-engine, and where another is built, on that beside it: traces must agree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from engine_twins import Twins, built_engines, note_comparison
from hfi_sim.engine.api import Engine, EngineFactory
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.wire.icrc import Icrc


@pytest.fixture
def fabric_engine(
    request: pytest.FixtureRequest, pytestconfig: pytest.Config, fabric_engine: EngineFactory
) -> Iterator[EngineFactory]:
    """Make engines in pairs, and compare every event of theirs."""
    name = pytestconfig.getoption("--fabric-engine")
    others = {other: make for other, make in built_engines().items() if other != name}
    if not others or pytestconfig.getoption("--fabric-real"):
        yield fabric_engine
        return
    made: list[Twins] = []

    def make_twins(icrc: Icrc) -> Engine:
        made.append(Twins({name: fabric_engine, **others}, icrc))
        return made[-1]

    yield make_twins
    for twins in made:
        twins.compare_counters()
    note_comparison(request.node, made)
    differences = [twins.difference for twins in made if twins.difference is not None]
    if differences:
        pytest.fail(f"the engines differ at {differences[0]}", pytrace=False)


@pytest.fixture(autouse=True)
def _every_fabric_has_that_engine(monkeypatch: pytest.MonkeyPatch, fabric_engine: EngineFactory) -> None:
    """Labs in memory and worlds that a test builds itself are compared as well."""
    build = Fabric.__init__

    def init(fabric: Fabric, *arguments: Any, **options: Any) -> None:
        build(fabric, *arguments, **{**options, "engine": fabric_engine})

    monkeypatch.setattr(Fabric, "__init__", init)
