"""What breaks, when, for whom.

A fault is one line: a kind, a place, options. Faults draw from the seed of the fabric, which is 1 unless the marker
`fabric_seed` or the option --fabric-seed says otherwise; a failed test prints the command that repeats it.
"""

import asyncio

import pytest
from members import everywhere

from opavnic.scenario import ms


async def test_a_dead_link_is_noticed_after_three_beats_and_forgiven_at_once(lab, hosts, em):
    await em.vesw("blue", members=hosts)
    h2 = hosts["h2"]
    async with everywhere(hosts) as programs:
        lab.faults.add("link-down on h2 after=10.5s for=60s")
        await asyncio.sleep(12)
        assert programs["h1"].alive() == {h2.mac}  # heard of two seconds ago
        await asyncio.sleep(2)
        assert programs["h1"].alive() == set()
        await asyncio.sleep(60)
        assert programs["h1"].alive() == {h2.mac}


@pytest.mark.fabric_seed(7)
@pytest.mark.parametrize(("loss", "alive"), [("20%", True), ("100%", False)])
async def test_loss_is_survived_until_three_beats_in_a_row_are_gone(lab, hosts, em, loss, alive):
    await em.vesw("blue", members=hosts)
    async with everywhere(hosts) as programs:
        lab.faults.add(f"loss on h2->sw0 {loss} l4=ethernet")  # one way of one link; MADs are spared
        await asyncio.sleep(19.5)
        assert (programs["h1"].alive() == {hosts["h2"].mac}) is alive
    drops = lab.fabric.drops()["h2:1->sw0:2"]["link_fault"]  # every packet ends somewhere, by name
    assert hosts["h1"].vnic().frames == 20 - drops


async def test_damage_on_the_way_never_reaches_a_program(lab, hosts, em):
    await em.vesw("blue", members=hosts)
    h1, h2 = hosts
    lab.faults.add("corrupt on h1 count=3 bits=5 direction=tx")
    for number in range(10):
        h1.send(bytes.fromhex(h2.mac.replace(":", "")) + bytes(6) + b"\x88\xb5" + bytes([number]) * 46)
    assert [frame.load[0] for frame in await h2.sniff(for_s=ms(1))] == [3, 4, 5, 6, 7, 8, 9]
    assert lab.fabric.drops()["h2:1 rx"] == {"rx_icrc": 3}


@pytest.mark.topology("clos", leaves=2, spines=2)
async def test_the_loss_of_a_spine_is_routed_around(lab, hosts, em):
    await em.vesw("blue", members=hosts)
    lab.faults.add("switch-reboot on spine0 for=1s")
    assert await hosts["h1"].ping(hosts["h4"], count=3) == 3
    await asyncio.sleep(2)
    assert lab.fabric.switches["spine0"].up
    assert lab.faults.show()[0]["state"] == "over"
