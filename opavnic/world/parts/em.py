"""The Ethernet Manager of a world, at its `em` node; configured at its start and by `opavnic em apply`."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

from aiohttp import web

from hfi_sim.base.core_runner import failure_text
from hfi_sim.fabric.faults.manager import Faults
from hfi_sim.management.sa.session import SaSession
from opavnic.base.errors import OpavnicError
from opavnic.management.em_port import FabricNames, SmTopology, make_em
from opavnic.management.em_service import address_moves, trouble_of
from opavnic.state.em import AddressMoves
from opavnic.world.em_node import EM_NODE, down_text
from opavnic.world.part import RunningPart
from opavnic.world.parts.em_routes import em_routes
from opavnic.world.world import World
from vema.base.errors import VemaError
from vema.em.desired.desired import EmConfig
from vema.em.service.administered_subnet import AdministeredSubnet
from vema.em.service.interfaces import EmSubnet
from vema.em.service.service import EthernetService

log = logging.getLogger("opavnic.world.em")


class BuiltinManager(RunningPart):
    """An Ethernet Manager at work on a world."""

    def __init__(self, em: EthernetService, faults: Faults) -> None:
        self.em = em
        self._faults = faults

    def _held(self) -> list[int]:
        return self._faults.holding(EM_NODE)

    @property
    def trouble(self) -> list[str]:
        """What prevents it from converging: isolated agents, or its own failure."""
        return trouble_of(self.em, lambda: down_text(self._held()))

    @property
    def vesw_names(self) -> dict[int, str]:
        """The names of the virtual switches that it manages, by id."""
        core = self.em.core
        return {} if core is None else {id_: vesw.plan.section.name for id_, vesw in core.vesws.items()}

    @property
    def moves(self) -> list[AddressMoves]:
        """How addresses move between members, of each virtual switch whose addresses it learns."""
        core = self.em.core
        return [] if core is None else address_moves(core)

    def status(self) -> dict[str, Any]:
        if self.em.failure is not None:
            return {"failed": failure_text(self.em.failure)}
        if self.em.core is None:
            return {"down": down_text(self._held())}
        return {"trouble": "; ".join(self.trouble)} if self.em.topology.given else {}

    def routes(self) -> list[web.RouteDef]:
        return em_routes(self.em, self._held)


def _topology(world: World, ends: contextlib.ExitStack) -> EmSubnet:
    """Return the fabric as the EM of a world sees it."""
    if world.managed_by == "builtin":
        return SmTopology(world.subnet_manager, world.em_port, host_of=world.host_of)
    session = SaSession(world.em_port, world.clock)
    ends.callback(session.close)
    return AdministeredSubnet(session, world.em_port, FabricNames(world.fabric.hfi_ports, world.host_of))


def _come_back(em: EthernetService) -> None:
    try:
        em.restart()
    except VemaError as error:
        log.error("the Ethernet Manager does not start again: %s", error)


@contextlib.asynccontextmanager
async def ethernet_manager(world: World, config: EmConfig) -> AsyncIterator[BuiltinManager]:
    """Configure every member of every virtual switch; the VNICs stay as they are when the context is left.

    Raises:  OpavnicError: the manager cannot apply `config`.
    """
    with contextlib.ExitStack() as ends:
        topology = _topology(world, ends)
        em = make_em(
            topology,
            world.em_port,
            clock=world.clock,
            wall_clock=time.time,
            hear_traps=False,
        )
        ends.callback(em.stop)
        ends.callback(world.on_trap(em.trap))
        world.faults.hook(EM_NODE, em.halt, partial(_come_back, em))
        ends.callback(world.faults.unhook, EM_NODE)
        try:
            em.start(config)
        except VemaError as error:
            raise OpavnicError("; ".join(str(error).splitlines())) from error
        yield BuiltinManager(em, world.faults)
