"""MAC addresses that move, and ones that two hosts have."""

from __future__ import annotations

import asyncio

import pytest
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from opavnic.scenario import Hosts, ScenarioEm, ms
from opavnic.scenario.base import ScenarioError

MOVING = "00:1b:21:aa:bb:cc"


def to(mac: str, text: str) -> Ether:
    return Ether(dst=mac, type=0x88B5) / Raw(text.encode().ljust(50, b"."))


def says(text: str) -> object:
    return lambda packet: text.encode() in bytes(packet)


@pytest.mark.topology("clos", leaves=2, spines=2)
async def test_mac_that_moves_is_followed_once_the_table_says_so(hosts: Hosts, em: ScenarioEm) -> None:
    await em.vesw("blue", members=hosts)
    h1, h2, h3, _ = hosts
    await em.set_mac_table(h1, [(MOVING, h2)])
    h1.send(to(MOVING, "before"))
    await h2.expect(says("before"), within=ms(1))

    await em.set_mac_table(h1, [(MOVING, h3)])
    h1.send(to(MOVING, "after"))
    await h3.expect(says("after"), within=ms(1))
    await h2.expect_none(says("after"), within=ms(1))

    await em.set_mac_table(h1, [(MOVING, None)])
    h1.send(to(MOVING, "nowhere"))
    await h3.expect_none(says("nowhere"), within=ms(1))
    assert h1.vnic().adapter.counters.tx_dlid_zero == 1


@pytest.mark.topology("single-switch", hosts=3)
async def test_duplicate_mac_goes_to_one_of_them_the_later_entry(hosts: Hosts, em: ScenarioEm) -> None:
    await em.vesw("blue", members=hosts)
    h1, h2, h3 = hosts
    await em.set_mac_table(h1, [(MOVING, h2), (MOVING, h3)])
    for _ in range(20):
        h1.send(to(MOVING, "hello"))
    await asyncio.sleep(ms(1))
    assert (h2.vnic().frames, h3.vnic().frames) == (0, 20)


@pytest.mark.topology("single-switch", hosts=2)
async def test_host_that_changes_its_mac_is_reported_and_still_reached_by_its_old_one(
    hosts: Hosts, em: ScenarioEm
) -> None:
    await em.vesw("blue", members=hosts, mac="learn")
    h1, h2 = hosts
    old = h2.mac
    h2.vnic().set_mac("02:00:00:00:00:77")
    h1.send(to(old, "hello"))  # the old address still names the LID, and the host hears everything
    await h2.expect(says("hello"), within=ms(1))
    await asyncio.sleep(1)
    h1.send(to("02:00:00:00:00:77", "again"))  # and the manager has told h1 where the new one is
    await h2.expect(says("again"), within=ms(1))
    assert "02:00:00:00:00:77" in em.addresses(h2)
    assert "02:00:00:00:00:77" not in em.addresses(h1)


@pytest.mark.topology("single-switch", hosts=3)
async def test_table_that_the_test_wrote_outlives_changes_by_the_manager(
    hosts: Hosts, em: ScenarioEm
) -> None:
    await em.vesw("blue", members=["h1", "h2"])
    h1, h2, h3 = hosts
    await em.set_mac_table(h1, [(MOVING, h2)])
    await em.update("blue", mtu=1400)
    await em.update("blue", members=[h1, h2, h3])
    h1.send(to(MOVING, "hello"))
    await h2.expect(says("hello"), within=ms(1))
    await h3.expect_none(says("hello"), within=ms(1))


@pytest.mark.topology("single-switch", hosts=2)
async def test_table_that_the_manager_writes_is_not_for_the_test(hosts: Hosts, em: ScenarioEm) -> None:
    await em.vesw("blue", members=hosts, mac="learn")
    with pytest.raises(ScenarioError, match="h1/blue: the manager writes this MAC table itself"):
        await em.set_mac_table("h1", [(MOVING, "h2")])
