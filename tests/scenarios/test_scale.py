"""Many: tenants, frames, VNICs, hosts, hours."""

from __future__ import annotations

import asyncio
import random

import pytest
from scapy.layers.l2 import ARP

from opavnic.scenario import Hosts, Scenario, ScenarioEm, ms, us

TENANTS = 64
BURST = 500


@pytest.mark.parametrize("frames", [4_000, pytest.param(100_000, marks=pytest.mark.long)])
@pytest.mark.topology("clos", leaves=2, spines=2, hosts_per_leaf=4)
async def test_64_tenants_and_many_random_frames_none_crosses_over(
    frames: int, lab: Scenario, hosts: Hosts, em: ScenarioEm
) -> None:
    rng = random.Random(lab.seed)
    for tenant in range(TENANTS):
        members = rng.sample(hosts.names, 3)
        await em.vesw(f"t{tenant}", members=members, pkey=0x8001 + tenant, wait=tenant == TENANTS - 1)
    leaked: list[tuple[str, bytes]] = []
    arrived = 0

    def watch(vnic_tenant: int, name: str) -> object:
        mark = vnic_tenant.to_bytes(2, "big")

        def look(frame: bytes) -> None:
            nonlocal arrived
            arrived += 1
            if frame[14:16] != mark:
                leaked.append((name, frame))

        return look

    vnics = []
    for host in hosts:
        for name, vnic in host.vnics.items():
            vnic.on_frame = watch(int(name[1:]), vnic.name)
            vnics.append((int(name[1:]), vnic))
    macs = [bytes.fromhex(vnic.mac.replace(":", "")) for _, vnic in vnics]
    for _ in range(frames // BURST):
        for _ in range(BURST):
            tenant, vnic = rng.choice(vnics)
            # own members, members of other tenants, strangers, and now and then everybody
            draw = rng.random()
            mac = rng.choice(macs) if draw < 0.9 else rng.randbytes(6) if draw < 0.99 else b"\xff" * 6
            vnic.send(mac + bytes(8) + tenant.to_bytes(2, "big") + bytes(44))
        await asyncio.sleep(us(100))
    assert not leaked[:1]
    assert arrived > frames / 100


@pytest.mark.topology("single-switch", hosts=2)
async def test_255_vnics_on_one_hfi_all_carry_frames(lab: Scenario, hosts: Hosts, em: ScenarioEm) -> None:
    await em.vesws_of({f"v{number}": hosts.names for number in range(1, 256)})
    h1, h2 = hosts
    assert len(h1.vnic_port.adapters) == 255
    for name in h1.vnics:
        h1.send(ARP(pdst="10.0.0.1"), on=name)
    await asyncio.sleep(ms(1))
    assert [vnic.frames for vnic in h2.vnics.values()] == [1] * 255


@pytest.mark.parametrize(
    "count",
    [
        pytest.param(16, marks=pytest.mark.topology("fat-tree", k=4)),
        pytest.param(100, marks=[pytest.mark.topology("fat-tree", k=8, hosts=100), pytest.mark.slow]),
    ],
)
async def test_an_hour_with_many_hosts_takes_seconds(
    count: int, lab: Scenario, hosts: Hosts, em: ScenarioEm
) -> None:
    await em.vesw("blue", members=hosts)
    names = hosts.names
    rng = random.Random(lab.seed)
    for _ in range(360):  # every ten seconds somebody asks for somebody
        source, target = rng.sample(names, 2)
        hosts[source].send(bytes.fromhex(hosts[target].mac.replace(":", "")) + bytes(54))
        await asyncio.sleep(10)
    assert lab.clock.time() > 3600
    assert (len(names), sum(host.vnic().frames for host in hosts)) == (count, 360)
