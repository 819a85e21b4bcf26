"""Configuration changes under traffic: what is lost, and what is not."""

from __future__ import annotations

import asyncio

import pytest
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Raw

from hfi_sim.base.counters import Drop
from hfi_sim.wire.lrh16b import L4, l4_of, sc_of
from opavnic.scenario import Hosts, Scenario, ScenarioEm, ScenarioHost, ms, us


def numbered(target: ScenarioHost, number: int, size: int = 100) -> bytes:
    head = bytes.fromhex(target.mac.replace(":", "")) + bytes(6) + b"\x88\xb5" + number.to_bytes(4, "big")
    return head.ljust(size, b"\0")


async def stream(source: ScenarioHost, target: ScenarioHost, count: int, every_s: float) -> list[int]:
    """Send numbered frames at a steady pace; return the numbers that arrived, in their order."""
    got: list[int] = []
    target.vnic().on_frame = lambda frame: got.append(int.from_bytes(frame[14:18], "big"))
    for number in range(count):
        source.send(numbered(target, number))
        await asyncio.sleep(every_s)
    await asyncio.sleep(ms(1))
    return got


@pytest.mark.topology("single-switch", hosts=2)
async def test_pcp_of_the_vlan_tag_chooses_the_service_class(
    lab: Scenario, hosts: Hosts, em: ScenarioEm
) -> None:
    qos = {"unicast": {"pcp_to_sc": [0, 1, 2, 3, 4, 5, 6, 7], "untagged": {"sc": 9}}}
    await em.vesw("blue", members=hosts, qos=qos)
    h1, h2 = hosts
    lab.trace.records.clear()
    for pcp in range(8):
        h1.send(Ether(dst=h2.mac) / Dot1Q(prio=pcp, vlan=5, type=0x88B5) / Raw(b"x" * 50))
    h1.send(Ether(dst=h2.mac, type=0x88B5) / Raw(b"untagged".ljust(50)))
    await h2.expect(lambda packet: b"untagged" in bytes(packet), within=ms(1))
    sent = [r for r in lab.trace.records if r.direction.startswith("h1:1") and l4_of(r.packet) == L4.ETHERNET]
    assert [sc_of(record.packet) for record in sent] == [0, 1, 2, 3, 4, 5, 6, 7, 9]


@pytest.mark.topology("clos", leaves=2, spines=2)
async def test_rolling_reconfiguration_loses_no_frame(lab: Scenario, hosts: Hosts, em: ScenarioEm) -> None:
    await em.vesw("blue", members=hosts)
    h1, _, _, h4 = hosts
    traffic = asyncio.create_task(stream(h1, h4, 1000, us(10)))
    for round_number in range(10):
        await em.update("blue", default_ports=["h2", "h3"][: round_number % 3])
        await em.update("blue", qos={"unicast": {"untagged": {"sc": round_number}}})
        await em.update("blue", mtu=1500 + round_number)
        await asyncio.sleep(us(300))
    assert await traffic == list(range(1000))
    assert lab.fabric.drops() == {}


@pytest.mark.topology("single-switch", hosts=2)
async def test_pkey_change_drops_only_while_the_ends_disagree(
    lab: Scenario, hosts: Hosts, em: ScenarioEm
) -> None:
    await em.vesw("blue", members=hosts, pkey=0x8005)
    h1, h2 = hosts
    traffic = asyncio.create_task(stream(h1, h2, 300, us(10)))
    await asyncio.sleep(ms(1))
    await em.update("blue", pkey=0x8006)
    got = await traffic
    lost = 300 - len(got)
    counted = sum(sum(reasons.values()) for reasons in lab.fabric.drops().values())
    assert 0 < lost == counted < 100
    assert set().union(*(reasons for reasons in lab.fabric.drops().values())) <= {Drop.TX_PKEY, Drop.RX_PKEY}
    assert got[-1] == 299


@pytest.mark.topology("single-switch", hosts=3)
async def test_partition_key_that_a_host_does_not_have_keeps_it_out(
    lab: Scenario, hosts: Hosts, em: ScenarioEm
) -> None:
    await em.vesw("blue", members=hosts, pkey=0x8005)
    h1, h2, h3 = hosts
    lab.subnet_manager.set_pkeys(h3.port, [0x8009])
    h1.send(numbered(h3, 1))
    h1.send(numbered(h2, 2))
    await h2.expect(lambda packet: True, within=ms(1))
    assert h3.vnic().frames == 0
    assert h3.port.rx.drops == {Drop.RX_PKEY: 1}


@pytest.mark.topology("single-switch", hosts=2)
async def test_lower_mtu_cuts_the_netdev_and_drops_what_is_longer(hosts: Hosts, em: ScenarioEm) -> None:
    await em.vesw("blue", members=hosts, mtu=4000)
    h1, h2 = hosts
    assert h2.vnic().adapter.netdev.mtu == 4000
    h1.send(numbered(h2, 1, size=3000))
    await h2.expect(lambda packet: len(packet) == 3000, within=ms(1))
    await em.update("blue", mtu=1500)
    assert h2.vnic().adapter.netdev.mtu == 1500
    h1.send(numbered(h2, 2, size=3000))  # a program that ignores the MTU of its device
    h1.send(numbered(h2, 3, size=1518))
    await h2.expect(lambda packet: len(packet) == 1518, within=ms(1))
    assert h2.vnic().adapter.counters.rx_oversize == 1
