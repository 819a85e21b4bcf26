"""Two Ethernet Managers on one fabric: the master dies under traffic, the other one goes on."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest

from hfi_sim.base.counters import Drop
from hfi_sim.base.types import CapabilityMask3
from opavnic.management.em_port import SmTopology, make_em
from opavnic.scenario import Hosts, Scenario, ScenarioEm, ms, us
from scenarios.test_changes import stream
from vema.em.desired.desired import EmConfig, parse_config
from vema.em.desired.election import Role
from vema.em.service.service import EthernetService

HEARTBEAT_S: Final = 0.05
DEAD_AFTER_S: Final = 0.2
FRAMES: Final = 1000


def elected(em: ScenarioEm, priority: int, **changes: Any) -> EmConfig:
    """What the scenario asks of its EM, with an election and with changes to the virtual switch blue."""
    return parse_config(
        {
            "fabric": {"id": 1},
            "polling": {"interval": 0},
            "election": {"priority": priority, "heartbeat": HEARTBEAT_S, "dead_after": DEAD_AFTER_S},
            "vesws": [{**em.vesws["blue"], **changes}],
        }
    )


def second_em(lab: Scenario, host: str, config: EmConfig) -> EthernetService:
    """Start another EM on the port of a host that is not a member and whose agent has ended."""
    port = lab.hosts[host].port
    lab.world.vnic_ports[f"{host}:1"].close()
    port.withdraw(CapabilityMask3.ETH_ON_FABRIC_SUPPORTED)
    lab.subnet_manager.set_management(port, True)
    topology = SmTopology(lab.subnet_manager, port)
    em = make_em(topology, port, clock=lab.clock, wall_clock=lab.clock.time)
    em.start(config)
    return em


async def master(em: EthernetService) -> None:
    assert await em.wait_for(lambda: em.role is Role.MASTER, 10 * DEAD_AFTER_S)


@pytest.mark.topology("clos", leaves=2, spines=2)
@pytest.mark.parametrize("delay_s", [0.0, us(5), us(20), ms(10)], ids=["at-once", "5us", "20us", "10ms"])
async def test_master_dies_in_a_change_under_load_the_other_ends_it_and_no_frame_is_lost(
    lab: Scenario, hosts: Hosts, em: ScenarioEm, delay_s: float
) -> None:
    await em.vesw("blue", members=["h1", "h2", "h3"])
    first = em.service
    first.apply(elected(em, 1))
    second = second_em(lab, "h4", elected(em, 0))
    await master(first)
    assert await first.wait_converged()
    assert second.role is Role.STANDBY

    h1, h2, h3, _ = hosts
    loads = [asyncio.create_task(stream(a, b, FRAMES, us(500))) for a, b in ((h1, h2), (h2, h3), (h3, h1))]
    await asyncio.sleep(ms(20))
    change = {"mtu": 1400, "qos": {"unicast": {"untagged": {"sc": 3}}}}
    second.apply(elected(em, 0, **change))
    first.apply(elected(em, 1, **change))
    await asyncio.sleep(delay_s)
    first.stop()
    died = lab.clock.time()
    await master(second)
    assert lab.clock.time() - died <= DEAD_AFTER_S + HEARTBEAT_S
    assert await second.wait_converged()
    assert await second.verify() == []
    assert {host.vnic().adapter.netdev.mtu for host in (h1, h2, h3)} == {1400}
    assert not any(load.done() for load in loads), "the traffic went on through all of it"
    assert await asyncio.gather(*loads) == [list(range(FRAMES))] * 3
    # the only packets that end are MADs for the dead: heartbeats of the new master, traps on their way to the old one
    assert {name: set(reasons) for name, reasons in lab.fabric.drops().items()} == {
        "em:1 mad": {Drop.MAD_NO_AGENT}
    }
    second.stop()
