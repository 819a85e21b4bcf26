"""Hosts with two rails: a VNIC on each HFI, in one virtual switch and in others."""

from __future__ import annotations

import asyncio

import pytest
from scapy.layers.l2 import ARP

from hfi_sim.fabric.topology.explicit import from_data
from opavnic.scenario import Scenario, ms, seconds

RAILS = {
    "switches": {"left": {}, "right": {}},
    "hosts": {"h1": {"hfis": 2}, "h2": {"hfis": 2}, "h3": {}},
    "links": [
        ["h1", "left:1"], ["h1.2", "right:1"], ["h2", "left:2"], ["h2.2", "right:2"], ["h3", "left:3"],
        ["left:9", "right:9"],
    ],
}  # fmt: skip


def rails() -> Scenario:
    return Scenario(from_data(RAILS))


@pytest.mark.looptime
async def test_two_vnics_of_a_host_in_one_virtual_switch_are_two_stations() -> None:
    async with rails() as lab:
        h1, h2, h3 = lab.hosts
        await lab.em.vesw("blue", members=["h1", "h1.2", "h2.2:1", h3])
        assert list(h1.vnics) == ["blue", "blue-2"]
        one, two = h1.vnic("blue"), h1.vnic("blue-2")
        assert (one.port.name, two.port.name, h2.vnic().port.name) == ("h1:1", "h1.2:1", "h2.2:1")
        assert len({one.mac, two.mac, one.ip, two.ip}) == 4
        trunk = lab.world.fabric.links[-2].directions[0].counters
        for rail, crossed in ((two, 0), (one, 1)):
            before = trunk.out_packets
            h2.answer_arp()
            assert await rail.ping(h2.vnic()) == 1
            assert (trunk.out_packets > before) == bool(crossed), "rail 2 stays on its switch"
        one.send(ARP(pdst=two.ip))
        await two.expect(ARP(pdst=two.ip), within=ms(1))


@pytest.mark.looptime
async def test_rail_that_is_cut_leaves_the_other_and_comes_back() -> None:
    async with rails() as lab:
        h1, h2, _ = lab.hosts
        await lab.em.vesw("blue", members=["h1", "h1.2", "h2", "h2.2"])
        lab.faults.add("link-down on h1 for=2s")
        await asyncio.sleep(ms(10))
        assert not h1.vnic("blue").adapter.netdev.carrier
        assert h1.vnic("blue-2").adapter.netdev.carrier
        assert await h1.vnic("blue-2").ping(h2.vnic("blue")) == 1
        await asyncio.sleep(seconds(5))
        assert await h1.vnic("blue").ping(h2.vnic("blue-2")) == 1


@pytest.mark.looptime
async def test_hfi_that_is_pulled_out_takes_the_vnics_of_its_rail_alone() -> None:
    async with rails() as lab:
        h1, h2, _ = lab.hosts
        await lab.em.vesw("blue", members=["h1", "h1.2", "h2"])
        agents = {port.name: lab.world.vnic_ports[port.name] for port in h1.ports}
        removal = lab.faults.add("hfi-removal on h1.2")
        assert [len(agents[name].adapters) for name in ("h1:1", "h1.2:1")] == [1, 0]
        assert await h1.vnic("blue").ping(h2.vnic()) == 1
        lab.faults.add("crash on h1 for=1s")
        assert [len(port.adapters) for port in agents.values()] == [0, 0]
        await asyncio.sleep(seconds(5))
        assert [len(port.adapters) for port in agents.values()] == [1, 0], "its HFI is still out"
        lab.faults.remove(removal.number)
        await asyncio.sleep(seconds(5))
        assert await h1.vnic("blue-2").ping(h2.vnic()) == 1


@pytest.mark.looptime
async def test_member_that_changes_its_rail_keeps_its_place_in_the_virtual_switch() -> None:
    async with rails() as lab:
        h1, _, h3 = lab.hosts
        await lab.em.vesw("blue", members=["h1", "h3"])
        await lab.em.update("blue", members=["h1.2", "h3"])
        assert [vnic.port.name for vnic in h1.vnics.values()] == ["h1.2:1"]
        assert await h1.vnic("blue").ping(h3.vnic()) == 1
