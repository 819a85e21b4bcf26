"""A program that routes a running fabric: it moves one host's packets from spine to spine, and sees them arrive.

Nothing here needs root: the hosts are in memory, time is virtual. In a program with a lab of TAPs it is the same
`world.subnet_manager.steer`.
"""

from __future__ import annotations

from hfi_sim.base.clock import ManualClock
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.fabric.table_paths import paths
from hfi_sim.fabric.topology import clos
from hfi_sim.routing import ENGINES, Routes, SwitchGraph, min_hop
from hfi_sim.subnet_manager import Routing, SubnetManager


def lowest_port(graph: SwitchGraph) -> Routes:
    """A routing engine: of all shortest paths, those by the lowest port."""
    return Routes([[ports[:1] for ports in row] for row in min_hop(graph).hops])


def main() -> None:
    """Route a Clos with an engine of our own, then steer single LIDs."""
    ENGINES["lowest-port"] = lowest_port
    fabric = clos(leaves=2, spines=3).build(Fabric(ManualClock()))
    manager = SubnetManager(fabric, routing=Routing(engine="lowest-port"))
    manager.sweep()
    source, target = (fabric.hfis[name].ports[1] for name in ("h1", "h3"))
    print("engine:", " -> ".join(paths(fabric, source, target)[0]))
    for spine in (1, 2):
        (uplink,) = (
            own.port_num
            for own, far in fabric.neighbours(fabric.switches["leaf0"])
            if far.name.startswith(f"spine{spine}:")
        )
        manager.steer({"leaf0": {target.lid: uplink}})
        print(f"steered to spine{spine}:", " -> ".join(paths(fabric, source, target)[0]))
    manager.steer({})
    print("engine:", " -> ".join(paths(fabric, source, target)[0]))


if __name__ == "__main__":
    main()
