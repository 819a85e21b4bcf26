"""A lab on several machines of one process, on virtual time, over a transport in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from opavnic.cluster.memory import MemoryNetwork
from opavnic.cluster.node import Coordinator, Machine, Member
from opavnic.lab.lab import Lab
from opavnic.lab.loader import parse_lab

FILE = """
name: spread
fabric: {topology: {kind: clos, leaves: 3, spines: 2, hosts_per_leaf: 2, uplinks: 2}}
hosts: 6
vesws: [{id: 2, name: blue, subnet: 10.9.2.0/24, members: all}]
cluster: {nodes: 3}
"""


@dataclass
class Cluster:
    net: MemoryNetwork
    machines: dict[str, Machine] = field(default_factory=dict)
    labs: dict[str, Lab] = field(default_factory=dict)

    def host(self, name: str) -> Lab:
        return next(lab for lab in self.labs.values() if name in lab.hosts)

    def unaccounted(self) -> dict[str, int]:
        return {key: value for lab in self.labs.values() for key, value in lab.world.fabric.balance().items()}


@asynccontextmanager
async def cluster(text: str = FILE, members: tuple[str, ...] = ("beta", "gamma")) -> AsyncIterator[Cluster]:
    loop = asyncio.get_running_loop()
    made = Cluster(MemoryNetwork(loop))
    async with AsyncExitStack() as ends:
        coordinator = Coordinator(
            parse_lab(text, "lab.yaml"),
            text,
            "lab.yaml",
            made.net.transport("alpha", is_coordinator=True),
            progress=print,
            netdev="memory",
        )
        made.machines["alpha"] = coordinator

        async def run_member(name: str) -> None:
            member = made.machines[name]
            assert isinstance(member, Member)
            lab = await member.join()
            assert lab is not None
            made.labs[name] = await ends.enter_async_context(lab)

        for name in members:
            made.machines[name] = Member(made.net.transport(name), progress=print)
        tasks = [loop.create_task(run_member(name)) for name in members]
        lab = await coordinator.gather()
        made.labs["alpha"] = await ends.enter_async_context(lab)
        await asyncio.gather(*tasks)
        yield made
        await coordinator.close()


async def test_every_vnic_of_every_machine_comes_up() -> None:
    async with cluster() as made:
        states = {
            vnic["vesw"]: vnic["state"]
            for lab in made.labs.values()
            for host in lab.status()["hosts"]
            for vnic in host["vnics"]
        }
        assert states == {"blue": "up"}
        assert sum(len(lab.hosts) for lab in made.labs.values()) == 6
        assert made.unaccounted() == {}
