"""Hosts that talk, hosts that must not, and shapes of fabrics.

`hosts` and `em` are fixtures of opavnic's pytest plugin. A coroutine test that uses one of them runs on virtual time:
waiting costs nothing, and a millisecond is exactly a millisecond.
"""

import pytest
from scapy.layers.l2 import ARP, Ether

from opavnic.scenario import ms, us


async def test_a_question_and_its_answer(hosts, em):
    # Without a marker there are two hosts on one switch. They hear nothing of each other until the Ethernet Manager has
    # put them on a virtual Ethernet switch; the call returns when every member is up.
    await em.vesw("blue", members=hosts)
    h1, h2 = hosts
    h2.answer_arp()

    h1.send(ARP(pdst=h2.ip))  # addresses that a packet leaves open are filled in

    answer = await h1.expect(ARP(op=2), within=ms(1))  # fits every ARP with op=2
    assert answer.hwsrc == h2.mac


@pytest.mark.topology("single-switch", hosts=4)
async def test_two_virtual_switches_do_not_hear_each_other(hosts, em):
    await em.vesw("red", members=["h1", "h2"], pkey=0x8002)
    await em.vesw("blue", members=["h3", "h4"], pkey=0x8003)

    hosts["h1"].send(ARP(pdst=hosts["h3"].ip))

    await hosts["h2"].expect(ARP, within=ms(1))
    await hosts["h3"].expect_none(ARP, within=ms(1))


@pytest.mark.topology("fat-tree", k=4)  # 16 hosts, 20 switches; see `opavnic topo fat-tree k=4`
async def test_the_far_end_of_a_fat_tree_is_microseconds_away(hosts, em):
    await em.vesw("blue", members=hosts)
    first, last = hosts["h1"], hosts["h16"]
    last.answer_arp()
    first.send(ARP(pdst=last.ip))
    await first.expect(ARP(op=2), within=us(10))  # there and back: twelve cables


async def test_a_frame_arrives_as_it_was_sent(hosts, em):
    await em.vesw("blue", members=hosts, mtu=9000)
    h1, h2 = hosts
    frame = h1.send(Ether(dst=h2.mac, type=0x88B5) / bytes(8000))  # returns the bytes that were sent
    await h2.expect(frame)  # exact bytes are a pattern, too
