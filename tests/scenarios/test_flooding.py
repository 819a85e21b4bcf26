"""Broadcast, unknown addresses, groups: who gets a copy, and how many copies a fabric carries."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import ARP, Ether

from hfi_sim.wire.lrh16b import L4, l4_of
from opavnic.scenario import Hosts, Scenario, ScenarioEm, ms

STRANGER = "00:1b:21:00:00:99"


@pytest.mark.topology("torus", dims=(4, 4))
async def test_broadcast_on_a_torus_reaches_each_member_once_and_no_link_twice(
    lab: Scenario, hosts: Hosts, em: ScenarioEm
) -> None:
    members = hosts.names[:10]
    await em.vesw("blue", members=members)
    lab.trace.records.clear()

    hosts["h1"].send(ARP(pdst=hosts["h2"].ip))
    await hosts["h10"].expect(ARP, within=ms(1))

    for name in members[1:]:
        assert hosts[name].vnic().frames == 1
    assert hosts["h1"].vnic().frames == 0
    ways = Counter(record.direction for record in lab.trace.records if l4_of(record.packet) == L4.ETHERNET)
    assert max(ways.values()) == 1
    # a spanning tree: at most a cable for each switch but one, and one for each member
    assert len(ways) <= 15 + 10


@pytest.mark.topology("clos", leaves=2, spines=2, hosts_per_leaf=4)
async def test_storm_of_broadcasts_stays_within_its_virtual_switch(
    lab: Scenario, hosts: Hosts, em: ScenarioEm
) -> None:
    await em.vesw("red", members=["h1", "h2", "h5"])
    await em.vesw("blue", members=["h3", "h4", "h6", "h8"])
    for _ in range(200):
        hosts["h1"].send(ARP(pdst="10.0.0.9"))
    await asyncio.sleep(ms(1))
    assert [host.vnic().frames for host in hosts if host.vnics] == [0, 200, 0, 0, 200, 0, 0]
    heard = {r.direction for r in lab.trace.records if l4_of(r.packet) == L4.ETHERNET}
    assert not [way for way in heard if way.endswith(("h3:1", "h4:1", "h6:1", "h7:1", "h8:1"))]


@pytest.mark.topology("single-switch", hosts=4)
async def test_unknown_unicast_goes_to_default_ports_one_per_flow(hosts: Hosts, em: ScenarioEm) -> None:
    await em.vesw("blue", members=hosts, default_ports=["h2", "h3"])
    h1, h2, h3, h4 = hosts

    def flow(port: int) -> Ether:
        return (
            Ether(dst=STRANGER) / IP(src="10.0.0.1", dst="10.0.0.2") / UDP(sport=port, dport=7) / (b"x" * 30)
        )

    for _ in range(3):
        for port in range(1000, 1040):
            h1.send(flow(port))
    await asyncio.sleep(ms(1))
    ports = [{int.from_bytes(frame[34:36], "big") for frame in host.vnic().inbox} for host in (h2, h3)]
    assert ports[0] | ports[1] == set(range(1000, 1040))
    assert not ports[0] & ports[1]  # a flow keeps its port
    assert min(map(len, ports)) >= 8
    assert h4.vnic().frames == 0


@pytest.mark.topology("single-switch", hosts=3)
async def test_unknown_unicast_without_default_ports_is_counted_and_not_sent(
    lab: Scenario, hosts: Hosts, em: ScenarioEm
) -> None:
    await em.vesw("blue", members=hosts)
    h1, h2, _ = hosts
    h1.send(Ether(dst=STRANGER) / IP(src="10.0.0.1", dst="10.0.0.2") / UDP() / (b"x" * 30))
    await h2.expect_none(UDP, within=ms(1))
    assert h1.vnic().adapter.counters.tx_dlid_zero == 1
    assert lab.fabric.drops()["h1:1 vport 1 tx"] == {"vnic_tx_dlid": 1}


@pytest.mark.topology("clos", leaves=2, spines=1)
async def test_member_that_leaves_hears_no_more_and_hears_again_after_joining(
    hosts: Hosts, em: ScenarioEm
) -> None:
    await em.vesw("blue", members=["h1", "h2", "h3"])
    h1, h2, h3, h4 = hosts
    await em.update("blue", members=["h1", "h2", "h4"])
    h1.send(ARP(pdst="10.0.0.1"))
    await h2.expect(ARP, within=ms(1))
    await h4.expect(ARP, within=ms(1))
    assert "blue" not in h3.vnics
    assert h3.port.multicast_lids == frozenset()
    await em.update("blue", members=["h1", "h3"])
    h1.send(ARP(pdst="10.0.0.2"))
    await h3.expect(ARP(pdst="10.0.0.2"), within=ms(1))
    assert "blue" not in h2.vnics
