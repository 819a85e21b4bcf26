"""How long an EM takes for a whole fabric, what it sends, and what a restart of it sends: `opavnic bench em`.

Everything is in one process and in memory: HFIs on one switch, each with the agent and a netdev without a kernel.
Each run has a process of its own, so that its peak of memory is its own.
"""

from __future__ import annotations

import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from hfi_sim.fabric import GUID_BASE, GUID_STEP, Fabric
from hfi_sim.netdev.memory import memory_netdev
from hfi_sim.subnet_manager import SubnetManager
from opavnic.em_port import make_em
from opavnic.errors import OpavnicError
from opavnic.vnic_port import VnicPort
from vema.em.desired import EmConfig, parse_config
from vema.em.service import EthernetService
from vema.types import MAC_TABLE_ENTRIES

SIZES: Final = (10, 100, 1000, 10000)
MEMBERS: Final = 10
"""Members of each virtual switch, where there are many."""
TIME_LIMIT_S: Final = 600.0
_PKEY: Final = 0x8002
_KIB: Final = 1024


@dataclass(frozen=True, slots=True)
class Plan:
    """One run: so many vports, evenly on so many virtual switches."""

    vports: int
    vesws: int

    @property
    def policy(self) -> str:
        """MAC policy: tables, unless one could not hold all members."""
        return "learn" if self.vports // self.vesws <= MAC_TABLE_ENTRIES else "locally-administered"

    def config(self) -> EmConfig:
        """Return what the EM is to make; HFI n is in virtual switch 1 + n // members."""
        members = self.vports // self.vesws
        vesws = [
            {
                "id": number + 1,
                "name": f"vesw{number + 1}",
                "pkey": _PKEY,
                "members": [f"h{number * members + n}" for n in range(members)],
            }
            for number in range(self.vesws)
        ]
        # no looks in between: what is measured is the way to the goal, not the watch over it
        return parse_config(
            {
                "mac": self.policy,
                "polling": {"interval": 0, "audit": 0},
                "limits": {"in_flight": 256, "per_port": 4},
                "vesws": vesws,
            }
        )


@dataclass(frozen=True, slots=True)
class Figures:
    """What one run measured."""

    vports: int
    vesws: int
    policy: str
    converge_s: float
    mads: int
    """MADs that the EM sent."""
    sets: int
    peak_mib: float
    """Memory of the whole process: fabric, agents, EM."""
    restart_s: float
    restart_sets: int


def plans(vports: int) -> Iterator[Plan]:
    """Yield the runs for a number of vports: one virtual switch for all, and one for each ten."""
    yield Plan(vports, 1)
    if vports > MEMBERS:
        yield Plan(vports, vports // MEMBERS)


def bench_em(plan: Plan) -> dict[str, Any]:
    """Measure one run in a process of its own.

    Raises:  OpavnicError: the run failed.
    """
    command = [sys.executable, "-m", "opavnic.bench.em", str(plan.vports), str(plan.vesws)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OpavnicError(
            f"{plan.vports} vports on {plan.vesws} virtual switches: {done.stderr.strip()[-500:]}"
        )
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


class _Fabric:
    """HFIs h0, h1, ... with agents on one switch, and a node for the EM."""

    def __init__(self, vports: int) -> None:
        loop = asyncio.get_running_loop()
        fabric = Fabric(loop, timer_resolution_s=1e-3)
        switch = fabric.add_switch("sw0", ports=vports + 1)
        self.em_port = fabric.add_hfi("em").ports[1]
        fabric.connect(self.em_port, switch.ports[1])
        self.vnics = []
        ports = []
        for n in range(vports):
            hfi = fabric.add_hfi(f"h{n}", guid=GUID_BASE + (n + 16) * GUID_STEP, netdevs=memory_netdev)
            fabric.connect(hfi.ports[1], switch.ports[n + 2])
            self.vnics.append(VnicPort(hfi.ports[1], loop))
            ports.append(hfi.ports[1])
        self.sm = SubnetManager(fabric, self.em_port)
        for port in ports:
            self.sm.set_pkeys(port, [_PKEY])
        self.sm.sweep()

    def sets(self) -> int:
        """Return how many Sets the agents have taken."""
        return sum(vnic.agent.counters.sets for vnic in self.vnics)


async def measure(plan: Plan, directory: Path) -> Figures:
    """Run one plan in this process; `directory` takes the database.

    Raises:  OpavnicError: the EM did not get there.
    """
    fabric = _Fabric(plan.vports)
    config = plan.config()
    em = _em(fabric, directory)
    begin = time.perf_counter()
    em.start(config)
    await _converge(em, plan)
    converge_s = time.perf_counter() - begin
    mads, sets = fabric.em_port.mad.sent, fabric.sets()
    _check_tables(fabric, plan)
    em.stop()
    em = _em(fabric, directory)
    begin = time.perf_counter()
    em.start()
    await _converge(em, plan)
    restart_s = time.perf_counter() - begin
    em.stop()
    return Figures(
        vports=plan.vports,
        vesws=plan.vesws,
        policy=plan.policy,
        converge_s=round(converge_s, 3),
        mads=mads,
        sets=sets,
        peak_mib=round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _KIB, 1),
        restart_s=round(restart_s, 3),
        restart_sets=fabric.sets() - sets,
    )


def _em(fabric: _Fabric, directory: Path) -> EthernetService:
    clock = asyncio.get_running_loop()
    return make_em(
        fabric.sm, fabric.em_port, clock=clock, wall_clock=time.time, database=directory / "em.sqlite"
    )


async def _converge(em: EthernetService, plan: Plan) -> None:
    if not await em.wait_converged(TIME_LIMIT_S):
        raise OpavnicError(f"{plan.vports} vports: not converged within {TIME_LIMIT_S:g} s")


def _check_tables(fabric: _Fabric, plan: Plan) -> None:
    wanted = plan.vports // plan.vesws - 1 if plan.policy == "learn" else 0
    for vnic in fabric.vnics:
        tables = [len(adapter.mac_table) for adapter in vnic.adapters.values()]
        if tables != [wanted]:
            raise OpavnicError(
                f"{vnic.port.name}: MAC tables of {tables} entries, one of {wanted} was wanted"
            )


def main() -> None:
    """Measure the run in the arguments, vports and virtual switches, and print its figures as JSON."""
    plan = Plan(int(sys.argv[1]), int(sys.argv[2]))
    with tempfile.TemporaryDirectory(prefix="opavnic-bench-") as directory:
        figures = asyncio.run(measure(plan, Path(directory)))
    sys.stdout.write(json.dumps(asdict(figures)) + "\n")


if __name__ == "__main__":
    main()
