"""`opavnic bench em`: how long an EM takes to configure a whole fabric, and how much it sends.

Then one member leaves its virtual switch, and the EM is restarted: neither is to cost what the whole fabric did.

Everything is in memory (`bed.make_world`). Each run has a process of its own, so the peak of memory is that of one run.
"""

from __future__ import annotations

import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final

from opavnic.management.em_port import SmTopology, make_em
from opavnic.world.world import World
from opavnic_bench.base.bed import PKEY, make_world
from opavnic_bench.base.turns import BenchError, Progress, silent, take_turns
from vema.base.types import MAC_TABLE_ENTRIES
from vema.em.desired.desired import EmConfig, parse_config
from vema.em.service.service import EthernetService

MEMBERS: Final = 10
"""Members of each virtual switch, if there are several."""
TIME_LIMIT_S: Final = 600.0
_KIB: Final = 1024


@dataclass(frozen=True, slots=True)
class EmCase:
    """One run: a number of vports, spread evenly over a number of virtual switches."""

    vports: int
    vesws: int

    @property
    def label(self) -> str:
        """Its name in progress and errors."""
        return f"{self.vports} vports, {self.vesws} virtual switches"

    @property
    def hosts(self) -> list[str]:
        """One host for each vport."""
        return [f"h{number}" for number in range(self.vports)]

    @property
    def policy(self) -> str:
        """MAC policy: MAC tables, unless one table cannot hold all members."""
        return "learn" if self.vports // self.vesws <= MAC_TABLE_ENTRIES else "locally-administered"

    def config(self, *, without: int = 0) -> EmConfig:
        """Return the configuration: the hosts, in order, spread evenly over the virtual switches.

        Args:  without: how many hosts at the end are in none.
        """
        members, hosts = self.vports // self.vesws, self.hosts[: self.vports - without]
        vesws = [
            {
                "id": number + 1,
                "name": f"vesw{number + 1}",
                "pkey": PKEY,
                "members": hosts[number * members : (number + 1) * members],
            }
            for number in range(self.vesws)
        ]
        # no polls: the benchmark measures the configuration of the fabric, not its supervision
        return parse_config(
            {
                "mac": self.policy,
                "polling": {"interval": 0, "audit": 0},
                "limits": {"in_flight": 256, "per_port": 4},
                "vesws": vesws,
            }
        )


@dataclass(frozen=True, slots=True)
class EmFigures:
    """The results of one run."""

    vports: int
    vesws: int
    policy: str
    converge_s: float
    mads: int
    """MADs that the EM sent."""
    sets: int
    peak_mib: float
    """Memory of the whole process: fabric, agents, EM."""
    change_s: float
    """Time until one member has left."""
    change_mads: int
    restart_s: float
    restart_sets: int


COLUMNS: Final = tuple(item.name for item in fields(EmFigures))


def plans(vports: int) -> list[EmCase]:
    """Return the runs for a number of vports: one virtual switch for all, and one for each ten."""
    return [EmCase(vports, 1)] + ([EmCase(vports, vports // MEMBERS)] if vports > MEMBERS else [])


def bench_em(sizes: Sequence[int], progress: Progress = silent) -> dict[str, Any]:
    """Measure the plans of each number of vports.

    Raises:  BenchError: a run failed.
    """
    todo = [plan for size in sizes for plan in plans(size)]
    return {
        "runs": take_turns(todo, _measure_apart, label=lambda plan: plan.label, progress=progress).single()
    }


def _measure_apart(plan: EmCase) -> dict[str, Any]:
    """Measure one run in a process of its own."""
    command = [sys.executable, "-m", "opavnic_bench.elements.em", str(plan.vports), str(plan.vesws)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchError(f"{plan.label}: {done.stderr.strip()[-500:]}")
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


async def measure(plan: EmCase, directory: Path) -> EmFigures:
    """Run one plan in this process; `directory` takes the database.

    Raises:  BenchError: the EM did not converge, or MAC tables are wrong.
    """
    async with make_world(plan.hosts, clock=asyncio.get_running_loop(), timer_resolution_s=1e-3) as world:
        return await _measure(world, plan, directory / "em.sqlite")


async def _measure(world: World, plan: EmCase, database: Path) -> EmFigures:
    config = plan.config()
    em = _em(world, database)
    begin = time.perf_counter()
    em.start(config)
    await _converge(em, plan)
    converge_s = time.perf_counter() - begin
    mads, sets = world.em_port.mad.sent, _sets(world)
    _check_tables(world, plan)
    fewer = plan.config(without=1)
    begin = time.perf_counter()
    em.apply(fewer)
    await _converge(em, plan)
    change_s = time.perf_counter() - begin
    change_mads, changed_sets = world.em_port.mad.sent - mads, _sets(world)
    em.stop()
    em = _em(world, database)
    begin = time.perf_counter()
    em.start()
    await _converge(em, plan)
    restart_s = time.perf_counter() - begin
    em.stop()
    return EmFigures(
        vports=plan.vports,
        vesws=plan.vesws,
        policy=plan.policy,
        converge_s=round(converge_s, 3),
        mads=mads,
        sets=sets,
        peak_mib=round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _KIB, 1),
        change_s=round(change_s, 3),
        change_mads=change_mads,
        restart_s=round(restart_s, 3),
        restart_sets=_sets(world) - changed_sets,
    )


def _em(world: World, database: Path) -> EthernetService:
    topology = SmTopology(world.subnet_manager, world.em_port)
    return make_em(topology, world.em_port, clock=world.clock, wall_clock=time.time, database=database)


def _sets(world: World) -> int:
    """Return how many Sets the agents have applied."""
    return sum(vnic_port.agent.counters.sets for vnic_port in world.vnic_ports.values())


async def _converge(em: EthernetService, plan: EmCase) -> None:
    if not await em.wait_converged(TIME_LIMIT_S):
        raise BenchError(f"{plan.vports} vports: not converged within {TIME_LIMIT_S:g} s")


def _check_tables(world: World, plan: EmCase) -> None:
    wanted = plan.vports // plan.vesws - 1 if plan.policy == "learn" else 0
    for vnic_port in world.vnic_ports.values():
        tables = [len(adapter.mac_table) for adapter in vnic_port.adapters.values()]
        if tables != [wanted]:
            raise BenchError(
                f"{vnic_port.port.name}: MAC tables of {tables} entries, one of {wanted} was wanted"
            )


def main() -> None:
    """Measure the run in the arguments, vports and virtual switches, and print its figures as JSON."""
    plan = EmCase(int(sys.argv[1]), int(sys.argv[2]))
    with tempfile.TemporaryDirectory(prefix="opavnic-bench-") as directory:
        figures = asyncio.run(measure(plan, Path(directory)))
    sys.stdout.write(json.dumps(asdict(figures)) + "\n")


if __name__ == "__main__":
    main()
