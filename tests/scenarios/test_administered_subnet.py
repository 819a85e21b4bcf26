"""An EM that sees the fabric through subnet administration alone: members, lanes, groups, and what follows changes."""

from __future__ import annotations

import asyncio

import pytest

from hfi_sim.base.types import PortEvent
from hfi_sim.engine.link.config import LinkConfig
from hfi_sim.fabric.topology import Topology
from hfi_sim.management.sa.session import SaSession
from hfi_sim.netdev.memory import MemoryNetdev, memory_netdev
from hfi_sim.wire.mad.header import Method
from hfi_sim.wire.sa.message import SaMessage
from opavnic.management.em_port import FabricNames, make_em
from opavnic.world.world import World
from unit.opavnic.vnic.vnic_bench import netdev_of
from vema.base.types import VportNum
from vema.em.desired.desired import EmConfig, parse_config
from vema.em.desired.election import Role
from vema.em.service.administered_subnet import EM_SERVICE_ID, AdministeredSubnet

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]

PKEY = 0x8002
BLUE = {"id": 2, "name": "blue", "pkey": PKEY, "members": ["h1", "h2"]}
BROADCAST = b"\xff" * 6


class Site:
    """h1 and h2 with VNICs, the EM on h3; the built-in subnet manager and its administration on the node em."""

    def __init__(self) -> None:
        topology = Topology("site")
        topology.switch("sw0")
        for name in ("em", "h1", "h2", "h3"):
            topology.hfi(name)
            topology.join(name, "sw0", LinkConfig(latency_ns=100_000))
        self.world = World(topology, clock=asyncio.get_running_loop())
        self.ports = {name: host.port for name, host in self.world.hosts.items()}
        self.em_port = self.ports["h3"]
        for port in self.ports.values():
            self.world.set_pkeys(port, [PKEY, 0x8003])
        self.world.subnet_manager.set_management(self.em_port, True)
        for name in ("h1", "h2"):
            self.world.add_vnic_port(name, netdevs=memory_netdev)
        self.session = SaSession(self.em_port, self.world.clock)
        names = FabricNames(self.world.fabric.hfi_ports, self.world.host_of)
        self.topology = AdministeredSubnet(self.session, self.em_port, names)
        self.em = make_em(
            self.topology, self.em_port, clock=self.world.clock, wall_clock=self.world.clock.time
        )
        self.world.cleanups.add("session", self.session.close)
        self.world.cleanups.add("EM", self.em.stop)

    async def up(self) -> None:
        """Wait until both VNICs have their group."""
        members = {int(self.ports[name].guid) for name in ("h1", "h2")}
        assert await self.em.wait_for(lambda: self.em.converged and self.joined() == members, 60.0), (
            self.topology.trouble
        )

    def joined(self) -> set[int]:
        return set(self.topology.group_members(self.topology.group_lids().get(2, 0)))

    def netdev(self, host: str) -> MemoryNetdev:
        return netdev_of(self.world.vnic_ports[f"{host}:1"].adapters[VportNum(1)])

    def set_cable(self, host: str, up: bool) -> None:
        self.world.fabric.set_link(self.ports[host].link, up)

    async def broadcast_of_h1_reaches_h2(self) -> bool:
        for host in ("h1", "h2"):
            self.netdev(host).open()
        await asyncio.sleep(3.0)
        one, two = self.netdev("h1"), self.netdev("h2")
        before = len(two.received)
        one.transmit(BROADCAST + one.address + b"\x88\xb5" + bytes(60))
        await asyncio.sleep(1.0)
        return len(two.received) > before


async def swept() -> Site:
    """Return a site as the manager has set it up."""
    site = Site()
    site.world.subnet_manager.sweep()
    site.em.start(parse_config({"vesws": [BLUE]}))
    await site.up()
    return site


async def test_before_a_subnet_manager_speaks_an_em_waits_and_says_nothing_is_wrong() -> None:
    site = Site()
    site.em.start(parse_config({"vesws": [BLUE]}))
    await asyncio.sleep(30.0)
    assert site.topology.ports() == []
    assert {facts.name: facts.pkeys for facts in site.topology.known()} == {"h1:1": None, "h2:1": None}
    assert site.em.contradictions() == []
    assert site.em_port.mad.sent == 0
    await site.world.close()


async def test_ports_partitions_lanes_and_group_are_those_of_the_administration() -> None:
    site = await swept()
    facts = {one.name: one for one in site.topology.ports()}
    assert facts.keys() == {"h1:1", "h2:1"}
    assert facts["h1:1"].lid == site.ports["h1"].lid
    assert PKEY in (facts["h1:1"].pkeys or ())
    lane = facts["h1:1"].lane_of(PKEY)
    assert (lane.sc, lane.vl, lane.mtu) == (0, 0, 10240)
    assert await site.em.verify() == []
    mlid = site.topology.group_lids()[2]
    assert site.world.subnet_manager.groups.members(mlid) == site.joined()
    assert await site.broadcast_of_h1_reaches_h2()
    await site.world.close()


