"""The control API of each machine, for programs on the others.

Beside its own control socket a lab has one for each other machine (`LabDir.machine_socket`). What a program sends there
goes, byte for byte, over a connection between the two machines to the control socket of the other one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Iterable
from functools import partial
from typing import Any, Final

from opavnic.cluster.errors import ClusterError, PeerRequestError
from opavnic.cluster.machines.directory import MachineDirectory
from opavnic.cluster.protocol.membership import NodeName
from opavnic.cluster.zenoh.sockets import PeerSocket, Streams
from opavnic.cluster.zenoh.tasks import Tasks
from opavnic.lab.ownership.runtime import LabDir

log = logging.getLogger("opavnic.cluster")

_PIECE: Final = 64 << 10
HANDSHAKE_S: Final = 5.0


class ControlTunnels:
    """See the module."""

    def __init__(self, machine: MachineDirectory) -> None:
        self._machine = machine
        self._opening: asyncio.Task[list[asyncio.Server]] | None = None
        self._running = Tasks()
        """Each tunnel, named after the machine at the other end."""
        machine.verbs["control"] = self._requested

    def open(self, machines: Iterable[str]) -> None:
        """Make the sockets of the other machines of the lab."""
        lab = self._machine.share_here()
        others = [NodeName(name) for name in machines if name != self._machine.transport.name]
        if lab.netdev == "tap":  # others have no control API
            self._opening = asyncio.get_running_loop().create_task(self._open(lab.directory, others))

    async def _open(self, directory: LabDir, machines: Iterable[NodeName]) -> list[asyncio.Server]:
        return [
            await asyncio.start_unix_server(partial(self._begin, name), directory.machine_socket(name))
            for name in machines
        ]

    def lost(self, name: NodeName) -> None:
        """End the tunnels to and from a machine that has left."""
        for task in self._running:
            if task.get_name() == name:
                task.cancel()

    async def close(self) -> None:
        """End all tunnels."""
        if self._opening is not None:
            for server in await self._opening:
                server.close()
        await self._running.end()

    # --- to another machine --------------------------------------------------------------------------------

    def _begin(self, name: NodeName, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._running.start(self._forward(name, (reader, writer)), name)

    async def _forward(self, name: NodeName, near: Streams) -> None:
        try:
            begin = await near[0].read(_PIECE)
            try:
                far = await self._connected(name)
            except (ClusterError, OSError) as error:
                near[1].write(_refusal(str(error) or type(error).__name__))
                return
            far[1].write(begin)
            await _join(near, far)
        finally:
            near[1].close()

    async def _connected(self, name: NodeName) -> Streams:
        transport = self._machine.transport
        if name not in self._machine.nodes:
            raise PeerRequestError(f"machine {name} is not present")
        expected = await transport.request(name, "control", {})
        return await _shaken_hands(await transport.connect(name, expected))

    # --- for another machine -------------------------------------------------------------------------------

    async def _requested(self, sender: NodeName, _body: dict[str, Any]) -> dict[str, Any]:
        self._machine.check_trust(sender)

        def accepted(socket: PeerSocket) -> None:
            self._running.start(self._serve(socket), sender)

        return self._machine.transport.expect(sender, accepted)

    async def _serve(self, socket: PeerSocket) -> None:
        try:
            far = await _shaken_hands(socket)
            try:
                near = await asyncio.open_unix_connection(self._machine.share_here().directory.control_socket)
                await _join(near, far)
            finally:
                far[1].close()
        except (ClusterError, OSError) as error:
            log.info("the control API is not there for %s: %s", socket.peer, error or type(error).__name__)


async def _shaken_hands(socket: PeerSocket) -> Streams:
    try:
        async with asyncio.timeout(HANDSHAKE_S):
            return await socket.streams()
    except BaseException:
        socket.close()
        raise


async def _join(near: Streams, far: Streams) -> None:
    """Pass on what comes from either end until one of them has ended."""
    pumps = [asyncio.ensure_future(_pump(*ways)) for ways in ((near[0], far[1]), (far[0], near[1]))]
    try:
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for pump in pumps:
            pump.cancel()
        for _, writer in (near, far):
            writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(_PIECE):
            writer.write(data)
            await writer.drain()


def _refusal(reason: str) -> bytes:
    body = json.dumps({"error": reason}).encode()
    head = f"HTTP/1.1 409 Conflict\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Connection: close\r\n\r\n".encode() + body
