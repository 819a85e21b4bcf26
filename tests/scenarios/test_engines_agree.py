"""Where the native engine is built, every scenario runs on both engines (see conftest.py)."""

from __future__ import annotations

from engine_twins import Twins, needs_both_engines
from opavnic.scenario import Hosts, Scenario, ScenarioEm


@needs_both_engines
async def test_scenarios_run_on_both_engines_and_every_event_is_compared(
    lab: Scenario, hosts: Hosts, em: ScenarioEm
) -> None:
    await em.vesw("blue", members=hosts)
    twins = lab.fabric.engine
    assert isinstance(twins, Twins)
    assert twins.events > lab.trace.packets > 0
    assert twins.difference is None
