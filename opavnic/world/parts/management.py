"""The fabric manager of a fabric without a built-in subnet manager, and what it says.

The tables of its subnet administration are asked for over the wire, as a tool on a host would. The socket of MADs for
programs stands here, too.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from hfi_sim.base.errors import FabricError, MadTimeoutError, WireError
from hfi_sim.base.types import LID_NONE, PortEvent, PortState
from hfi_sim.management.sa.client import status_text, table_of
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.wire.mad.attributes import SaAttrId, SaStatus
from hfi_sim.wire.mad.header import Mad, MadStatus
from hfi_sim.wire.sa.by_attribute import RECORDS
from hfi_sim.wire.sa.message import SaMessage
from hfi_sim.wire.sa.record import SaRecord
from opavnic.management.fm_view import TABLES, fm_view
from opavnic.management.mad_socket import MadSocketServer
from opavnic.state.fm import FmState
from opavnic.world.json_body import json_answer
from opavnic.world.openapi import Api
from opavnic.world.part import RunningPart
from opavnic.world.world import World

AWAITED = "awaited: start one on a host, such as: opavnic exec HOST -- /usr/lib/opa-fm/bin/opafmd -D"


class FabricManagement(RunningPart):
    """Watches the port of the EM, which a fabric manager activates and tells its LID."""

    def __init__(self, world: World, pkeys: Mapping[str, int]) -> None:
        """Args:  pkeys: those of the virtual switches in the lab file, by their names."""
        self._world = world
        self._pkeys = pkeys
        self._asking = asyncio.Lock()
        self._seen: tuple[PortState, int] = (PortState.DOWN, LID_NONE)
        self._since = world.clock.time()
        self._announced = False

    def follow(self, _: PortEvent) -> None:
        """Note when the port changed hands or state."""
        port = self._world.em_port
        if self._seen != (seen := (port.state, port.sm_lid)):
            self._seen, self._since = seen, self._world.clock.time()
            self._announced = self._is_announced(self._master())

    def status(self) -> dict[str, Any]:
        port = self._world.em_port
        if port.sm_lid == LID_NONE:
            return {"state": AWAITED}
        at = self._master()
        return {
            "state": self._state(port.state, at),
            "sm_lid": int(port.sm_lid),
            "host": at,
            "for_s": round(self._world.clock.time() - self._since, 1),
        }

    @Api(
        "GET /fm",
        "What the fabric manager says, beside what is",
        "subnet managers, nodes, ports, links and virtual fabrics; `differs` of each says what contradicts",
        FmState,
    )
    async def _get_view(self, _: web.Request) -> web.Response:
        return await json_answer(await self.view())

    async def view(self) -> FmState:
        """Ask the fabric manager, and return its view beside ours; one question at a time."""
        async with self._asking:
            tables, errors = await ask_tables(self._world.em_port, TABLES)
        view = fm_view(tables, errors, self._world.fabric, self._world.em_port, self._pkeys)
        return FmState(**self.status(), **dict(view))

    def _state(self, em_port: PortState, at: str) -> str:
        if self._announced and not self._is_announced(at):
            return f"gone: the fabric manager on {at} has ended; what it has set stays"
        return "active" if em_port is PortState.ACTIVE else f"the port of the EM is {em_port.name}"

    def _master(self) -> str:
        """Return the host with the LID of the master; empty: it is on none."""
        sm_lid = self._world.em_port.sm_lid
        return next((name for name, host in self._world.hosts.items() if sm_lid in map(_lid, host.ports)), "")

    def _is_announced(self, host: str) -> bool:
        """Say whether a program on a host announces a subnet manager (issmN is open); not every manager does."""
        return bool(host) and any(port.is_sm for port in self._world.hosts[host].ports)


def _lid(port: Any) -> int:
    return int(port.lid)


@contextlib.asynccontextmanager
async def fabric_management(world: World, pkeys: Mapping[str, int]) -> AsyncIterator[FabricManagement]:
    """Follow the fabric manager of a world until the context is left. Args: pkeys: as for FabricManagement."""
    part = FabricManagement(world, pkeys)
    with contextlib.ExitStack() as ends:
        ends.callback(world.em_port.subscribe(part.follow))
        yield part


TIMEOUT_S: Final = 1.0
RETRIES: Final = 2


async def ask_tables(
    port: HfiPort, wanted: Sequence[SaAttrId]
) -> tuple[dict[int, Iterable[Any]], dict[int, str]]:
    """Ask the administration that a port knows for whole tables, all at once.

    Args:    wanted: the attributes of their records.
    Returns: the records by attribute, and for each table that was not given why.
    """
    if port.state is not PortState.ACTIVE or port.sm_lid == LID_NONE:
        why = f"{port.name} is {port.state.name}: no fabric manager has activated it"
        return {}, dict.fromkeys(wanted, why)
    answers = await asyncio.gather(*(_ask(port, attr_id) for attr_id in wanted))
    tables: dict[int, Iterable[Any]] = {}
    errors: dict[int, str] = {}
    for attr_id, mad in zip(wanted, answers, strict=True):
        try:
            tables[attr_id] = _records(mad, RECORDS[attr_id])
        except (FabricError, WireError) as error:
            errors[attr_id] = str(error)
    return tables, errors


async def _ask(port: HfiPort, attr_id: SaAttrId | int) -> Mad | None:
    sl = port.settings.info.master_sm_sl
    request = table_of(attr_id).mad()
    try:
        return await port.mad.request(port.sm_lid, request, timeout_s=TIMEOUT_S, retries=RETRIES, sl=sl)
    except MadTimeoutError:
        return None


def _records(mad: Mad | None, kind: type[SaRecord]) -> list[Any]:
    """Return the records of an answer. Raises: FabricError: there is none, or it refuses. WireError: it is damaged."""
    if mad is None:
        raise FabricError("no answer")
    message = SaMessage.of(mad)
    status = message.header.status
    if status == SaStatus.NO_RECORDS:
        return []
    if status != MadStatus.OK:
        raise FabricError(status_text(status))
    return message.table(kind)


@contextlib.asynccontextmanager
async def mad_socket(world: World, path: Path | None) -> AsyncIterator[RunningPart]:
    """Pass MADs of programs to the fabric, and traps to programs.

    Args:    path: where to listen; None: do not listen, but receive traps all the same.
    Raises:  OSError: the socket cannot be created.
    """
    port = world.em_port
    server = MadSocketServer(
        port.mad,
        agents=lambda: [driver.port.lid for driver in world.drivers.values()],
        whereabouts=lambda: (port.lid, port.sm_lid),
    )
    async with contextlib.AsyncExitStack() as ends:
        ends.callback(world.on_trap(server.trap))
        ends.push_async_callback(server.close)
        if path is not None:
            await server.start(path)
        yield RunningPart()
