"""A program of your own on every host of the fabric.

Whatever runs on asyncio and takes its time from the event loop runs here as it is: `asyncio.sleep(3600)` is over at
once, and what it woke up for has happened in the right order.
"""

import asyncio

import pytest
from members import everywhere


@pytest.mark.topology("clos", leaves=2, spines=2)
async def test_all_members_hear_each_other(hosts, em):
    await em.vesw("blue", members=hosts)
    async with everywhere(hosts) as programs:
        await asyncio.sleep(1)
        others = {host.mac for host in hosts if host.name != "h1"}
        assert programs["h1"].alive() == others


async def test_nobody_is_forgotten_within_an_hour(hosts, em):
    await em.vesw("blue", members=hosts)
    async with everywhere(hosts) as programs:
        await asyncio.sleep(3599.5)  # an hour of fabric time, a moment of yours
        assert programs["h1"].alive() == {hosts["h2"].mac}
    assert hosts["h1"].vnic().frames == 3600


async def test_a_host_that_takes_nothing_still_lives(hosts, em):
    await em.vesw("blue", members=hosts)
    async with everywhere(hosts) as programs:
        hosts["h1"].stall()  # its host is busy: what comes waits in the HFI
        await asyncio.sleep(5.5)
        assert programs["h1"].alive() == set()
        assert programs["h2"].alive() == {hosts["h1"].mac}
        hosts["h1"].resume()
        assert programs["h1"].alive() == {hosts["h2"].mac}
