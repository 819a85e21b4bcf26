"""What `ip link` does to a VNIC, as methods: up and down, address, MTU, further addresses."""

from __future__ import annotations

import asyncio

import pytest
from scapy.layers.l2 import Ether

from opavnic.scenario import Hosts, ScenarioEm, ScenarioError, ms, seconds

MACVLAN = "02:00:00:00:00:77"
GROUP = "01:00:5e:00:00:05"


def frame(to: str) -> Ether:
    return Ether(dst=to, type=0x88B5) / (b"x" * 46)


async def test_vnic_that_is_down_receives_nothing_until_it_is_up(hosts: Hosts, em: ScenarioEm) -> None:
    await em.vesw("blue", members=hosts)
    h1, h2 = hosts
    vnic = h2.vnic()
    vnic.down()
    assert not vnic.is_up
    h1.send(frame(h2.mac))
    await h2.expect_none(Ether(type=0x88B5))
    vnic.up()
    assert vnic.is_up
    await asyncio.sleep(ms(5))
    h1.send(frame(h2.mac))
    await h2.expect(Ether(type=0x88B5))


async def test_vnic_that_moves_to_another_namespace_goes_on_there_and_when_it_is_back(
    hosts: Hosts, em: ScenarioEm
) -> None:
    await em.vesw("blue", members=hosts, mac="learn")
    h1, h2 = hosts
    vnic = h2.vnic()
    vnic.add_address(MACVLAN)
    for namespace in ("inner", "other", ""):
        vnic.move(namespace)
        await asyncio.sleep(seconds(3))
        assert vnic.is_up
        assert await h1.ping(h2) == 1
        assert MACVLAN in em.addresses(h2)
        vnic.inbox.clear()
        h1.send(frame(MACVLAN))
        await h2.expect(Ether(dst=MACVLAN))
    vnic.down()
    vnic.move("inner")
    assert not vnic.is_up


async def test_further_addresses_reach_the_manager_and_go_again(hosts: Hosts, em: ScenarioEm) -> None:
    await em.vesw("blue", members=hosts, mac="learn")
    h1, h2 = hosts
    vnic = h2.vnic()
    vnic.add_address(MACVLAN)
    vnic.add_address(GROUP)
    await asyncio.sleep(seconds(3))
    assert MACVLAN in em.addresses(h2)
    h1.send(frame(MACVLAN))
    await h2.expect(Ether(dst=MACVLAN))
    with pytest.raises(ScenarioError, match=f"h2/blue: address {MACVLAN} was refused: File exists"):
        vnic.add_address(MACVLAN)
    vnic.remove_address(MACVLAN)
    vnic.remove_address(GROUP)
    await asyncio.sleep(seconds(3))
    assert MACVLAN not in em.addresses(h2)
    with pytest.raises(ScenarioError, match=f"to remove address {GROUP} was refused: No such file"):
        vnic.remove_address(GROUP)


async def test_what_the_device_refuses_names_vnic_value_and_reason(hosts: Hosts, em: ScenarioEm) -> None:
    await em.vesw("blue", members=hosts)
    vnic = hosts["h1"].vnic()
    vnic.set_mtu(1400)
    assert vnic.mtu == 1400
    with pytest.raises(ScenarioError, match="h1/blue: MTU 70000 was refused: Invalid argument"):
        vnic.set_mtu(70000)
    for call in (vnic.set_mac, vnic.add_address, vnic.remove_address):
        with pytest.raises(ScenarioError, match="h1/blue: 'blue' is not a MAC address, such as 02:00"):
            call("blue")
