"""The Ethernet Manager sends the same MADs from both of its homes: a simulated port, and the umad device of one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from hfi_sim.engine.link.config import LinkConfig
from hfi_sim.fabric.topology import Topology
from hfi_sim.management.sa.session import SaSession
from hfi_sim.netdev.memory import memory_netdev
from opavnic.management.em_port import FabricNames, make_em
from opavnic.world.world import World
from scenarios.manager_on_umad import ManagerOnUmad, Sent
from unit.opavnic.vnic.vnic_bench import netdev_of
from vema.base.types import VportNum
from vema.em.desired.desired import parse_config
from vema.em.service.administered_subnet import AdministeredSubnet
from vema.em.service.service import EthernetService

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]

HOSTS = [f"h{n}" for n in range(1, 7)]
VPORTS = len(HOSTS) + 2
LEAF = 32
"""Ports on a switch."""


def config(**changes: Any) -> dict[str, Any]:
    blue = {"id": 2, "name": "blue", "pkey": 0x8002, "members": HOSTS, **changes}
    return {
        "mac": "learn",
        "vesws": [blue, {"id": 3, "name": "red", "pkey": 0x8003, "members": ["h1", "h2"]}],
    }


class Site:
    """Hosts with VNICs, and `mgr`, on which the manager runs."""

    def __init__(self, hosts: list[str]) -> None:
        topology = Topology("site")
        topology.switch("sw0")
        for at, name in enumerate(("em", "mgr", *hosts)):
            switch = f"sw{at // LEAF}"
            if at and not at % LEAF:
                topology.switch(switch)
                topology.join(switch, "sw0", LinkConfig(latency_ns=100_000))
            topology.hfi(name)
            topology.join(name, switch, LinkConfig(latency_ns=100_000))
        self.world = World(topology, clock=asyncio.get_running_loop())
        self.ports = {name: host.port for name, host in self.world.hosts.items()}
        for port in self.ports.values():
            self.world.set_pkeys(port, [0x8002, 0x8003])
            port.hfi.describe(f"{port.hfi.name} hfi1_0")
        self.world.subnet_manager.set_management(self.ports["mgr"], True)
        for name in hosts:
            self.world.add_vnic_port(name, netdevs=memory_netdev)
        self.sent = Sent(self.ports["mgr"])

    def on_port(self) -> EthernetService:
        """The manager as a lab has it."""
        port = self.ports["mgr"]
        session = SaSession(port, self.world.clock)
        subnet = AdministeredSubnet(
            session, port, FabricNames(self.world.fabric.hfi_ports, self.world.host_of)
        )
        em = make_em(subnet, port, clock=self.world.clock, wall_clock=self.world.clock.time)
        self.world.cleanups.add("session", session.close)
        self.world.cleanups.add("EM", em.stop)
        return em

    def on_umad(self) -> EthernetService:
        """The manager as the program has it."""
        manager = ManagerOnUmad(self.ports["mgr"], self.world.clock)
        self.world.cleanups.add("manager", manager.close)
        return manager.em

    def netdev(self, host: str, vport: int = 1) -> Any:
        return netdev_of(self.world.vnic_ports[f"{host}:1"].adapters[VportNum(vport)])


Home = Callable[[Site], EthernetService]


async def up(em: EthernetService) -> None:
    """Wait until all vports are configured, and nothing is left to be done."""

    def is_up() -> bool:
        return em.converged and em.core is not None and len(list(em.core.vports())) == VPORTS

    assert await em.wait_for(is_up, 60.0)
    await asyncio.sleep(5.0)
    assert is_up()


async def life(home: Home) -> Site:
    """Configure, change an address, apply, lose a port and get it back, lose MADs; return what was sent."""
    site = Site(HOSTS)
    em = home(site)
    site.world.subnet_manager.sweep()
    em.start(parse_config(config()))

    async def settled() -> None:
        assert await em.wait_converged(60.0)
        await asyncio.sleep(25.0)
        assert em.converged

    await settled()
    for host in HOSTS:
        site.netdev(host).open()
    await settled()
    site.netdev("h3").set_mac(bytes((2, 0, 0, 0, 0, 3)))
    await settled()
    em.apply(parse_config(config(mtu=9000)))
    await settled()
    em.apply(parse_config(config(members=HOSTS[:4])))
    await settled()
    link = site.ports["h2"].link
    assert link is not None
    for up in (False, True):
        site.world.fabric.set_link(link, up)
        await settled()
    assert await em.verify() == []
    await site.world.close()
    return site


async def test_both_homes_send_the_same_mads_to_every_port() -> None:
    one, other = await life(Site.on_port), await life(Site.on_umad)
    assert one.sent.by_lid.keys() == other.sent.by_lid.keys()
    for lid, mads in one.sent.by_lid.items():
        assert sorted(other.sent.by_lid[lid]) == sorted(mads), f"LID {lid:#x}"
    agents = {int(one.ports[host].lid) for host in HOSTS}
    for lid in agents:
        assert one.sent.by_lid[lid] == other.sent.by_lid[lid], f"the order of MADs to LID {lid:#x}"
    assert one.sent.total > 300


async def restarted(home: Home, again: Callable[[EthernetService], None]) -> int:
    site = Site(HOSTS)
    em = home(site)
    site.world.subnet_manager.sweep()
    em.start(parse_config(config()))
    await up(em)
    assert em.core is not None
    assert em.core.sets > 0
    again(em)
    await up(em)
    assert em.core is not None
    sets = em.core.sets
    await site.world.close()
    return sets


@pytest.mark.parametrize("memory", [True, False])
async def test_restart_over_umad_sends_no_set(memory: bool) -> None:
    assert await restarted(Site.on_umad, lambda em: em.restart(memory=memory)) == 0


async def test_device_that_goes_and_comes_changes_nothing_at_agents() -> None:
    site = Site(HOSTS)
    manager = ManagerOnUmad(site.ports["mgr"], site.world.clock)
    site.world.cleanups.add("manager", manager.close)
    site.world.subnet_manager.sweep()
    manager.em.start(parse_config(config()))
    await up(manager.em)
    core = manager.em.core
    assert core is not None
    sets = core.sets
    manager.unplug()
    await asyncio.sleep(60.0)
    manager.plug()
    await asyncio.sleep(60.0)
    assert manager.em.converged
    assert core.sets == sets
    assert await manager.em.verify() == []
    await site.world.close()
