"""A star of HFIs with agents and memory netdevs, an EM host, and a place for the database."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from hfi_sim.base.clock import Clock
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.netdev.memory import MemoryNetdev, memory_netdev
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.subnet_manager import SubnetManager
from opavnic.management.em_port import SmTopology, make_em
from opavnic.vnic.vnic_port import VnicPort
from unit.opavnic.vnic.vnic_bench import netdev_of
from vema.base.types import VportNum
from vema.em.desired.desired import EmConfig, parse_config
from vema.em.service.service import EthernetService

PKEY = 0x8002


class EmFabric:
    """`hosts` HFIs h1, h2, ... with one port each, and the EM nodes em1, em2, ... on one switch."""

    def __init__(self, hosts: int, *, ems: int = 1, seed: int = 1, clock: Clock | None = None) -> None:
        self.clock = asyncio.get_running_loop() if clock is None else clock
        self.rng = random.Random(seed)
        self.fabric = Fabric(self.clock, seed=seed, timer_resolution_s=1e-3)
        self.switch = self.fabric.add_switch("sw0", ports=hosts + ems + 1)
        self.em_ports = [self._node(f"em{n + 1}", n + 1) for n in range(ems)]
        self.ports = [self._node(f"h{n + 1}", ems + n + 1) for n in range(hosts)]
        self.sm = SubnetManager(self.fabric, self.em_ports[0])
        for port in self.em_ports:
            self.sm.set_management(port, True)
        for port in self.ports:
            self.sm.set_pkeys(port, [PKEY, 0x8003])
        self.vnics: dict[str, VnicPort] = {}
        for port in self.ports:
            self.start_agent(port)
        self.sm.sweep()

    def _node(self, name: str, switch_port: int) -> HfiPort:
        port = self.fabric.add_hfi(name, netdevs=memory_netdev).ports[1]
        self.fabric.connect(port, self.switch.ports[switch_port])
        return port

    def start_agent(self, port: HfiPort) -> None:
        """Start the agent of a port; the one that ran is gone with all it knew."""
        old = self.vnics.pop(port.name, None)
        if old is not None:
            old.close()
        self.vnics[port.name] = VnicPort(port, self.clock)

    def em(self, number: int = 1, *, database: Path | str = ":memory:") -> EthernetService:
        """Return an EM on node em`number`, not started."""
        port = self.em_ports[number - 1]
        return make_em(
            SmTopology(self.sm, port),
            port,
            clock=self.clock,
            wall_clock=self.clock.time,
            database=database,
        )

    def port(self, host: int) -> HfiPort:
        """Return the port of h`host`."""
        return self.ports[host - 1]

    def netdev(self, host: int, vport: int = 1) -> MemoryNetdev:
        """Return the netdev of a vport of h`host`."""
        return netdev_of(self.vnics[f"h{host}:1"].adapters[VportNum(vport)])

    def dlids(self, host: int, vport: int = 1) -> Mapping[bytes, int]:
        """Return the destinations in the MAC table of a vport of h`host`."""
        return self.vnics[f"h{host}:1"].adapters[VportNum(vport)].mac_table.dlids

    def sets(self) -> int:
        """Return how many Sets all agents have taken."""
        return sum(vnic.agent.counters.sets for vnic in self.vnics.values())


def config(members: Sequence[str] | str = "all", **extra: Any) -> EmConfig:
    """Return a configuration with one virtual switch, 2 "blue"."""
    vesw = {"id": 2, "name": "blue", "pkey": PKEY, "members": members, **extra.pop("vesw", {})}
    return parse_config({"mac": "learn", "vesws": [vesw], **extra})


async def converged(fabric: EmFabric, em: EthernetService, timeout_s: float = 120.0) -> None:
    """Wait until the EM has nothing left to do, and hold what agents have against what they are to have."""
    assert await em.wait_converged(timeout_s)
    assert [str(difference) for difference in await em.verify()] == []
    assert fabric.fabric.balance() == {}


@asynccontextmanager
async def managed(
    hosts: int, wanted: EmConfig | None = None
) -> AsyncIterator[tuple[EmFabric, EthernetService]]:
    """A fabric and an EM that has converged on it; without a configuration that of `config()`."""
    fabric = EmFabric(hosts)
    em = fabric.em()
    em.start(config() if wanted is None else wanted)
    await converged(fabric, em)
    yield fabric, em
    em.stop()
