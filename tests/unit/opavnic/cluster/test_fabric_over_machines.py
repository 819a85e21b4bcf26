"""A lab on several machines of one process, on virtual time, over a transport in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import pytest

from hfi_sim.port_state import PortState
from opavnic.cluster.errors import AskError, ClusterError, ClusterInputError
from opavnic.cluster.memory import MemoryNetwork
from opavnic.cluster.node import Coordinator, Machine, Member
from opavnic.cluster.transport import NodeName
from opavnic.lab.errors import LabError
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


@pytest.mark.parametrize("link", ["", ", link: {credits: on}"])
async def test_every_vnic_of_every_machine_comes_up(link: str) -> None:
    async with cluster(FILE.replace("uplinks: 2}", f"uplinks: 2}}{link}")) as made:
        states = {
            vnic["vesw"]: vnic["state"]
            for lab in made.labs.values()
            for host in lab.status()["hosts"]
            for vnic in host["vnics"]
        }
        assert states == {"blue": "up"}
        assert sum(len(lab.hosts) for lab in made.labs.values()) == 6
        assert made.unaccounted() == {}


async def states(made: Cluster) -> dict[str, str]:
    """Return the state of the VNIC of each host that is there, as the coordinator hears it."""
    lab = made.labs["alpha"]
    status = await lab.folded(lab.status(), False)
    return {host["name"]: host["vnics"][0]["state"] for host in status["hosts"]}


async def until(condition: Callable[[], Awaitable[bool]], limit_s: float = 30.0) -> None:
    """Wait, on virtual time, until something holds."""
    async with asyncio.timeout(limit_s):
        while not await condition():  # noqa: ASYNC110 - on virtual time
            await asyncio.sleep(0.01)


def in_service(made: Cluster) -> set[str]:
    ports = made.labs["alpha"].world.subnet_manager.ports_in_service()
    return {port.hfi.name for port in ports}


async def test_machine_cut_off_goes_out_of_service_and_comes_back_with_its_lids() -> None:
    async with cluster() as made:
        before = {port.name: port.lid for port in made.labs["alpha"].world.fabric.hfi_ports()}
        for peer in ("alpha", "gamma"):
            made.net.part("beta", peer)
        assert in_service(made) == {"em", "h1", "h2", "h5", "h6"}
        beta = made.labs["beta"].world
        cut = [link for link in beta.fabric.links if not link.up]
        assert cut, "the machine that is cut off sees its own cables as cut"
        assert {port.state for link in cut for port in link.ends if port.name in beta.fabric.hfis} <= {
            PortState.DOWN
        }
        for peer in ("alpha", "gamma"):
            made.net.heal("beta", peer)

        async def is_back() -> bool:
            return len(in_service(made)) == 7 and set((await states(made)).values()) == {"up"}

        await until(is_back)
        after = {port.name: port.lid for port in made.labs["alpha"].world.fabric.hfi_ports()}
        assert after == before
        assert {port.lid for port in beta.fabric.hfi_ports() if not port.hfi.is_elsewhere} <= set(
            before.values()
        )
        await asyncio.sleep(1.0)
        assert made.unaccounted() == {}


async def test_fault_of_the_coordinator_acts_on_the_machine_that_carries_the_place() -> None:
    async with cluster() as made:
        coordinator = made.machines["alpha"]
        await coordinator.spread({"add": "link-down on h3"})
        made.labs["alpha"].world.faults.add("link-down on h3")

        async def is_down() -> bool:
            return "h3" not in in_service(made)

        await until(is_down)
        assert made.host("h3").world.hosts["h3"].port.state is PortState.DOWN


async def test_members_obey_the_coordinator_alone() -> None:
    async with cluster() as made:
        with pytest.raises(ClusterError, match="gamma obeys the coordinator alone, not beta"):
            await made.machines["beta"].spread({"add": "loss on h5 100%"})
        assert made.labs["gamma"].world.faults.show() == []
        asked = made.machines["beta"].transport.ask(NodeName("gamma"), "program", {"nodes": {}})
        with pytest.raises(AskError, match="beta is not the coordinator of this fabric"):
            await asked


async def test_member_reports_on_its_own_nodes_alone() -> None:
    async with cluster() as made:
        lie = {"capabilities": {}, "descriptions": {"h1": "mine"}, "down": ["h1:1--leaf0:1"]}
        await made.machines["beta"].transport.ask(NodeName("alpha"), "report", lie)
        fabric = made.labs["alpha"].world.fabric
        assert fabric.hfis["h1"].description == "h1"
        assert all(port.link is not None and port.link.up for port in fabric.hfis["h1"].ports.values())


async def test_machine_with_another_lab_file_is_refused() -> None:
    loop = asyncio.get_running_loop()
    net = MemoryNetwork(loop)
    text = FILE.replace("nodes: 3", "nodes: 2")
    coordinator = Coordinator(
        parse_lab(text, "lab.yaml"),
        text,
        "lab.yaml",
        net.transport("alpha", is_coordinator=True),
        progress=print,
        netdev="memory",
    )
    member = Member(net.transport("beta"), progress=print, expected=text + "# changed")
    joining = loop.create_task(member.join())
    lab = await coordinator.gather()
    with pytest.raises(LabError, match="beta has another lab file than the coordinator"):
        async with lab:
            pass
    await coordinator.close()
    assert await joining is None


async def test_machine_that_comes_too_late_is_told_so() -> None:
    async with cluster() as made:
        late = Member(made.net.transport("delta"), progress=print)
        assert await late.join() is None
        assert late.reason == "lab spread runs without delta: it came too late"


async def test_lab_without_a_number_of_machines_is_refused() -> None:
    text = FILE.replace("cluster: {nodes: 3}", "")
    with pytest.raises(ClusterInputError, match="how many machines"):
        Coordinator(
            parse_lab(text, "lab.yaml"),
            text,
            "lab.yaml",
            MemoryNetwork(asyncio.get_running_loop()).transport("alpha"),
            progress=print,
        )
