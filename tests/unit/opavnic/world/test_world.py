"""A world: made without an event loop, and ended whole."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from hfi_sim.base.clock import ManualClock
from hfi_sim.base.errors import FabricError, FaultError
from hfi_sim.base.types import CapabilityMask3, PortState
from hfi_sim.fabric.topology import Node, NodeKind, Topology, single_switch
from hfi_sim.netdev.memory import MemoryNetdev
from hfi_sim.wire.lrh16b import Lrh16B
from hfi_sim.wire.mad.header import MAD_SIZE, OUI_OFFSET, MadClass, MadHeader, Method
from hfi_sim.wire.packet import build_packet
from opavnic.base.errors import OpavnicError
from opavnic.vnic.vnic_port import VnicPort
from opavnic.world.world import World
from vema.base.types import EMA_OUI


def netdev(vport_num: int) -> MemoryNetdev:
    return MemoryNetdev(f"veth{vport_num}")


def add_vnic_port(world: World, host: str) -> VnicPort:
    return world.add_vnic_port(host, netdevs=netdev)


def two_hosts(**options: object) -> World:
    world = World(single_switch(hosts=["h1", "h2"]), **options)  # type: ignore[arg-type]
    world.subnet_manager.sweep()
    return world


def announces(vnic_port: VnicPort) -> bool:
    return CapabilityMask3.ETH_ON_FABRIC_SUPPORTED in vnic_port.port.capability_mask3


def test_world_on_a_manual_clock_needs_no_event_loop() -> None:
    clock = ManualClock()
    world = two_hosts(clock=clock)
    assert list(world.hosts) == ["h1", "h2"]
    assert world.em_port.hfi.name == "em"
    assert {port.state for port in world.fabric.hfi_ports()} == {PortState.ACTIVE}
    ports = [add_vnic_port(world, host) for host in world.hosts]
    assert all(map(announces, ports))
    assert [driver.port.lid for driver in world.drivers.values()] == [port.port.lid for port in ports]
    assert world.clock is clock


def test_world_without_a_clock_delivers_at_once() -> None:
    world = two_hosts()
    a, b = (world.hosts[name].port for name in ("h1", "h2"))
    for port in (a, b):
        world.set_pkeys(port, [0x8001])
    seen: list[bytes] = []
    b.register_l4(0x55, lambda _port, packet, _token: seen.append(packet))
    lrh = Lrh16B(a.lid, b.lid, l4=0x55, pkey=0x8001)
    a.send(build_packet(lrh, bytes(64), world.fabric.icrc))
    assert len(seen) == 1


def test_world_without_an_em_has_no_em_node() -> None:
    world = two_hosts(em_node=None)
    assert list(world.fabric.hfis) == ["h1", "h2"]
    assert all(port.lid for port in world.fabric.hfi_ports())
    with pytest.raises(OpavnicError, match=r"has no node for an Ethernet Manager"):
        _ = world.em_port


def test_hosts_have_the_ports_of_all_their_hfis() -> None:
    topology = Topology("multi-rail")
    topology.switch("sw0")
    for hfi in ("h1", "h1.2"):
        topology.hfi(hfi, ports=2, host="h1")
        topology.join(hfi, "sw0")
    world = World(topology)
    host = world.hosts["h1"]
    assert [port.name for port in host.ports] == ["h1:1", "h1:2", "h1.2:1", "h1.2:2"]
    assert host.port is host.ports[0]
    assert [world.host_of(port) for port in host.ports] == ["h1"] * 4
    assert world.host_of(world.em_port) == "em"


def test_host_added_later_is_one_like_the_others() -> None:
    world = two_hosts()
    host = world.add_host("h3", ["h3-ib0", "h3-ib1"])
    world.fabric.connect(host.port, world.fabric.switches["sw0"].ports[10])
    assert world.host_of(host.ports[1]) == "h3"
    assert host.port.state is PortState.ACTIVE
    with pytest.raises(FabricError, match="h3-ib0"):
        world.add_host("h4", ["h3-ib0"])
    with pytest.raises(OpavnicError, match=r'unknown host "h9" \(nearest: "h3"'):
        world.host("h9")


def test_partition_that_is_added_stays_when_others_are_set() -> None:
    world = two_hosts()
    port = world.hosts["h1"].port
    world.set_pkeys(port, [0x8002, 0xFFFF])
    world.add_pkey(port, 0x8003)
    assert set(port.pkeys.entries) >= {0x8002, 0xFFFF, 0x8003}
    world.set_pkeys(port, [0x8004])
    world.add_pkey(port, 0x8004)
    assert [pkey for pkey in port.pkeys.entries if pkey & 0x7FFF != 0x7FFF] == [0x8004, 0x8003]


def test_crash_tells_who_asked_and_the_fault_brings_the_driver_back() -> None:
    world = two_hosts()
    vnic_port = add_vnic_port(world, "h1")
    told: list[str] = []
    leave = world.on_crash(told.append)
    fault = world.faults.add("crash on h1")
    assert told == ["h1"]
    assert not announces(vnic_port)
    world.faults.remove(fault.number)
    assert announces(vnic_port)
    leave()
    world.crash("h1")
    assert told == ["h1"]


def test_host_that_cannot_crash_refuses_the_fault() -> None:
    world = two_hosts()
    world.add_vnic_port("h1", netdevs=netdev, can_crash=False)
    with pytest.raises(FaultError, match=r"agent or manager that can crash"):
        world.faults.add("crash on h1")


async def test_close_ends_everything_the_last_one_first() -> None:
    ended: list[str] = []
    async with two_hosts(clock=asyncio.get_running_loop()) as world:
        vnic_port = add_vnic_port(world, "h1")
        world.faults.add("crash on h1")
        for name in ("first", "second"):
            world.cleanups.add(name, lambda name=name: ended.append(name))  # type: ignore[misc]
    assert ended == ["second", "first"]
    assert not announces(vnic_port), "a fault that ends with the world starts no driver again"
    assert world.faults.show() == []


async def test_end_that_fails_keeps_nothing_else_from_its_end() -> None:
    def fail() -> None:
        raise RuntimeError("boom")

    world = two_hosts(clock=asyncio.get_running_loop())
    vnic_port = add_vnic_port(world, "h1")
    world.cleanups.add("a part", fail)
    assert await world.close() == ["a part: RuntimeError: boom"]
    VnicPort(vnic_port.port, world.clock).close()  # its place is free: it has been closed


async def test_context_names_what_did_not_end() -> None:
    def fail() -> None:
        raise RuntimeError("boom")

    with pytest.raises(OpavnicError, match=r"^a part: RuntimeError: boom$"):
        async with two_hosts() as world:
            world.cleanups.add("a part", fail)


async def test_error_inside_the_context_is_not_hidden_by_one_of_an_end() -> None:
    def fail() -> None:
        raise RuntimeError("boom")

    async def use() -> None:
        async with two_hosts() as world:
            world.cleanups.add("a part", fail)
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine") as caught:
        await use()
    assert caught.value.__notes__ == ["a part: RuntimeError: boom"]


def test_world_has_room_for_more_hosts_than_any_switch() -> None:
    topology = Topology("large", switch_ports_max=2001)
    topology.switch("sw0", ports=2001)
    for number in range(2000):
        topology.hfi(f"h{number}")
        topology.join(f"h{number}", "sw0")
    world = World(topology)
    world.subnet_manager.sweep()
    assert len(world.hosts) == 2000
    assert add_vnic_port(world, "h1999").port.lid


async def test_context_that_is_entered_is_left_with_the_rest_and_named_where_it_fails() -> None:
    steps: list[str] = []

    @contextlib.asynccontextmanager
    async def part(name: str) -> AsyncIterator[str]:
        steps.append(f"{name} starts")
        yield name
        steps.append(f"{name} ends")
        if name == "bad":
            raise RuntimeError("boom")

    world = two_hosts()
    assert [await world.cleanups.enter(name, part(name)) for name in ("good", "bad")] == ["good", "bad"]
    assert await world.close() == ["bad: RuntimeError: boom"]
    assert steps == ["good starts", "bad starts", "bad ends", "good ends"]


async def test_context_that_cannot_be_entered_is_not_left() -> None:
    @contextlib.asynccontextmanager
    async def part() -> AsyncIterator[None]:
        raise KeyError("no room")
        yield

    world = two_hosts()
    with pytest.raises(KeyError, match="no room"):
        await world.cleanups.enter("part", part())
    assert await world.close() == []


def test_traps_reach_everyone_who_asked_for_them_and_nobody_afterwards() -> None:
    world = two_hosts()
    h1 = world.hosts["h1"].port
    heard: list[str] = []
    leave = [world.on_trap(lambda _trap, name=name: heard.append(name)) for name in ("a", "b")]  # type: ignore[misc]
    header = MadHeader(mgmt_class=MadClass.EMA, method=Method.TRAP, tid=1, attr_id=2).build()
    trap = (header.ljust(OUI_OFFSET, b"\0") + EMA_OUI).ljust(MAD_SIZE, b"\0")
    h1.mad.send(world.em_port.lid, trap)
    assert heard == ["a", "b"]
    leave[0]()
    h1.mad.send(world.em_port.lid, trap)
    assert heard == ["a", "b", "b"]
    leave[1]()
    h1.mad.send(world.em_port.lid, trap)
    assert heard == ["a", "b", "b"]
    world.on_trap(lambda _trap: heard.append("c"))
    h1.mad.send(world.em_port.lid, trap)
    assert heard[-1] == "c"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, ["h1 hfi1_0", "h1 hfi1_1", "h2 hfi1_0", "em hfi1_0"]),
        ({"descriptions": "%n"}, ["h1", "h1.2", "h2", "em"]),
        (
            {"descriptions": "rack7 %d of %h"},
            ["rack7 hfi1_0 of h1", "rack7 hfi1_1 of h1", "rack7 hfi1_0 of h2"],
        ),
        ({"descriptions": "%x" + "y" * 100}, ["%x" + "y" * 62]),
    ],
)
def test_hfis_describe_themselves_as_those_of_booted_hosts(options: dict[str, str], said: list[str]) -> None:
    hosts = ["h1", Node("h1.2", NodeKind.HFI, 1, host="h1"), "h2"]
    world = World(single_switch(hosts=hosts), **options)  # type: ignore[arg-type]
    names = ("h1", "h1.2", "h2", "em")
    assert [world.fabric.hfis[name].description for name in names][: len(said)] == said
