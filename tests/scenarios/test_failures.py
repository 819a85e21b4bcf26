"""Things break under traffic: links, spines, switches, agents. Then they come back."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from scapy.layers.l2 import ARP

from hfi_sim.base.types import CapabilityMask3, PortState
from hfi_sim.subnet_manager import Routing
from opavnic.scenario import Hosts, Scenario, ScenarioEm, ScenarioHost, ms, seconds, us
from scenarios.test_changes import stream

CHUNK = 1024
DATA = bytes(range(256)) * 4 * 200


async def transfer(source: ScenarioHost, target: ScenarioHost, data: bytes, timeout_s: float) -> bytes:
    """Send `data` in chunks, each until it is acknowledged; return what arrived."""
    got = bytearray()
    acknowledged = asyncio.Event()
    expected = 0

    def receive(frame: bytes) -> None:
        nonlocal expected
        number = int.from_bytes(frame[14:18], "big")
        if number == expected:
            got.extend(frame[18:])
            expected += 1
        target.send(frame[6:12] + frame[:6] + frame[12:18] + bytes(42))

    def receive_acknowledgement(frame: bytes) -> None:
        if int.from_bytes(frame[14:18], "big") == sending:
            acknowledged.set()

    target.vnic().on_frame = receive
    source.vnic().on_frame = receive_acknowledgement
    addresses = b"".join(bytes.fromhex(host.mac.replace(":", "")) for host in (target, source))
    for sending in range(len(data) // CHUNK):
        acknowledged.clear()
        chunk = data[sending * CHUNK : (sending + 1) * CHUNK]
        while not acknowledged.is_set():
            source.send(addresses + b"\x88\xb5" + sending.to_bytes(4, "big") + chunk)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(acknowledged.wait(), timeout_s)
    return bytes(got)


@pytest.mark.topology("clos", leaves=2, spines=1)
async def test_link_flap_during_a_transfer_delays_it_and_loses_nothing_of_it(
    lab: Scenario, hosts: Hosts, em: ScenarioEm
) -> None:
    await em.vesw("blue", members=hosts)
    lab.faults.add("link-down on h4 for=30us every=300us count=5")
    lab.faults.add("loss on leaf0--spine0 3%")
    assert await transfer(hosts["h1"], hosts["h4"], DATA, us(50)) == DATA
    assert sum(lab.fabric.drops()["leaf0:3->spine0:1"].values()) > 0
    assert lab.faults.show()[0]["hits"] == 5


@pytest.mark.topology("fat-tree", k=4)
@pytest.mark.fabric_options(routing=Routing(engine="fat-tree"))
async def test_loss_of_a_spine_is_routed_around(lab: Scenario, hosts: Hosts, em: ScenarioEm) -> None:
    await em.vesw("blue", members=["h1", "h16"])
    h1, h16 = hosts["h1"], hosts["h16"]
    cores = [name for name in lab.fabric.switches if name.startswith("core")]
    for number, core in enumerate(cores[:-1]):
        lab.faults.add(f"switch-reboot on {core} after={number + 1}ms for=10s")
    got = await stream(h1, h16, 600, us(10))
    lost = sum(sum(reasons.values()) for reasons in lab.fabric.drops().values())
    assert len(got) == 600 - lost
    assert lost <= 3 * 2  # at most what was on the wire when a core went
    assert got == sorted(got)


@pytest.mark.parametrize("also", ["", "crash on h2 for=3s"])
async def test_hfi_that_is_pulled_out_takes_agent_and_netdevs_along_and_is_configured_when_it_is_back(
    lab: Scenario, hosts: Hosts, em: ScenarioEm, also: str
) -> None:
    await em.vesw("blue", members=hosts)
    h1, h2 = hosts
    agents = lab.world.vnic_ports["h2:1"]
    netdev = agents.adapters[1].netdev
    fault = lab.faults.add("hfi-removal on h2")
    assert agents.adapters == {}
    assert not agents.port.capability_mask3 & CapabilityMask3.ETH_ON_FABRIC_SUPPORTED
    if also:
        lab.faults.add(also)
    await asyncio.sleep(seconds(1))
    lab.faults.remove(fault.number)
    assert agents.port.state is not PortState.DOWN
    assert agents.adapters == {}, "until an Ethernet Manager has configured it anew"
    await asyncio.sleep(seconds(4))
    assert agents.adapters[1].netdev is not netdev
    h1.send(ARP(pdst=h2.ip))
    await h2.expect(ARP(pdst=h2.ip), within=ms(1))


@pytest.mark.topology("clos", leaves=2, spines=1)
async def test_partitioned_fabric_heals_and_the_manager_takes_the_lost_half_back(
    lab: Scenario, hosts: Hosts, em: ScenarioEm
) -> None:
    await em.vesw("blue", members=hosts)
    h1, h2, h3, h4 = hosts
    lab.faults.add("partition on leaf1 for=100ms")
    h1.send(ARP(pdst=h2.ip))
    await h2.expect(ARP, within=ms(1))
    assert h3.vnic().frames == 0
    await asyncio.sleep(seconds(1))
    h1.send(ARP(pdst=h4.ip))
    await h4.expect(ARP(pdst=h4.ip), within=ms(1))
    await h3.expect(ARP(pdst=h4.ip), within=ms(1))
