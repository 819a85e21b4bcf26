"""The Ethernet Manager is stopped, restarted with and without its database, and has a standby; the traffic goes on."""

from __future__ import annotations

import asyncio

import pytest

from hfi_sim.base.errors import FaultError
from opavnic.scenario import Hosts, Scenario, ScenarioEm, ScenarioError, ms, seconds
from vema.attributes.attr_id import AttrId

BOTH = pytest.mark.parametrize("memory", [True, False])


async def test_traffic_goes_on_while_the_manager_is_stopped_and_changes_wait_for_its_start(
    hosts: Hosts, em: ScenarioEm
) -> None:
    h1, h2 = hosts
    await em.vesw("blue", members=hosts)
    em.stop()
    assert await h1.ping(h2) == 1
    with pytest.raises(ScenarioError, match=r"the Ethernet Manager is stopped; em.start\(\) starts it again"):
        await em.vesw("red", members=hosts)
    await em.start()
    with pytest.raises(ScenarioError, match="is running already"):
        em.start()
    await em.vesw("red", members=hosts)
    assert await h1.ping(h2, on="red") == 1


@BOTH
@pytest.mark.parametrize("policy", ["learn", "locally-administered"])
async def test_restarted_manager_changes_nothing_that_is_right(
    hosts: Hosts, em: ScenarioEm, memory: bool, policy: str
) -> None:
    await em.vesw("blue", members=hosts, mac=policy)
    await asyncio.sleep(seconds(5))
    events = len(em.service.store.events())
    before = em.core
    await em.restart(memory=memory)
    assert em.core is not before
    assert em.core.sets == 0
    assert await em.service.verify() == []
    assert (len(em.service.store.events()) >= events) is memory
    assert await hosts[0].ping(hosts[1]) == 1


@BOTH
async def test_restart_in_the_middle_of_a_change_ends_the_change(
    lab: Scenario, hosts: Hosts, em: ScenarioEm, memory: bool
) -> None:
    lab.faults.add("delay on em delay=1ms")
    await em.vesw("blue", members=hosts, wait=False)
    await asyncio.sleep(ms(5))
    assert not em.service.converged
    await em.restart(memory=memory)
    await em.update("blue", mtu=1400)
    assert {host.vnic().mtu for host in hosts} == {1400}
    assert await em.service.verify() == []


async def test_change_that_waits_ends_when_the_manager_is_stopped(hosts: Hosts, em: ScenarioEm) -> None:
    change = asyncio.create_task(em.vesw("blue", members=hosts))
    await asyncio.sleep(0)
    em.stop()
    with pytest.raises(ScenarioError, match="the Ethernet Manager was stopped before blue was done"):
        await change


async def test_crash_on_em_keeps_it_down_for_its_time(lab: Scenario, hosts: Hosts, em: ScenarioEm) -> None:
    await em.vesw("blue", members=hosts)
    lab.faults.add("crash on em for=2s")
    assert not em.is_running
    for call in (em.start, em.restart):
        with pytest.raises(ScenarioError, match=r"fault 1 \(crash on em\) holds the Ethernet Manager down"):
            call()
    with pytest.raises(ScenarioError, match="is down: fault 1, crash on em"):
        await em.remove("blue")
    await asyncio.sleep(seconds(3))
    await em.remove("blue")
    lab.faults.add("crash on em")
    lab.faults.clear()
    assert em.is_running


@pytest.mark.topology("single-switch", hosts=3)
async def test_standby_takes_over_and_gives_back(lab: Scenario, hosts: Hosts, em: ScenarioEm) -> None:
    h1, _, h3 = hosts
    await em.vesw("blue", members=hosts)
    standby = await em.standby()
    assert (standby.host, standby.is_master) == (h3, False)
    with pytest.raises(ScenarioError, match="host h3 has a standby manager already"):
        await em.standby(on="h3")

    em.stop()
    died = lab.clock.time()
    await standby.take_over()
    assert lab.clock.time() - died < 1.5
    assert standby.manager.service.core is em.core
    assert em.core.sets == 3  # each agent is told of its new trap sink, and nothing else
    await em.vesw("red", members=hosts)
    assert await h1.ping(h3, on="red") == 1
    await em.update("blue", mtu=1400)

    await em.start()
    await em.vesw("green", members=hosts)
    assert not standby.is_master
    assert h3.vnic("blue").mtu == 1400
    assert await em.service.verify() == []
    with pytest.raises(AssertionError, match=r"the standby manager on h3 has not taken over within 0\.5 s"):
        await standby.take_over(within=0.5)
    standby.stop()
    await em.remove("green")


async def test_simulated_manager_cannot_be_crashed(lab: Scenario, mad_simulator: object) -> None:
    with pytest.raises(FaultError, match=r'unknown agent or manager that can crash "em" \(known: h1, h2\)'):
        lab.faults.add("crash on em")


async def test_answer_to_a_stopped_manager_is_not_one_to_the_next(
    lab: Scenario, hosts: Hosts, em: ScenarioEm
) -> None:
    """Stand-ins answer late: what the first life asked comes while the second one waits for its own answers."""
    agent = lab.stand_in("h2")
    agent.reply(AttrId.CLASS_PORT_INFO, None)
    await em.vesw("blue", members=hosts, wait=["h1"])
    em.restart(memory=False)
    await em.vesw("red", members=["h1"], wait=["h1"])
    assert em.service.failure is None
