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
from collections.abc import Callable, Sequence
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
from vema.em.service.service import EthernetService
from vema.em.store.database import IN_MEMORY

MEMBERS: Final = 10
"""Members of each virtual switch, where a port has one VNIC."""
MANY_MEMBERS: Final = 25
"""The same where a port has several: there are 4095 virtual switches at most."""
VIRTUAL_LIMIT_S: Final = 3600.0
_KIB: Final = 1024


@dataclass(frozen=True, slots=True)
class ScaleFigures:
    """The results of one size."""

    ports: int
    vports: int
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
    change_s: float
    """The EM, after a member of one virtual switch has been replaced by another port."""
    change_sets: int
    """Sets that agents applied for that."""
    restart_s: float
    """An EM that starts again with the database of the first."""
    restart_sets: int
    failover_s: float
    """An EM with the configuration and without a database, that takes over from what the agents say."""
    failover_sets: int
    peak_mib: float
    """Memory of the whole process: fabric, agents, SM, EM."""


COLUMNS: Final = tuple(item.name for item in fields(ScaleFigures))


def bench_scale(sizes: Sequence[int], progress: Progress = silent, *, vports: int = 1) -> dict[str, Any]:
    """Measure each number of ports; `growth` says by which power of it a time grew between neighbours.

    Args:    vports: of each port.
    Raises:  BenchError: a run failed, or looptime is missing.
    """
    runs = take_turns(
        sizes,
        lambda ports: _measure_apart(ports, vports),
        label=lambda ports: f"{ports} ports",
        progress=progress,
    ).single()
    return {"runs": runs, "growth": [_growth(one, other) for one, other in itertools.pairwise(runs)]}


def _growth(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    ratio = math.log(other["ports"] / one["ports"])
    times = (
        *("build_s", "sweep_s", "resweep_s", "converge_s", "virtual_s", "mads"),
        *("change_s", "restart_s", "failover_s", "peak_mib"),
    )
    powers = {
        name: round(math.log(max(other[name], 1e-9) / max(one[name], 1e-9)) / ratio, 2) for name in times
    }
    return {"from": one["ports"], "to": other["ports"], **powers}


def _measure_apart(ports: int, vports: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "opavnic_bench.cluster.scale", str(ports), str(vports)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchError(f"{ports} ports: {done.stderr.strip()[-500:]}")
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def members_of_each(vports: int) -> int:
    """Return the members of each virtual switch, where a port has so many VNICs."""
    return MEMBERS if vports == 1 else MANY_MEMBERS


def _config(hosts: Sequence[str], vports: int, *, changed: bool = False) -> EmConfig:
    """Return a configuration in which each host has so many vports.

    Args:  changed: the first member of the first virtual switch is another host.
    """
    size = members_of_each(vports)
    members = [
        [hosts[(number * size + at) % len(hosts)] for at in range(size)]
        for number in range(len(hosts) * vports // size)
    ]
    if changed:
        members[0][0] = hosts[size]
    vesws = [
        {"id": number, "name": f"vesw{number}", "pkey": PKEY, "members": its}
        for number, its in enumerate(members, start=1)
    ]
    polls = {"interval": 0, "audit": 0}  # the configuration of the fabric is measured, not its supervision
    limits = {"in_flight": 256, "per_port": 4}
    return parse_config({"mac": "learn", "polling": polls, "limits": limits, "vesws": vesws})


class _Managers:
    """EMs on one world, one at a time, and what each step costs."""

    def __init__(self, world: World) -> None:
        self._world = world

    def make(self, database: Path | str) -> EthernetService:
        """Return an EM with a database."""
        port = self._world.em_port
        topology = SmTopology(self._world.subnet_manager, port)
        return make_em(topology, port, clock=self._world.clock, wall_clock=time.time, database=database)

    async def measure(self, em: EthernetService, step: Callable[[], object]) -> tuple[float, int]:
        """Do something; return the processor seconds and the Sets until the EM has converged. Raises BenchError."""
        began, before = time.process_time(), self._sets()
        step()
        if not await em.wait_converged(VIRTUAL_LIMIT_S):
            raise BenchError(f"not converged within {VIRTUAL_LIMIT_S:g} s of virtual time")
        return round(time.process_time() - began, 3), self._sets() - before

    def _sets(self) -> int:
        return sum(vnic_port.agent.counters.sets for vnic_port in self._world.vnic_ports.values())


async def measure(ports: int, vports: int, database: Path) -> ScaleFigures:
    """Measure one size in this process, on a loop of virtual time. Raises BenchError if an EM did not converge."""
    loop, begin = asyncio.get_running_loop(), time.process_time()
    topology = fat_tree_for(ports)
    async with World(topology, clock=loop) as world:
        for name, host in world.hosts.items():
            world.set_pkeys(host.port, [PKEY])
            world.add_vnic_port(name, netdevs=memory_netdev, can_crash=False)
        built = time.process_time()
        world.subnet_manager.sweep()
        swept = time.process_time()
        hosts, managers = list(world.hosts), _Managers(world)
        em, virtual = managers.make(database), loop.time()
        converge_s, _ = await managers.measure(em, lambda: em.start(_config(hosts, vports)))
        virtual_s, mads = loop.time() - virtual, world.em_port.mad.sent
        other = _config(hosts, vports, changed=True)
        change = await managers.measure(em, lambda: em.apply(other))
        em.stop()
        again = managers.make(database)
        restart = await managers.measure(again, again.start)
        again.stop()
        standby = managers.make(IN_MEMORY)
        failover = await managers.measure(standby, lambda: standby.start(other))
        standby.stop()
        switches = set(world.fabric.switches)
        between = {cable.name for cable in topology.cables if {cable.a[0], cable.b[0]} <= switches}
        link = next(link for link in world.fabric.links if link.name in between)
        downed = time.process_time()
        world.fabric.set_link(link, up=False)
        world.subnet_manager.sweep()
        resweep_s = time.process_time() - downed
        return ScaleFigures(
            ports=len(world.hosts),
            vports=len(world.hosts) * vports,
            switches=len(switches),
            links=len(topology.cables),
            build_s=round(built - begin, 3),
            sweep_s=round(swept - built, 3),
            resweep_s=round(resweep_s, 3),
            converge_s=converge_s,
            virtual_s=round(virtual_s, 6),
            mads=mads,
            mads_per_port=round(mads / len(world.hosts), 2),
            change_s=change[0],
            change_sets=change[1],
            restart_s=restart[0],
            restart_sets=restart[1],
            failover_s=failover[0],
            failover_sets=failover[1],
            peak_mib=round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _KIB, 1),
        )


def main() -> None:
    """Measure the numbers of ports and of vports in the arguments, and print its figures as JSON."""
    try:
        import looptime
    except ImportError:
        sys.exit("virtual time needs looptime: pip install 'opavnic[testing]'")
    with (
        tempfile.TemporaryDirectory(prefix="opavnic-bench-") as directory,
        asyncio.Runner(loop_factory=looptime.new_event_loop) as runner,
    ):
        figures = runner.run(measure(int(sys.argv[1]), int(sys.argv[2]), Path(directory) / "em.sqlite"))
    sys.stdout.write(json.dumps(asdict(figures)) + "\n")


if __name__ == "__main__":
    main()
