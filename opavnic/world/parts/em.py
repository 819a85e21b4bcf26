"""The Ethernet Manager of a world, at its `em` node; configured at its start and by `opavnic em apply`."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any

from aiohttp import web

from hfi_sim.core_runner import failure_text
from opavnic.em_port import SmTopology, make_em
from opavnic.errors import OpavnicError
from opavnic.world.part import RunningPart
from opavnic.world.parts.em_routes import em_routes, failed_text
from opavnic.world.world import World
from vema.em.desired import EmConfig
from vema.em.service import EthernetService
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
        return [f"{port.facts.name}: {port.isolated}" for port in ports if port.isolated]

    @property
    def vesw_names(self) -> dict[int, str]:
        """The names of the virtual switches that it manages, by id."""
        core = self.em.core
        return {} if core is None else {id_: vesw.plan.section.name for id_, vesw in core.vesws.items()}

    def status(self) -> dict[str, Any]:
        return {} if self.em.failure is None else {"failed": failure_text(self.em.failure)}

    def routes(self) -> list[web.RouteDef]:
        return em_routes(self.em)


@contextlib.asynccontextmanager
async def ethernet_manager(world: World, config: EmConfig) -> AsyncIterator[BuiltinManager]:
    """Configure every member of every virtual switch; the VNICs stay as they are when the context is left.

    Raises:  OpavnicError: the manager cannot apply `config`.
    """
    topology = SmTopology(world.subnet_manager, world.em_port, host_of=world.host_of)
    em = make_em(topology, world.em_port, clock=world.clock, wall_clock=time.time, hear_traps=False)
    with contextlib.ExitStack() as ends:
        ends.callback(em.stop)
        ends.callback(world.on_trap(em.trap))
        try:
            em.start(config)
        except VemaError as error:
            raise OpavnicError("; ".join(str(error).splitlines())) from error
        yield BuiltinManager(em)
