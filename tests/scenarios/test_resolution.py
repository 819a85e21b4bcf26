"""How hosts find each other: ARP, neighbour discovery, and who hears the question."""

from __future__ import annotations

import pytest
from scapy.layers.inet6 import ICMPv6ND_NA, ICMPv6ND_NS, ICMPv6NDOptSrcLLAddr, IPv6
from scapy.layers.l2 import ARP, Ether

from opavnic.scenario import Hosts, ScenarioEm, ms, us


@pytest.mark.topology("single-switch", hosts=3)
async def test_arp_request_reaches_every_member_and_the_answer_only_who_asked(
    hosts: Hosts, em: ScenarioEm
) -> None:
    await em.vesw("blue", members=hosts)
    h1, h2, h3 = hosts
    h2.answer_arp()

    h1.send(ARP(pdst=h2.ip))

    answer = await h1.expect(ARP(op=2, psrc=h2.ip), within=ms(5))
    assert answer.src == answer[ARP].hwsrc == h2.mac
    await h3.expect(ARP(op=1), within=ms(5))
    await h3.expect_none(ARP(op=2), within=ms(5))


@pytest.mark.topology("fat-tree", k=4)
async def test_arp_across_a_fat_tree_takes_microseconds(hosts: Hosts, em: ScenarioEm) -> None:
    await em.vesw("blue", members=hosts)
    first, last = hosts[0], hosts[15]
    last.answer_arp()
    first.send(ARP(pdst=last.ip))
    await first.expect(ARP(op=2), within=us(10))


@pytest.mark.topology("single-switch", hosts=2)
async def test_neighbour_solicitation_is_answered(hosts: Hosts, em: ScenarioEm) -> None:
    await em.vesw("blue", members=hosts)
    h1, h2 = hosts
    h2.answer_arp()
    group = "33:33:ff:" + h2.mac[9:]
    ask = ICMPv6ND_NS(tgt=h2.ip6) / ICMPv6NDOptSrcLLAddr(lladdr=h1.mac)
    h1.send(Ether(dst=group) / IPv6(src=h1.ip6, dst="ff02::1") / ask)
    answer = await h1.expect(ICMPv6ND_NA(tgt=h2.ip6), within=ms(5))
    assert answer.src == h2.mac


@pytest.mark.topology("clos", leaves=2, spines=2)
async def test_smoke_ping_between_all_pairs(hosts: Hosts, em: ScenarioEm) -> None:
    await em.vesw("blue", members=hosts)
    h1, _, _, h4 = hosts
    assert await h1.ping(h4, count=3) == 3
    assert await h4.ping(h1, count=1) == 1
