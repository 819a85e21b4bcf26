"""The worlds that benchmarks measure on: hosts on one switch, each with a management agent and netdevs in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from hfi_sim.netdev.memory import memory_netdev
from hfi_sim.routing.table import MAX_PORTS
from hfi_sim.topology.generators import single_switch
from opavnic.world.world import World

PKEY: Final = 0x8002
"""The partition of every host."""


def make_world(hosts: Sequence[str], **options: Any) -> World:
    """Return a world with these hosts, swept; the options are those of World.

    However many hosts there are, they share one switch: a benchmark measures them, not the way between them.
    """
    topology = single_switch(hosts)
    topology.switch_ports_max = MAX_PORTS  # more than those of a real switch
    world = World(topology, **options)
    for name, host in world.hosts.items():
        world.set_pkeys(host.port, [PKEY])
        world.add_vnic_port(name, netdevs=memory_netdev, can_crash=False)
    world.subnet_manager.sweep()
    return world
