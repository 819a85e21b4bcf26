"""The Ethernet Manager of a world, at its `em` node; configured at its start and by `opavnic em apply`."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any

from aiohttp import web

from hfi_sim.core_runner import failure_text
from hfi_sim.sa.session import SaSession
from opavnic.em_port import SmTopology, make_em
from opavnic.errors import OpavnicError
from opavnic.sa_topology import SaTopology
from opavnic.world.part import RunningPart
from opavnic.world.parts.em_routes import em_routes, failed_text
from opavnic.world.world import World
from vema.em.desired import EmConfig
from vema.em.service import EthernetService, Topology
from vema.errors import VemaError


class BuiltinManager(RunningPart):
    """An Ethernet Manager at work on a world."""

    def __init__(self, em: EthernetService) -> None:
        self.em = em

    @property
    def trouble(self) -> list[str]:
        """What prevents it from converging: isolated agents, or its own failure."""
        if self.em.failure is not None:
            return [failed_text(self.em.failure)]
        core = self.em.core
        ports = () if core is None else core.ports.values()
        found = [f"{port.facts.name}: {port.isolated}" for port in ports if port.isolated]
        found += [str(problem) for problem in self.em.contradictions()]
        return found + (self.em.topology.trouble if isinstance(self.em.topology, SaTopology) else [])

    @property
    def vesw_names(self) -> dict[int, str]:
        """The names of the virtual switches that it manages, by id."""
        core = self.em.core
        return {} if core is None else {id_: vesw.plan.section.name for id_, vesw in core.vesws.items()}

    def status(self) -> dict[str, Any]:
        if self.em.failure is not None:
            return {"failed": failure_text(self.em.failure)}
        return {"trouble": "; ".join(self.trouble)} if self.em.topology.given else {}

    def routes(self) -> list[web.RouteDef]:
        return em_routes(self.em)


def _topology(world: World, ends: contextlib.ExitStack) -> Topology:
    """Return the fabric as the EM of a world sees it."""
    if world.managed_by == "builtin":
        return SmTopology(world.subnet_manager, world.em_port, host_of=world.host_of)
    session = SaSession(world.em_port, world.clock)
    ends.callback(session.close)
    return SaTopology(session, world.em_port, world.fabric.hfi_ports, world.host_of)


@contextlib.asynccontextmanager
async def ethernet_manager(world: World, config: EmConfig) -> AsyncIterator[BuiltinManager]:
    """Configure every member of every virtual switch; the VNICs stay as they are when the context is left.

    Raises:  OpavnicError: the manager cannot apply `config`.
    """
    with contextlib.ExitStack() as ends:
        topology = _topology(world, ends)
        em = make_em(topology, world.em_port, clock=world.clock, wall_clock=time.time, hear_traps=False)
        ends.callback(em.stop)
        ends.callback(world.on_trap(em.trap))
        try:
            em.start(config)
        except VemaError as error:
            raise OpavnicError("; ".join(str(error).splitlines())) from error
        yield BuiltinManager(em)
