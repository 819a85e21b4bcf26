"""The MAD socket of a world, with which external programs manage its fabric from the EM's node."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from opavnic.management.mad_socket import MadSocketServer
from opavnic.world.part import RunningPart
from opavnic.world.world import World


@contextlib.asynccontextmanager
async def mad_socket(world: World, path: Path | None) -> AsyncIterator[RunningPart]:
    """Pass MADs of programs to the fabric, and traps to programs.

    Args:    path: where to listen; None: do not listen, but receive traps all the same.
    Raises:  OSError: the socket cannot be created.
    """
    port = world.em_port
    server = MadSocketServer(
        port.mad,
        agents=lambda: list(world.agent_lids()),
        whereabouts=lambda: (port.lid, port.sm_lid),
    )
    async with contextlib.AsyncExitStack() as ends:
        ends.callback(world.on_trap(server.trap))
        ends.push_async_callback(server.close)
        if path is not None:
            await server.start(path)
        yield RunningPart()
