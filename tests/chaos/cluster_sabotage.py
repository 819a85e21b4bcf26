"""Damage done on purpose to a cluster, one for each check: a check that does not see it is worth nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from unittest.mock import patch

from chaos.cluster_campaign import WARM_UP, check
from chaos.cluster_world import BACK_S, LATE, World
from chaos.rounds import missed
from opavnic_bench.base.sites import until

LOSES_COUNT = """
from opavnic.cluster.machines.boundary import Boundary
Boundary._count_lost = lambda *_: None
from opavnic.cli.main import main
raise SystemExit(main())
"""
"""A machine that does not notice what was on its way when a connection ended."""


def cut_a_machine_off(world: World) -> Callable[[], object]:
    """the lab is not whole"""
    world.machines.plug("m2", plugged=False)
    until(lambda: "m2" not in world.status()["cluster"]["there"], "m2 is there", limit_s=BACK_S)
    return lambda: world.machines.plug("m2", plugged=True)


def expect_other_lids(world: World) -> Callable[[], object]:
    """LIDs are"""
    lids, world.lids = world.lids, {}
    return lambda: setattr(world, "lids", lids)


def admit_a_stranger(world: World) -> Callable[[], object]:
    """a stranger runs a share of the lab"""
    said = world.machines.directory / "stranger-of-sabotage.out"
    said.write_text(f"{LATE} is running")
    return said.unlink


def print_a_traceback(world: World) -> Callable[[], object]:
    """m3.out of m3 says: Traceback"""
    with world.cluster.output("m3").open("a") as file:
        file.write("Traceback (most recent call last):\n")
    return lambda: None


def grow(world: World) -> Callable[[], object]:
    """m1 grows"""
    world.figures.memory[world.pid("m1")] = [(0, 0)] * (WARM_UP + 1)
    return world.figures.memory.clear


def forget_what_was_on_its_way(world: World) -> Callable[[], object]:
    """packets are under way between machines at rest"""
    world.kill("m2")
    with patch("opavnic_bench.cluster.machines.OWN", [sys.executable, "-c", LOSES_COUNT]):
        world.start("m2")
    until(world.is_whole, "m2 is not back", limit_s=BACK_S)
    world.talk()
    time.sleep(2)
    world.machines.plug("m3", plugged=False)
    until(lambda: "m3" not in world.status()["cluster"]["there"], "m3 is there", limit_s=BACK_S)
    world.settle()
    return world.mend


SABOTAGE = (
    cut_a_machine_off, expect_other_lids, admit_a_stranger, print_a_traceback, grow, forget_what_was_on_its_way,
)  # fmt: skip
"""Each says in its docstring what is to be found."""


def run_sabotage() -> int:
    """Do each damage, see that the checks find it, undo it; return how many were not found."""
    world = World(0)

    def is_whole_again(damage: str) -> None:
        until(world.is_whole, f"{damage} was not undone", limit_s=BACK_S)

    try:
        world.silence()
        return missed(world, SABOTAGE, check, settle=is_whole_again)
    finally:
        world.end()
