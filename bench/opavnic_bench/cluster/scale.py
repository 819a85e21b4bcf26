"""`opavnic bench scale`: a fat tree of thousands of ports in virtual time, until the SM and the EM have converged.

Every MAD crosses the links of the tree with their latencies; the clock jumps to the next event. So `virtual_s` is what
links of these rates alone would take, and the other times, of a processor, and the memory are what this program takes
to work it out.
Each size has a process of its own.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final

from hfi_sim.fabric.topology.generators import fat_tree_for
from hfi_sim.netdev.memory import memory_netdev
from opavnic.management.em_port import SmTopology, make_em
from opavnic.world.world import World
from opavnic_bench.base.bed import PKEY
from opavnic_bench.base.turns import BenchError, Progress, silent, take_turns
from vema.em.desired.desired import EmConfig, parse_config

MEMBERS: Final = 10
"""Members of each virtual switch."""
VIRTUAL_LIMIT_S: Final = 3600.0
_KIB: Final = 1024


@dataclass(frozen=True, slots=True)
class ScaleFigures:
    """The results of one size."""

    ports: int
    switches: int
    links: int
    build_s: float
    """Making the fabric in memory, agents included."""
    sweep_s: float
    """The SM's first sweep: discovery, LIDs, routes, tables."""
    resweep_s: float
    """Its sweep after one link between switches went down."""
    converge_s: float
    """The EM, from its start until every vport is verified."""
    virtual_s: float
    """The same in virtual time."""
    mads: int
    """That the EM sent."""
    mads_per_port: float
    peak_mib: float
    """Memory of the whole process: fabric, agents, SM, EM."""


COLUMNS: Final = tuple(item.name for item in fields(ScaleFigures))


def bench_scale(sizes: Sequence[int], progress: Progress = silent) -> dict[str, Any]:
    """Measure each number of ports; `growth` says by which power of it a time grew between neighbours.

    Raises:  BenchError: a run failed, or looptime is missing.
    """
    runs = take_turns(sizes, _measure_apart, label=lambda ports: f"{ports} ports", progress=progress).single()
    return {"runs": runs, "growth": [_growth(one, other) for one, other in itertools.pairwise(runs)]}


def _growth(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    ratio = math.log(other["ports"] / one["ports"])
    times = ("build_s", "sweep_s", "resweep_s", "converge_s", "virtual_s", "mads", "peak_mib")
    powers = {
        name: round(math.log(max(other[name], 1e-9) / max(one[name], 1e-9)) / ratio, 2) for name in times
    }
    return {"from": one["ports"], "to": other["ports"], **powers}


def _measure_apart(ports: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "opavnic_bench.cluster.scale", str(ports)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchError(f"{ports} ports: {done.stderr.strip()[-500:]}")
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def _config(hosts: Sequence[str]) -> EmConfig:
    vesws = [
        {
            "id": number + 1,
            "name": f"vesw{number + 1}",
            "pkey": PKEY,
            "members": list(hosts[number * MEMBERS : (number + 1) * MEMBERS]),
        }
        for number in range(len(hosts) // MEMBERS)
    ]
    polls = {"interval": 0, "audit": 0}  # the configuration of the fabric is measured, not its supervision
    limits = {"in_flight": 256, "per_port": 4}
    return parse_config({"mac": "learn", "polling": polls, "limits": limits, "vesws": vesws})


async def measure(ports: int, database: Path) -> ScaleFigures:
    """Measure one size in this process, on a loop of virtual time. Raises BenchError if the EM did not converge."""
    loop, begin = asyncio.get_running_loop(), time.process_time()
    topology = fat_tree_for(ports)
    async with World(topology, clock=loop) as world:
        for name, host in world.hosts.items():
            world.set_pkeys(host.port, [PKEY])
            world.add_vnic_port(name, netdevs=memory_netdev, can_crash=False)
        built = time.process_time()
        world.subnet_manager.sweep()
        swept = time.process_time()
        em = make_em(
            SmTopology(world.subnet_manager, world.em_port),
            world.em_port,
            clock=world.clock,
            wall_clock=time.time,
            database=database,
        )
        began, virtual = time.process_time(), loop.time()
        em.start(_config(list(world.hosts)))
        if not await em.wait_converged(VIRTUAL_LIMIT_S):
            raise BenchError(f"{ports} ports: not converged within {VIRTUAL_LIMIT_S:g} s of virtual time")
        converged, virtual_s = time.process_time(), loop.time() - virtual
        em.stop()
        switches = set(world.fabric.switches)
        between = {cable.name for cable in topology.cables if {cable.a[0], cable.b[0]} <= switches}
        link = next(link for link in world.fabric.links if link.name in between)
        downed = time.process_time()
        world.fabric.set_link(link, up=False)
        world.subnet_manager.sweep()
        again = time.process_time()
        return ScaleFigures(
            ports=len(world.hosts),
            switches=len(switches),
            links=len(topology.cables),
            build_s=round(built - begin, 3),
            sweep_s=round(swept - built, 3),
            resweep_s=round(again - downed, 3),
            converge_s=round(converged - began, 3),
            virtual_s=round(virtual_s, 6),
            mads=world.em_port.mad.sent,
            mads_per_port=round(world.em_port.mad.sent / len(world.hosts), 2),
            peak_mib=round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _KIB, 1),
        )


def main() -> None:
    """Measure the number of ports in the arguments, and print its figures as JSON."""
    try:
        import looptime
    except ImportError:
        sys.exit("virtual time needs looptime: pip install 'opavnic[testing]'")
    with (
        tempfile.TemporaryDirectory(prefix="opavnic-bench-") as directory,
        asyncio.Runner(loop_factory=looptime.new_event_loop) as runner,
    ):
        figures = runner.run(measure(int(sys.argv[1]), Path(directory) / "em.sqlite"))
    sys.stdout.write(json.dumps(asdict(figures)) + "\n")


if __name__ == "__main__":
    main()
