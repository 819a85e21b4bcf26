"""Hosts and links come and go under traffic, on virtual time; the engines agree packet by packet."""

from __future__ import annotations

import asyncio

import pytest

from hfi_sim.base.errors import FabricError
from opavnic.scenario import Hosts, Scenario, ScenarioEm, us
from scenarios.test_changes import stream


@pytest.mark.topology("clos", leaves=2, spines=2)
async def test_hosts_come_and_go_without_a_frame_lost_between_others(
    lab: Scenario, em: ScenarioEm, hosts: Hosts
) -> None:
    h1, h2, h3, _ = hosts
    await em.vesw("blue", members=[h1, h2, h3])
    traffic = asyncio.create_task(stream(h1, h2, 1000, us(10)))
    addresses = set()
    for number in range(5):
        new = lab.add_host(f"n{number}", "leaf1:9")
        await em.update("blue", members=[h1, h2, h3, new])
        assert await new.ping(h3) == 1
        addresses.add(new.ip)
        await lab.remove_host(new)
    numbered = [number for number in await traffic if number < 1000]  # besides what new hosts send to all
    assert numbered == list(range(1000))
    assert len(addresses) == 5
    assert hosts.names == ["h1", "h2", "h3", "h4"]
    assert lab.fabric.balance() == {}


@pytest.mark.topology("clos", leaves=2, spines=2)
async def test_link_that_is_taken_away_and_laid_again_is_routed_round(
    lab: Scenario, em: ScenarioEm, hosts: Hosts
) -> None:
    h1, _, _, h4 = hosts
    await em.vesw("blue", members=[h1, h4])
    cables = [link.name for link in lab.fabric.links if "spine0" in link.name and "leaf0" in link.name]
    near, far = cables[0].split("--")
    lab.faults.add(f"loss on {near} 100%")
    lab.faults.add("loss on * 0%")
    lab.remove_link(near, far)
    assert [shown["on"] for shown in lab.faults.show()] == ["*"]  # the other went with its place
    assert await h1.ping(h4, count=3) == 3
    with pytest.raises(FabricError, match="unknown link"):
        lab.remove_link(near, far)
    lab.add_link(near, far)
    assert await h1.ping(h4, count=3) == 3
    with pytest.raises(FabricError, match="is already cabled"):
        lab.add_link(near, far)
    assert lab.fabric.balance() == {}
