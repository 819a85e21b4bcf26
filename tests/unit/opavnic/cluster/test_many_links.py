"""Many links between two machines: what a start does for one more link does not grow with how many there are."""

from __future__ import annotations

import cProfile
import pstats

import pytest

from hfi_sim.nodes.cable import Link
from opavnic.scenario.virtual import LOOP_OPTIONS
from unit.opavnic.cluster.test_fabric_over_machines import cluster, until

pytestmark = pytest.mark.looptime(**LOOP_OPTIONS)


def lab_of(switches: int) -> str:
    """Return a lab with all leaves on one machine and all spines on the other."""
    leaves, spines = ([f"{kind}{number}" for number in range(switches)] for kind in ("leaf", "spine"))
    placed = "".join(
        f"    {leaf}: alpha\n    {spine}: beta\n" for leaf, spine in zip(leaves, spines, strict=True)
    )
    return f"""
name: wide
fabric: {{topology: {{kind: clos, leaves: {switches}, spines: {switches}, hosts_per_leaf: 1}}}}
hosts: 1
vesws: [{{id: 2, name: blue, subnet: 10.9.2.0/24, members: all}}]
cluster:
  nodes: 2
  place:
{placed}"""


async def work_of_start(switches: int) -> tuple[int, int]:
    """Return how many functions are called until all links between two machines are up, and how often was swept."""
    with cProfile.Profile() as profile:
        async with cluster(lab_of(switches), ("beta",)) as made:

            def links() -> list[Link]:
                return [link for lab in made.labs.values() for link in lab.world.fabric.links]

            async def are_up() -> bool:
                return all(link.up for link in links())

            await until(are_up)
            profile.disable()
            assert len(links()) == 2 * (switches**2 + 2)
            return pstats.Stats(profile).total_calls, made.labs["alpha"].world.subnet_manager.sweeps


async def test_one_more_link_between_machines_costs_the_same_however_many_there_are() -> None:
    await work_of_start(2)  # what is done once in a process
    starts = [await work_of_start(switches) for switches in (8, 12, 16)]
    (few, more, most), sweeps = zip(*starts, strict=True)
    assert len(set(sweeps)) == 1, "links that come together are one change"
    one_more = (more - few) / (12**2 - 8**2), (most - more) / (16**2 - 12**2)
    assert one_more[1] < 1.1 * one_more[0], one_more