async def test_port_that_loses_its_cable_leaves_and_joins_again_when_it_is_back() -> None:
    site = await swept()
    site.set_cable("h2", False)
    await asyncio.sleep(3.0)
    assert [facts.name for facts in site.topology.ports()] == ["h1:1"]
    assert site.joined() == {int(site.ports["h1"].guid)}
    site.set_cable("h2", True)
    await asyncio.sleep(3.0)
    await site.up()
    await site.world.close()


async def test_reregistration_places_everything_again() -> None:
    """As after the failover of a fabric manager, which has forgotten groups, services and subscriptions."""
    site = await swept()
    administration = site.world.administration
    administration.core.membership.clear()
    site.em_port.report(PortEvent.CLIENT_REREGISTER)
    await asyncio.sleep(3.0)
    await site.up()
    assert site.world.subnet_manager.groups.members(site.topology.group_lids()[2]) == site.joined()
    await site.world.close()


async def test_partition_that_a_member_loses_is_said_and_not_refused() -> None:
    site = await swept()
    site.world.set_pkeys(site.ports["h2"], [0x8003])
    await asyncio.sleep(15.0)
    (problem,) = map(str, site.em.contradictions())
    assert problem.startswith("vesws[0].pkey: pkey 0x8002 is not in the table of h2:1 (")
    assert any(problem in str(line) for line in await site.em.verify())
    site.world.set_pkeys(site.ports["h2"], [PKEY])
    await asyncio.sleep(15.0)
    assert site.em.contradictions() == []
    await site.world.close()


async def test_administration_that_loses_every_third_mad_is_understood_all_the_same() -> None:
    site = Site()
    site.world.subnet_manager.sweep()
    site.world.faults.add("loss on em probability=30% l4=mad")
    site.em.start(parse_config({"vesws": [BLUE]}))
    await site.up()
    assert EM_SERVICE_ID in [
        held.order.record.service_id for key, held in site.session.client.orders.items() if key == "service"
    ]
    await site.world.close()


async def test_group_whose_properties_change_is_left_and_joined_anew() -> None:
    site = await swept()
    for change in ({"mtu": 9000}, {"mtu": 1500}, {"pkey": 0x8003}):
        site.em.apply(parse_config({"vesws": [{**BLUE, **change}]}))
        await site.up()
        assert site.topology.trouble == []
        mlid = site.topology.group_lids()[2]
        assert site.world.subnet_manager.groups.members(mlid) == site.joined()
        await asyncio.sleep(20.0)
        assert await site.em.verify() == []
    await site.world.close()


class SecondManager:
    """An EM on h2, beside the one on h3."""

    def __init__(self, site: Site) -> None:
        port = site.ports["h2"]
        site.world.subnet_manager.set_management(port, True)
        self.session = SaSession(port, site.world.clock)
        names = FabricNames(site.world.fabric.hfi_ports, site.world.host_of)
        self.subnet = AdministeredSubnet(self.session, port, names)
        self.em = make_em(self.subnet, port, clock=site.world.clock, wall_clock=site.world.clock.time)
        site.world.cleanups.add("second session", self.session.close)
        site.world.cleanups.add("second EM", self.em.stop)


def _electing(priority: int) -> EmConfig:
    election = {"priority": priority, "heartbeat": "100ms", "dead_after": "1s"}
    return parse_config({"vesws": [BLUE], "election": election})


async def test_of_two_managers_beside_a_fabric_manager_one_is_master_and_the_other_takes_over() -> None:
    site = Site()
    site.world.subnet_manager.sweep()
    site.em.start(_electing(5))
    await site.up()
    other = SecondManager(site)
    other.em.start(_electing(3))
    await asyncio.sleep(30.0)
    assert (site.em.role, other.em.role) == (Role.MASTER, Role.STANDBY)
    assert other.em.core.sets == 0
    site.em.halt()
    assert await other.em.wait_for(lambda: other.em.role is Role.MASTER and other.em.converged, 10.0)
    assert await other.em.verify() == []
    await site.world.close()


async def test_manager_that_does_not_see_the_subnet_yet_is_no_master() -> None:
    site = Site()
    site.em.start(_electing(5))
    await asyncio.sleep(30.0)
    assert site.em.role is Role.STANDBY
    site.world.subnet_manager.sweep()
    await site.up()
    assert site.em.role is Role.MASTER
    await site.world.close()


async def test_administration_that_forgets_the_manager_is_noticed_without_an_event() -> None:
    site = await swept()
    await asyncio.sleep(30.0)
    administration = site.world.administration
    before = site.session.client.orders["service"]
    order = before.order
    away = SaMessage.request(Method.DELETE, order.attr_id, order.record, mask=order.mask)
    site.session.client.ask(away, lambda _: None)
    site.session.poll()
    await asyncio.sleep(1.0)
    assert len(administration.core.services) == 0
    await asyncio.sleep(12.0)
    assert len(administration.core.services) == 1
    assert site.session.client.orders["service"] is not before
    await site.world.close()
