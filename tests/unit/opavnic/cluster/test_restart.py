"""A coordinator whose process is killed and started again with the same lab file: the machines go on with the lab."""

from __future__ import annotations

import asyncio

import pytest

from opavnic.cluster.errors import ClusterInputError
from opavnic.cluster.machines.node import topology_of
from opavnic.cluster.protocol.membership import NodeName
from opavnic.cluster.protocol.placement import Loads, place
from opavnic.lab.run.lab import Lab
from opavnic.scenario.virtual import LOOP_OPTIONS
from opavnic.world.em_node import EM_NODE
from unit.opavnic.cluster.memory_network import MemoryNetwork
from unit.opavnic.cluster.test_fabric_over_machines import (
    FILE,
    Cluster,
    cluster,
    coordinator_on,
    in_service,
    states,
    until,
)

pytestmark = pytest.mark.looptime(**LOOP_OPTIONS)
HOSTS = ["h1", "h2", "h3", "h4", "h5", "h6"]


def lids(lab: Lab) -> dict[str, int]:
    return {port.name: port.lid for port in lab.world.fabric.hfi_ports() if not port.hfi.is_remote}


def fault_numbers(made: Cluster) -> dict[str, list[int]]:
    return {name: list(lab.world.faults.specs()) for name, lab in made.labs.items()}


async def reaches(made: Cluster, host: str, other: str) -> bool:
    there, here = (made.host(name).interface(name, "blue") for name in (other, host))
    assert here.memory_host is not None
    assert there.address is not None
    return await here.memory_host.ping(there.address.ip, 1, 1.0) == 1  # type: ignore[arg-type]


TEXT = FILE.replace("nodes: 3", "nodes: 3, place: auto")
BUSY = Loads("spread", 1.0, {"h1:1--leaf0:1": 10**9, "leaf0:3--spine0:1": 10**9, "h5:1--leaf2:1": 10**9})
"""By these, another placement would be better than the one that runs."""


async def test_coordinator_that_is_started_again_finds_the_machines_as_they_were_and_its_own_faults_alone() -> (
    None
):
    async with cluster(TEXT) as made:
        placed = made.machines["alpha"].placement
        assert placed is not None
        before = {name: lids(lab) for name, lab in made.labs.items()}
        await made.machines["alpha"].remote_machines.change_faults({"add": "loss on h5 1%"})
        assert fault_numbers(made) == {name: [1] for name in made.labs}
        made.net.up[NodeName("alpha")].kill()
        await made.labs.pop("alpha").stop()
        assert await reaches(made, "h3", "h4"), "what needs no other machine goes on"

        made.machines["alpha"] = again = coordinator_on(made.net, TEXT, loads=BUSY)
        made.labs["alpha"] = lab = await again.gather()
        topology, names = topology_of(lab.model), list(placed.hosts)
        assert place(topology, names, managers=EM_NODE, capacities=[2, 2, 2], loads=BUSY) != placed
        assert again.placement == placed, "nothing that runs is moved"
        async with lab:

            async def is_one_again() -> bool:
                if in_service(made) < set(HOSTS) or set((await states(made)).values()) != {"up"}:
                    return False
                # tables of switches on other machines are on their way for a moment
                assert lab.manager is not None
                return await lab.manager.em.verify() == [] and await reaches(made, "h1", "h3")

            await until(is_one_again)
            assert {name: lids(lab) for name, lab in made.labs.items()} == before
            assert fault_numbers(made) == {name: [] for name in made.labs}
            for host in HOSTS[1:]:
                assert await reaches(made, "h1", host), host
            assert made.unaccounted() == {}
            await again.close()


async def test_loads_of_a_lab_that_places_nothing_by_load_are_refused() -> None:
    with pytest.raises(ClusterInputError, match=r"cluster: \{place: auto\}"):
        coordinator_on(MemoryNetwork(asyncio.get_running_loop()), loads=BUSY)
