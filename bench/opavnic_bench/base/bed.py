"""The worlds used by benchmarks: hosts on one switch, each with a management agent and netdevs in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from hfi_sim.fabric.topology.generators import single_switch
from hfi_sim.netdev.memory import memory_netdev
from hfi_sim.nodes.hfi import NetdevFactory
from hfi_sim.routing.table import MAX_PORTS
from opavnic.world.world import World

PKEY: Final = 0x8002
"""The partition of every host."""


def make_world(
    hosts: Sequence[str], netdevs: Callable[[str], NetdevFactory] = lambda host: memory_netdev, **options: Any
) -> World:
    """Return a swept world with these hosts, all on one switch regardless of their number.

    Args:    netdevs: gives the netdev factory of a host. The others are those of World.
    """
    topology = single_switch(hosts)
    topology.switch_ports_max = MAX_PORTS  # more than a real switch has
    world = World(topology, **options)
    for name, host in world.hosts.items():
        world.set_pkeys(host.port, [PKEY])
        world.add_vnic_port(name, netdevs=netdevs(name), can_crash=False)
    world.subnet_manager.sweep()
    return world
