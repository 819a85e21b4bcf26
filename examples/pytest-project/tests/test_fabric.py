"""Three scenarios to begin with: hosts that talk, hosts that must not, a fabric that breaks."""

import asyncio

import pytest
from scapy.layers.l2 import ARP

from opavnic.scenario import ms, us


@pytest.mark.topology("clos", leaves=2, spines=2)
async def test_hosts_on_one_virtual_switch_find_each_other(hosts, em):
    await em.vesw("blue", members=hosts)
    h1, h4 = hosts["h1"], hosts["h4"]
    h4.answer_arp()
    h1.send(ARP(pdst=h4.ip))
    await h1.expect(ARP(op=2, psrc=h4.ip), within=us(20))


@pytest.mark.topology("single-switch", hosts=4)
async def test_two_virtual_switches_do_not_hear_each_other(hosts, em):
    await em.vesw("red", members=["h1", "h2"], pkey=0x8002)
    await em.vesw("blue", members=["h3", "h4"], pkey=0x8003)
    hosts["h1"].send(ARP(pdst=hosts["h3"].ip))
    await hosts["h2"].expect(ARP, within=ms(1))
    await hosts["h3"].expect_none(ARP, within=ms(1))


@pytest.mark.topology("fat-tree", k=4)
@pytest.mark.fabric_seed(7)
async def test_ping_survives_the_loss_of_a_core_switch(lab, hosts, em):
    await em.vesw("blue", members=["h1", "h16"])
    lab.faults.add("switch-reboot on core0 for=1s")
    assert await hosts["h1"].ping(hosts["h16"], count=3) == 3
    await asyncio.sleep(2)
    assert lab.fabric.switches["core0"].up
