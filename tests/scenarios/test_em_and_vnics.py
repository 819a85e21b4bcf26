"""An Ethernet Manager, two switches and hosts on virtual time: everything the EM knows, it knows by MADs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest

from hfi_sim.base.types import MacAddr
from hfi_sim.engine.link.config import LinkConfig
from hfi_sim.fabric.topology import Topology
from hfi_sim.management.mad.agents import MadRequest
from hfi_sim.netdev.memory import MemoryNetdev, memory_netdev
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.wire.mad.header import MadClass, Method
from opavnic.management.em_port import SmTopology, make_em
from opavnic.world.world import World
from unit.opavnic.vnic.vnic_bench import netdev_of
from vema.attributes.attr_id import AttrId
from vema.attributes.iface_macs import IfaceMacs
from vema.attributes.traps import notice_of
from vema.base.types import EMA_OUI, TrapOpcode, VportNum
from vema.em.core.messages import build_request, read_response
from vema.em.desired.desired import EmConfig, parse_config

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]

BLUE, RED = VportNum(1), VportNum(2)
LATENCY_NS = 1_000_000


class Site:
    """Hosts h1 and h2 behind switches of their own, each with a VNIC in blue and one in red; the EM beside h1."""

    def __init__(self) -> None:
        topology = Topology("site")
        for name, switch in (("em", "left"), ("h1", "left"), ("h2", "right")):
            topology.nodes.get(switch) or topology.switch(switch)
            topology.hfi(name)
            topology.join(name, switch, LinkConfig(latency_ns=LATENCY_NS))
        topology.join("left", "right", LinkConfig(latency_ns=LATENCY_NS))
        world = World(topology, clock=asyncio.get_running_loop())
        self.fabric, self.em, self.subnet_manager = world.fabric, world.em_port, world.subnet_manager
        self.hosts = [host.port for host in world.hosts.values()]
        for port in self.hosts:
            world.set_pkeys(port, [0x8002, 0x8003])
        self.subnet_manager.sweep()
        self.vnics = [world.add_vnic_port(name, netdevs=memory_netdev) for name in world.hosts]
        self.manager = make_em(
            SmTopology(self.subnet_manager, self.em),
            self.em,
            clock=self.fabric.clock,
            wall_clock=self.fabric.clock.time,
            hear_traps=False,
        )
        self.traps: list[tuple[int, TrapOpcode]] = []
        self.em.mad.register_agent(MadClass.EMA, EMA_OUI, [Method.TRAP], self._trap)

    def _trap(self, request: MadRequest) -> None:
        self.traps.append((request.slid, TrapOpcode(notice_of(request.mad).opcode)))
        self.manager.trap(request)

    def netdev(self, host: int, vport_num: VportNum) -> MemoryNetdev:
        return netdev_of(self.vnics[host].adapters[vport_num])

    def table(self, host: int, vport_num: VportNum) -> Mapping[bytes, int]:
        """Return the destinations in the MAC table of a VNIC."""
        return self.vnics[host].adapters[vport_num].mac_table.dlids

    def open_all(self) -> None:
        for host in (0, 1):
            for vport_num in (BLUE, RED):
                assert self.netdev(host, vport_num).open() == 0

    async def ask(self, port: HfiPort, attr_id: AttrId, vport_num: VportNum) -> bytes:
        request = build_request(Method.GET, attr_id, attr_mod=vport_num)
        return read_response(request, await self.em.mad.request(port.lid, request))


def blue_and_red() -> EmConfig:
    """Return blue and red with all hosts in both."""
    vesws = [{"id": 2, "name": "blue", "pkey": 0x8002}, {"id": 3, "name": "red", "pkey": 0x8003}]
    return parse_config({"fabric": {"id": 0x301}, "mac": "learn", "vesws": vesws})


@asynccontextmanager
async def site() -> AsyncIterator[Site]:
    """Yield a site whose EM has made blue and red; at the end nothing may be missing by the conservation law."""
    place = Site()
    place.manager.start(blue_and_red())
    assert await place.manager.wait_converged(60.0)
    yield place
    place.manager.stop()
    await asyncio.sleep(1.0)
    assert place.fabric.balance() == {}


def eth(dest: bytes, source: MemoryNetdev, size: int) -> bytes:
    return (dest + source.address + b"\x88\xb5").ljust(size, b"\x5a")


async def test_changes_of_a_host_are_told_once_and_the_lists_agree() -> None:
    async with site() as place:
        place.open_all()
        await asyncio.sleep(2.0)
        place.traps.clear()
        port, netdev = place.hosts[1], place.netdev(1, BLUE)
        own, extra, group = (
            MacAddr(bytes.fromhex(text)) for text in ("020000000007", "020000000008", "01005e000005")
        )

        netdev.set_mac(own)
        netdev.set_uc_list([extra])
        netdev.set_mc_list([group])
        netdev.stop()
        await asyncio.sleep(1.0)

        assert place.traps == [(port.lid, TrapOpcode(code)) for code in (1, 1, 2, 3)]
        ucast = IfaceMacs.parse(await place.ask(port, AttrId.IFACE_UCAST_MACS, BLUE))
        mcast = IfaceMacs.parse(await place.ask(port, AttrId.IFACE_MCAST_MACS, BLUE))
        assert (ucast.macs, mcast.macs) == ((own, extra), (group,))
        assert await place.manager.wait_for(lambda: own in place.table(0, BLUE), 2.0)
        assert extra in place.table(0, BLUE)
        assert own not in place.table(1, BLUE)  # nobody is told of his own addresses


async def test_station_behind_a_vnic_is_reached_while_it_is_reported_and_in_its_switch_alone() -> None:
    """Its address has the local bit: without an entry the LID in it counts, as with the driver."""
    async with site() as place:
        place.open_all()
        station = MacAddr(bytes.fromhex("021122334455"))
        one, gateway = place.netdev(0, BLUE), place.netdev(1, BLUE)

        async def reached(sender: MemoryNetdev) -> bool:
            gateway.received.clear()
            sender.transmit(eth(station, sender, 100))
            await asyncio.sleep(0.1)
            return len(gateway.received) == 1

        assert not await reached(one)
        assert place.fabric.drops()["left"]["sw_no_route"] == 1
        gateway.set_uc_list([station])
        await asyncio.sleep(0.5)
        assert await reached(one)
        assert not await reached(place.netdev(0, RED))
        assert place.fabric.drops()["left"]["sw_no_route"] == 2
        gateway.set_uc_list([])
        await asyncio.sleep(0.5)
        assert not await reached(one)
