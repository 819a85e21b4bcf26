"""Linux's own opa_vnic on the virtual time of a scenario. Needs a kernel: `opavnic kernel build`."""

from __future__ import annotations

import asyncio
import sys

import pytest
from scapy.layers.inet import ICMP, IP

from hfi_sim.fabric.topology import single_switch
from opavnic.scenario import Hosts, Scenario, ScenarioEm, ScenarioError, run_virtual
from permission import require_kernel


@pytest.fixture(scope="module", autouse=True)
def _built() -> None:
    require_kernel()


@pytest.mark.kernel("h2")
async def test_linux_and_a_host_in_memory_ping_each_other(hosts: Hosts, em: ScenarioEm) -> None:
    h1, h2 = hosts
    await em.vesw("blue", members=hosts)
    assert await h1.ping(h2, count=3) == 3
    assert await h2.ping(h1, count=3) == 3
    assert (await h1.expect(ICMP(type=8)))[IP].src == h2.ip


@pytest.mark.kernel("h1", "h2")
async def test_an_hour_of_two_kernels_is_an_hour_to_their_programs(lab: Scenario, em: ScenarioEm) -> None:
    h1, h2 = lab.hosts
    await em.vesw("blue", members=lab.hosts)
    before, begun = lab.clock.time(), float((await h1.run("cut", "-d ", "-f1", "/proc/uptime")).stdout)
    assert (await h1.run("sleep", "3600")).returncode == 0
    assert float((await h1.run("cut", "-d ", "-f1", "/proc/uptime")).stdout) - begun == pytest.approx(
        3600, abs=0.1
    )
    assert lab.clock.time() - before == pytest.approx(3600, abs=0.1)
    assert await h1.ping(h2) == 1


@pytest.mark.kernel("h2")
async def test_an_address_that_linux_takes_is_learned_from_its_trap(hosts: Hosts, em: ScenarioEm) -> None:
    h1, h2 = hosts
    await em.vesw("blue", members=hosts, mac="learn")
    changed = await h2.run("ip", "link", "set", "veth0", "address", "02:00:00:11:22:33")
    assert changed.returncode == 0, changed.stderr
    await asyncio.sleep(1.0)
    assert "02:00:00:11:22:33" in em.addresses(h2)
    assert await h1.ping(h2) == 1


async def _fingerprint(seed: int) -> str:
    async with Scenario(single_switch(2), seed=seed, kernels=["h2"]) as lab:
        h1, h2 = lab.hosts
        await lab.em.vesw("blue", members=lab.hosts)
        assert await h2.ping(h1, count=2) == 2
        await asyncio.sleep(60)
    return lab.trace.fingerprint


def test_a_scenario_with_a_kernel_replays_bit_for_bit_from_its_seed() -> None:
    first = run_virtual(_fingerprint(1))
    assert run_virtual(_fingerprint(1)) == first
    assert run_virtual(_fingerprint(2)) != first


@pytest.mark.kernel("h2")
async def test_programs_that_cannot_be_started_are_one_line(hosts: Hosts) -> None:
    h1, h2 = hosts
    with pytest.raises(ScenarioError, match="no-such-program: not started: No such file or directory"):
        await h2.run("no-such-program")
    with pytest.raises(ScenarioError, match=r'host h1 runs no programs: mark the test with kernel\("h1"\)'):
        await h1.run("true")
    assert (await h2.run("false")).returncode == 1


@pytest.mark.kernel("h2")
async def test_a_kernel_that_has_ended_is_said_and_the_others_go_on(hosts: Hosts, em: ScenarioEm) -> None:
    h1, h2 = hosts
    await em.vesw("blue", members=hosts)
    with pytest.raises(ScenarioError, match="the kernel has ended"):
        await h2.run(sys.executable, "-ISc", "import ctypes; ctypes.CDLL(None).reboot(0x4321fedc)")
    assert await h1.ping(h2) == 0
