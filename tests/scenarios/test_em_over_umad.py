"""The Ethernet Manager sends the same MADs from both of its homes: a simulated port, and the umad device of one."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from hfi_sim.engine.link.config import LinkConfig
from hfi_sim.fabric.topology import Topology
from hfi_sim.management.sa.session import SaSession
from hfi_sim.netdev.memory import memory_netdev
from hfi_sim.wire.mad.header import Method
from opavnic.management.em_port import FabricNames, make_em
from opavnic.world.world import World
from scenarios.manager_on_umad import ManagerOnUmad, Sent
from unit.opavnic.vnic.vnic_bench import netdev_of
from vema.attributes.attr_id import AttrId
from vema.base.types import VportNum
from vema.em.desired.desired import EmConfig, LimitsSection, PollingSection, parse_config
from vema.em.service.administered_subnet import AdministeredSubnet
from vema.em.service.service import EthernetService

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]

LONGEST = [pytest.mark.long, pytest.mark.timeout(1800)]
LINK = LinkConfig(latency_ns=100_000)
LEAF = 32
"""Ports on a switch."""
PATIENCE_S = 600.0
POLLS = {(Method.GET, AttrId.CLASS_PORT_INFO), (Method.GET, AttrId.VESW_PORT_INFO)}


@dataclass(frozen=True)
class Members:
    """The hosts of a site, and what is configured on them."""

    hosts: list[str]
    mac: str
    further: list[list[str]]
    """Members of the virtual switches beside blue, of which all hosts are members."""

    @property
    def vports(self) -> int:
        return len(self.hosts) + sum(map(len, self.further))

    def config(self, **changes: Any) -> EmConfig:
        blue = {"id": 2, "name": "blue", "pkey": 0x8002, "members": self.hosts, **changes}
        vesws = [blue]
        for number, members in enumerate(self.further, 3):
            vesws.append({"id": number, "name": f"red{number}", "pkey": 0x8003, "members": members})
        return parse_config({"mac": self.mac, "vesws": vesws})


def names(count: int) -> list[str]:
    return [f"h{n}" for n in range(1, count + 1)]


FEW = Members(names(6), "learn", [["h1", "h2"]])


def many(count: int, vesws: int, mac: str) -> Members:
    """Return hosts of which each is a member of blue, and of one of the other virtual switches, if there are any."""
    hosts = names(count)
    return Members(hosts, mac, [hosts[first :: vesws - 1] for first in range(vesws - 1)])


class Site:
    """Hosts with VNICs, and `mgr`, on which the manager runs."""

    def __init__(self, members: Members, link: LinkConfig = LINK) -> None:
        hosts = members.hosts
        topology = Topology("site")
        topology.switch("sw0")
        for at, name in enumerate(("em", "mgr", *hosts)):
            switch = f"sw{at // LEAF}"
            if at and not at % LEAF:
                topology.switch(switch)
                topology.join(switch, "sw0", link)
            topology.hfi(name)
            topology.join(name, switch, link)
        self.world = World(topology, clock=asyncio.get_running_loop())
        self.ports = {name: host.port for name, host in self.world.hosts.items()}
        for port in self.ports.values():
            self.world.set_pkeys(port, [0x8002, 0x8003])
            port.hfi.describe(f"{port.hfi.name} hfi1_0")
        self.world.subnet_manager.set_management(self.ports["mgr"], True)
        for name in hosts:
            self.world.add_vnic_port(name, netdevs=memory_netdev)
        self.sent = Sent(self.ports["mgr"], self.world.clock)

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


def is_up(em: EthernetService, vports: int) -> bool:
    """Return whether all vports are configured, and nothing is left to be done."""
    return em.converged and em.core is not None and len(list(em.core.vports())) == vports


async def up(em: EthernetService, vports: int = FEW.vports) -> None:
    """Wait until it is up, and stays so."""
    assert await em.wait_for(lambda: is_up(em, vports), PATIENCE_S)
    await asyncio.sleep(5.0)
    assert is_up(em, vports)


@dataclass
class Life:
    """What was sent in the life of a manager, and how long the parts of the life took."""

    site: Site
    sent: Sent
    sets: int
    took_s: dict[str, float]
    """Virtual seconds until the last Set, by what had changed before."""
    cpu_s: float

    def __str__(self) -> str:
        took = ", ".join(f"{what} {seconds:.3f} s" for what, seconds in self.took_s.items())
        return f"{self.sent.total} MADs, {self.sets} Sets; {took}; {self.cpu_s:.1f} s of the processor"


async def life(home: Home, members: Members) -> Life:
    """Configure, change an address, apply, lose a port and get it back, lose MADs; return what was sent."""
    began_s = time.process_time()
    site = Site(members)
    em = home(site)
    took_s: dict[str, float] = {}

    async def settled(what: str) -> None:
        changed_at = site.world.clock.time()
        assert await em.wait_converged(PATIENCE_S)
        await asyncio.sleep(25.0)
        assert em.converged
        took_s[what] = max(0.0, site.sent.last_set_s - changed_at)

    site.world.subnet_manager.sweep()
    em.start(members.config())
    await settled("start")
    await up(em, members.vports)
    for host in members.hosts:
        site.netdev(host).open()
    await settled("netdevs open")
    site.netdev("h3").set_mac(bytes((2, 0, 0, 0, 0, 3)))
    await settled("address")
    em.apply(members.config(mtu=9000))
    await settled("MTU")
    em.apply(members.config(members=members.hosts[: len(members.hosts) * 2 // 3]))
    await settled("fewer members")
    link = site.ports["h2"].link
    for there in (False, True):
        site.world.fabric.set_link(link, there)
        await settled("link up" if there else "link down")
    assert await em.verify() == []
    sets = em.core.sets
    await site.world.close()
    return Life(site, site.sent, sets, took_s, time.process_time() - began_s)


@pytest.mark.parametrize(
    "members",
    [
        pytest.param(FEW, id="6"),
        pytest.param(many(300, 1, "learn"), id="300-hosts", marks=pytest.mark.long),
        pytest.param(many(300, 9, "learn"), id="300-hosts-9-vesws", marks=pytest.mark.long),
        pytest.param(many(1000, 1, "locally-administered"), id="1000-hosts", marks=LONGEST),
        pytest.param(many(1000, 9, "locally-administered"), id="1000-hosts-9-vesws", marks=LONGEST),
    ],
)
async def test_both_homes_send_the_same_mads_to_every_port(members: Members) -> None:
    one, other = await life(Site.on_port, members), await life(Site.on_umad, members)
    print(f"simulated port: {one}\numad device: {other}")
    assert one.sent.by_lid.keys() == other.sent.by_lid.keys()
    for lid, mads in one.sent.by_lid.items():
        assert sorted(other.sent.by_lid[lid]) == sorted(mads), f"LID {lid:#x}"
    agents = {int(one.site.ports[host].lid) for host in members.hosts}
    for lid in agents:
        assert one.sent.by_lid[lid] == other.sent.by_lid[lid], f"the order of MADs to LID {lid:#x}"
    assert one.sets == other.sets
    for what, seconds in one.took_s.items():
        assert seconds / 1.5 <= other.took_s[what] <= seconds * 1.5, what
    assert one.sent.total > 50 * len(members.hosts)


async def begun(home: Home, latency_s: float, interval_s: float) -> list[Counter[bytes]]:
    """Return what is sent to each agent until all is as desired."""
    site = Site(FEW, LinkConfig(latency_ns=round(latency_s * 1e9)))
    em = home(site)
    site.world.subnet_manager.sweep()
    polling, limits = PollingSection(interval=interval_s), LimitsSection(in_flight=1)
    em.start(FEW.config().model_copy(update={"polling": polling, "limits": limits}))
    assert await em.wait_for(lambda: is_up(em, FEW.vports), PATIENCE_S)
    sent = [Counter(site.sent.by_lid[int(site.ports[host].lid)]) for host in FEW.hosts]
    await site.world.close()
    return sent


@pytest.mark.parametrize("home", [Site.on_port, Site.on_umad])
async def test_start_that_takes_longer_has_more_polls_and_nothing_else(home: Home) -> None:
    """So counts of MADs of two starts compare on virtual time alone, or without polls."""
    short = await begun(home, 0.0001, 1.0)
    assert await begun(home, 0.02, 0.0) == short
    polled: Counter[bytes] = Counter()
    for more, sent in zip(await begun(home, 0.02, 1.0), short, strict=True):
        assert sent <= more
        polled += more - sent
    assert {(mad[3], int.from_bytes(mad[16:18])) for mad in polled} == POLLS


async def restarted(home: Home, again: Callable[[EthernetService], None]) -> int:
    site = Site(FEW)
    em = home(site)
    site.world.subnet_manager.sweep()
    em.start(FEW.config())
    await up(em)
    assert em.core.sets > 0
    again(em)
    await up(em)
    sets = em.core.sets
    await site.world.close()
    return sets


@pytest.mark.parametrize("memory", [True, False])
async def test_restart_over_umad_sends_no_set(memory: bool) -> None:
    assert await restarted(Site.on_umad, lambda em: em.restart(memory=memory)) == 0


async def test_device_that_goes_and_comes_changes_nothing_at_agents() -> None:
    site = Site(FEW)
    manager = ManagerOnUmad(site.ports["mgr"], site.world.clock)
    site.world.cleanups.add("manager", manager.close)
    site.world.subnet_manager.sweep()
    manager.em.start(FEW.config())
    await up(manager.em)
    core = manager.em.core
    sets = core.sets
    manager.unplug()
    await asyncio.sleep(60.0)
    manager.plug()
    await asyncio.sleep(60.0)
    assert manager.em.converged
    assert core.sets == sets
    assert await manager.em.verify() == []
    await site.world.close()
