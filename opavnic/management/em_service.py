"""The commands of a running Ethernet Manager, in a lab and as a program: what it is asked and told, typed.

They know neither HTTP nor sockets: `opavnic.world.parts.em` carries them in a lab, `opavnic.manager` in a
program.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Final

from hfi_sim.base.core_runner import failure_text
from hfi_sim.base.errors import InputError
from hfi_sim.base.types import mac_text
from opavnic.base.errors import OpavnicError
from opavnic.state.em import (
    AddressMoves,
    CounterReading,
    EmApplied,
    EmEvent,
    EmRestarted,
    EmState,
    EmVerified,
    MacTableRow,
    VeswStatus,
    VportStatus,
)
from vema.base.types import EthLinkStatus
from vema.em.core.core import EmCore
from vema.em.core.reasons import given_pkeys_missing
from vema.em.core.state import ManagedVesw, Port, Vport
from vema.em.desired.desired import EmConfigError
from vema.em.desired.ports import Checked, checked
from vema.em.desired.problems import Problem, gathered
from vema.em.service.administered_subnet import AdministeredSubnet
from vema.em.service.preview import EmSnapshot, preview
from vema.em.service.service import EthernetService

PROBLEMS_SAID: Final = 100
"""Number of mistakes of a configuration that are listed; the rest are only counted."""
APPLY_LIMIT_S: Final = 25.0
"""Seconds after which an apply is answered as unfinished; the manager goes on."""


def failed_text(failure: Exception) -> str:
    """Return a line that says that the manager has failed, and why."""
    return f"the Ethernet Manager has failed ({failure_text(failure)}); the log says where"


def trouble_of(em: EthernetService, down: Callable[[], str]) -> list[str]:
    """Return what prevents a manager from converging. Args: down: returns why it does not run, where it does not."""
    if em.failure is not None:
        return [failed_text(em.failure)]
    core = em.core
    if core is None:
        return [down()]
    found = [f"{port.facts.name}: {port.isolated}" for port in core.ports.values() if port.isolated]
    subnet = em.topology
    if not isinstance(subnet, AdministeredSubnet):
        return found
    missing = given_pkeys_missing(core, subnet.pkeys)
    found += [
        f"the fabric manager has no virtual fabric with P_Key {pkey:#06x} ({', '.join(names)}): "
        "`opavnic fm config` writes settings that have it"
        for pkey, names in missing.items()
    ]
    pkeys = [section.pkey for section in core.config.vesws]
    found += [str(item) for item in em.contradictions() if pkeys[int(item.path[1])] not in missing]
    return found + subnet.trouble


def refusal_of(error: EmConfigError) -> dict[str, Any]:
    """Return the mistakes of a configuration as the control API has them: the first, and the number of the rest."""
    problems = gathered(error.problems)
    said = problems[:PROBLEMS_SAID]
    if more := len(problems) - len(said):
        said.append(Problem((), f"... and {more} more"))
    found = [{"path": problem.path, "message": problem.message} for problem in said]
    return {"error": "\n".join(map(str, said)), "problems": found}


async def _converged_in_time(service: EthernetService) -> bool:
    return await service.wait_converged(APPLY_LIMIT_S)


class EmCommands:
    """What can be asked of one manager.

    Every method raises OpavnicError while it does not run.
    """

    def __init__(
        self,
        service: EthernetService,
        down: Callable[[], str],
        *,
        begin: Callable[[], object] = lambda: None,
        converged: Callable[[EthernetService], Awaitable[bool]] = _converged_in_time,
    ) -> None:
        """Prepare.

        Args:  down: returns why the manager does not run, where it does not. begin: called before the first change.
               converged: waits until the manager has converged, or is given up.
        """
        self.service = service
        self.down = down
        self._begin = begin
        self._converged = converged
        self._one_at_a_time = asyncio.Lock()

    def running(self) -> EmCore:
        """Return the core of the manager."""
        if self.service.core is None:
            raise OpavnicError(self.down())
        if self.service.failure is not None:
            raise OpavnicError(failed_text(self.service.failure))
        return self.service.core

    # --- what it is told -----------------------------------------------------------------------------------

    async def apply(self, data: Any, *, only_say: bool = False) -> EmApplied:
        """Apply a configuration, or only say what it would change.

        Raises:  EmConfigError: it is invalid, or the fabric cannot satisfy it.
        """
        self.running()
        async with self._one_at_a_time:  # a large one takes a second, and memory
            config, changes = await asyncio.to_thread(_judged, data, self.service.picture())
        core = self.running()
        if only_say:
            return EmApplied(changes=changes)
        self._begin()
        sets = core.sets
        self.service.apply(config)
        if converged := await self._converged(self.service):
            await self.service.hosts_ready()
        self.running()  # it may have failed meanwhile
        return EmApplied(changes=changes, sets=core.sets - sets, converged=converged)

    async def restart(self, *, memory: bool = True) -> EmRestarted:
        """Restart it, as if its process were killed. Args: memory: whether its database survives."""
        async with self._one_at_a_time:
            self._begin()
            self.service.restart(memory=memory)
            core = self.running()
            converged = await self._converged(self.service)
        self.running()
        return EmRestarted(sets=core.sets, converged=converged)

    # --- what it is asked ----------------------------------------------------------------------------------

    def state(self) -> EmState:
        """Return how the manager is."""
        core = self.service.core
        reached = [] if core is None else [port for port in core.ports.values() if port.in_service]
        return EmState(
            role=self.service.role.value,
            converged=self.service.converged,
            trouble=trouble_of(self.service, self.down),
            vesws=0 if core is None else len(core.vesws),
            vports=0 if core is None else sum(1 for _ in core.vports()),
            ports=len(reached),
            silent=[port.facts.name for port in reached if port.failures],
            sets=0 if core is None else core.sets,
        )

    async def verify(self) -> EmVerified:
        """Read everything from all agents, and compare."""
        self.running()
        return EmVerified(differences=[str(one) for one in await self.service.verify()])

    def vesws(self) -> Iterator[VeswStatus]:
        """Return the virtual switches as the manager has planned them."""
        return _vesw_rows(self.running())

    def vports(self) -> Iterator[VportStatus]:
        """Return the vports and how far each is configured."""
        return (_vport_row(port, vport) for port, vport in list(self.running().vports()))

    def mac_table(self, vesw_id: int | None) -> Iterator[MacTableRow]:
        """Return the entries of one MAC table, or of all. Raises InputError: no virtual switch has that id."""
        core = self.running()
        shown = dict(core.vesws)
        if vesw_id is not None:
            if vesw_id not in core.vesws:
                known = ", ".join(map(str, sorted(core.vesws))) or "none"
                raise InputError(f"no virtual switch has id {vesw_id} (known: {known})")
            shown = {vesw_id: shown[vesw_id]}
        return _table_rows(core, shown)

    def counters(self, limit: int) -> Iterator[CounterReading]:
        """Return the newest readings of counters, oldest first."""
        core = self.running()
        return (
            CounterReading(
                time=stored.time,
                port=_port_name(core, stored.guid),
                vport_num=stored.vport_num,
                vesw_id=stored.vesw_id,
                **dict(stored.values),  # type: ignore[arg-type]
            )
            for stored in self.service.store.counters(limit=limit)
        )

    def events(self, after: int, limit: int) -> Iterator[EmEvent]:
        """Return the newest events after the one with a number, oldest first."""
        self.running()
        return map(EmEvent.of, self.service.store.events(after=after, limit=limit))


def _judged(data: Any, now: EmSnapshot) -> tuple[Checked, list[str]]:
    """Return the configuration and what it would change; runs in a thread, so that the fabric does not wait.

    Raises:  EmConfigError: it is invalid, or the fabric cannot satisfy it.
    """
    found = checked(data, now.roster)
    return found, preview(found.config, now)


def _port_name(core: EmCore, guid: int) -> str:
    port = core.ports.get(guid)
    return f"{guid:#018x}" if port is None else port.facts.name


def _vesw_rows(core: EmCore) -> Iterator[VeswStatus]:
    for vesw in list(core.vesws.values()):
        section = vesw.plan.section
        yield VeswStatus(
            id=section.id,
            pkey=section.pkey,
            mtu=section.mtu,
            mac=core.config.policy(section),
            multicast_lid=vesw.plan.mlid,
            members=[port.name for port in vesw.plan.members],
            default_lids=list(vesw.plan.default_lids),
            addresses=len(vesw.entries()),
            left_out=[mac_text(mac) for mac in vesw.table.left_out] if vesw.plan.learns else [],
            **_moves(vesw),
        )


def _moves(vesw: ManagedVesw) -> dict[str, Any]:
    movement = vesw.table.movement
    return {
        "name": vesw.plan.section.name,
        "moves": movement.total,
        "holds": movement.holds,
        "held": [mac_text(mac) for mac in movement.held],
    }


def address_moves(core: EmCore) -> list[AddressMoves]:
    """Return how addresses move, of each virtual switch whose addresses are learned."""
    return [AddressMoves(**_moves(vesw)) for vesw in core.vesws.values() if vesw.plan.learns]


def _vport_row(port: Port, vport: Vport) -> VportStatus:
    info = vport.info
    return VportStatus(
        port=port.facts.name,
        lid=port.facts.lid,
        vport_num=vport.num,
        vesw_id=vport.vesw_id,
        state=_state(port, vport),
        link="up" if info is not None and info.eth_link_status == EthLinkStatus.UP else "down",
        base_mac=mac_text(vport.base_mac),
        unicast=[mac_text(mac) for mac in vport.unicast.macs],
        multicast=[mac_text(mac) for mac in vport.multicast.macs],
        digest=vport.digest,
    )


def _state(port: Port, vport: Vport) -> str:
    if port.isolated:
        return f"isolated: {port.isolated}"
    if not port.in_service:
        return "away"
    if port.failures:
        return "silent"
    return "ok" if vport.done else "in progress"


def _table_rows(core: EmCore, vesws: Mapping[int, ManagedVesw]) -> Iterator[MacTableRow]:
    for vesw_id, vesw in vesws.items():
        for slot, mac, lid, owner in vesw.entries():
            yield MacTableRow(
                vesw_id=vesw_id,
                slot=slot,
                mac=mac_text(mac),
                lid=lid,
                port=_port_name(core, owner) if owner else "",
            )
