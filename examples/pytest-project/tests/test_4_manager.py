"""Who configures the VNICs: the Ethernet Manager `em`, or the test itself through `mad_simulator`."""

import asyncio

import pytest
from members import everywhere
from scapy.layers.l2 import ARP

from opavnic.scenario import ScenarioError, ms
from vema.attributes.attr_id import AttrId
from vema.base.types import TrapOpcode


@pytest.mark.topology("single-switch", hosts=3)
async def test_who_leaves_the_virtual_switch_falls_silent(hosts, em):
    await em.vesw("blue", members=hosts)
    h2, h3 = hosts["h2"], hosts["h3"]
    async with everywhere(hosts) as programs:
        await asyncio.sleep(1)
        assert programs["h1"].alive() == {h2.mac, h3.mac}
        programs["h3"].send = lambda frame: None  # its VNIC goes away with the next line
        await em.update("blue", members=["h1", "h2"])
        await asyncio.sleep(5)
        assert programs["h1"].alive() == {h2.mac}


async def test_a_mistake_is_refused_and_changes_nothing(hosts, em):
    await em.vesw("blue", members=hosts)
    with pytest.raises(ScenarioError, match=r'unknown host "h7" \(nearest: "h'):
        await em.update("blue", members=["h7"])
    assert await hosts["h1"].ping(hosts["h2"]) == 1


async def test_by_hand_through_management_datagrams(hosts, mad_simulator):
    # No Ethernet Manager runs here: what the agents are told, the test tells them, and traps come to the test.
    h1, h2 = hosts
    await mad_simulator.become_sink(h1, mad_simulator.port)
    everybody = mad_simulator.group(hosts)  # a multicast LID
    for host in hosts:
        await mad_simulator.configure(host, vesw_id=2, u_mcast_dlid=everybody)
    await mad_simulator.expect_trap(opcode=TrapOpcode.ETH_LINK_STATUS_CHANGED, lid=h1)

    h1.send(ARP(pdst=h2.ip))
    await h2.expect(ARP(op=1), within=ms(1))

    counters = await mad_simulator.get(h1, AttrId.SUMMARY_COUNTERS, vport=1)
    assert (counters.tx_packets, counters.rx_packets) == (1, 0)
