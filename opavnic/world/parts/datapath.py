"""The native datapath of a world, where one carries its packets."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from opavnic.datapath.native_thread import NativeDatapath
from opavnic.world.part import RunningPart
from opavnic.world.world import World

if TYPE_CHECKING:
    from opavnic import _native


@contextlib.asynccontextmanager
async def native_datapath(
    world: World, carrier: _native.Carrier, *, on_failure: Callable[[str], None], merge_udp: bool
) -> AsyncIterator[RunningPart]:
    """Let the thread of a carrier drive a world, and carry the frames of its VNICs.

    Args:    carrier: the one that the world was made on. on_failure: told once, when the thread has died.
             merge_udp: merge datagrams that hosts receive.
    """
    loop = asyncio.get_running_loop()
    native = NativeDatapath(
        world.fabric, world.vnic_ports, carrier, loop, on_failure=on_failure, merge_udp=merge_udp
    )
    with contextlib.ExitStack() as ends:
        ends.callback(native.close)
        world.carrier = native
        ends.callback(world.on_crash(lambda _host: native.refresh()))  # it holds TAPs open as well
        yield RunningPart()
