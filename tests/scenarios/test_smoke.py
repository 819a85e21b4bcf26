"""What has to work on either backend: in memory, and with --fabric-real over TAPs, where times are real."""

from __future__ import annotations

import asyncio

import pytest
from scapy.layers.l2 import ARP

from opavnic.scenario import Hosts, Scenario, ScenarioEm, ms, seconds


async def test_smoke_question_is_answered_by_the_host_it_is_for(hosts: Hosts, em: ScenarioEm) -> None:
    await em.vesw("blue", members=hosts)
    h1, h2 = hosts
    h2.answer_arp()  # beside the kernel's own answer, where there is a kernel
    h1.send(ARP(pdst=h2.ip))
    answer = await h1.expect(ARP(op=2, psrc=h2.ip), within=seconds(10))
    assert answer.hwsrc == h2.mac


@pytest.mark.topology("single-switch", hosts=4)
async def test_smoke_tenants_do_not_hear_each_other(hosts: Hosts, em: ScenarioEm) -> None:
    await em.vesw("red", members=["h1", "h2"], pkey=0x8002)
    await em.vesw("blue", members=["h3", "h4"], pkey=0x8003)
    question = ARP(pdst=hosts["h3"].ip)
    hosts["h1"].send(question)
    await hosts["h2"].expect(question, within=seconds(10))
    await hosts["h3"].expect_none(question, within=ms(50))


@pytest.mark.parametrize("fault", ["link-down on h2", "switch-reboot on sw0", "crash on h2"])
async def test_smoke_fault_that_is_over_is_forgotten(
    lab: Scenario, hosts: Hosts, em: ScenarioEm, fault: str
) -> None:
    await em.vesw("blue", members=hosts)
    h1, h2 = hosts
    assert await h1.ping(h2) == 1
    lab.faults.add(f"{fault} for=20ms")
    await asyncio.sleep(ms(100))
    assert lab.faults.show()[0]["state"] == "over"
    assert await em.service.wait_converged(60)
    for host in hosts:
        await lab.vnic_up(host.vnic())
    assert await h1.ping(h2) == 1
