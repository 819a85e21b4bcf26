"""The native datapath of a world, where one carries its frames."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from opavnic.datapath.native import NativeDatapath
from opavnic.world.part import RunningPart
from opavnic.world.world import World


@contextlib.asynccontextmanager
async def native_datapath(
    world: World, *, icrc: bool, on_failure: Callable[[str], None]
) -> AsyncIterator[RunningPart]:
    """Have a native datapath carry the packets of a world, as far as it can.

    Args:    icrc: compute and check ICRCs on the links inside the process. on_failure: told once, when it has died.
    Raises:  DatapathUnavailableError: it is not built.
    """
    loop = asyncio.get_running_loop()
    native = NativeDatapath(world.fabric, world.vnic_ports, loop, on_failure=on_failure, icrc=icrc)
    with contextlib.ExitStack() as ends:
        ends.callback(native.close)
        world.carrier = native
        world.faults.on_change = native.changed
        ends.callback(world.on_crash(lambda _host: native.refresh()))  # it holds TAPs open as well
        yield RunningPart()
