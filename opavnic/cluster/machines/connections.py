"""One connection to each other machine that is present, made again whenever it ends.

A machine learns of the others by the transport, and one of the two connects to the other. Over Zenoh both first end the
connection that was, and tell for which process of the other they take it and how many packets of each link they have
received: so both know exactly what was lost with it, and nothing of that can arrive any more.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from opavnic.cluster.errors import ClusterError
from opavnic.cluster.machines.gate import NativeGate
from opavnic.cluster.machines.python_gate import PythonGate
from opavnic.cluster.protocol.membership import NodeName
from opavnic.cluster.zenoh.sockets import PeerSocket
from opavnic.cluster.zenoh.tasks import Tasks
from opavnic.cluster.zenoh.transport import ZenohTransport

log = logging.getLogger("opavnic.cluster")

AGAIN_S: Final = 0.2
"""Delay before the next try: a machine may see this one a little later."""
CONNECT_S: Final = 5.0
"""Time limit for a reply, and for TLS to begin."""


class MachineConnections:
    """See the module."""

    def __init__(
        self,
        transport: ZenohTransport,
        gate: NativeGate | PythonGate,
        links: Mapping[NodeName, Sequence[str]],
    ) -> None:
        """Args:  links: the names of the links to each machine, in the order of their numbers."""
        self.on_new_process: Callable[[NodeName], None]
        """A machine is another process than before, or is there for the first time."""
        self.on_connected: Callable[[NodeName, Sequence[int], float], None]
        """(machine, how many packets of each link it has received, seconds to it): packets are about to pass."""
        self.on_ended: Callable[[NodeName], None]
        """Packets to and from a machine pass no longer."""
        self._transport = transport
        self._gate = gate
        self._links = {
            peer: hashlib.sha256("\n".join(names).encode()).hexdigest()[:16] for peer, names in links.items()
        }
        self._epochs: dict[NodeName, int] = {}
        """The last process of each machine."""
        self._present: set[NodeName] = set()
        self._connected: set[NodeName] = set()
        self._connecting: dict[NodeName, asyncio.Task[None]] = {}
        """To machines that this one connects to."""
        self._tasks = Tasks()
        self._expected: dict[NodeName, Sequence[int]] = {}
        """What the last request of a machine told, of which the connection is to come."""
        self._ended: dict[NodeName, asyncio.Event] = {peer: asyncio.Event() for peer in links}
        gate.on_ended = self._has_ended

    def is_connected(self, peer: NodeName) -> bool:
        """Return whether packets go to and from a machine now."""
        return peer in self._connected

    def joined(self, peer: NodeName, epoch: int, *, connects: bool) -> None:
        """Connect to a machine, or wait until it does. Args: connects: whether this machine is to connect."""
        if peer not in self._links:
            return
        if self._epochs.get(peer) != epoch:
            self._epochs[peer] = epoch
            self.on_new_process(peer)
        self._present.add(peer)
        if connects and peer not in self._connecting:
            self._connecting[peer] = self._tasks.start(self._keep_connected(peer))

    def gone(self, peer: NodeName) -> None:
        """End the connection to a machine that has left."""
        if peer not in self._present:
            return
        self._present.discard(peer)
        self._expected.pop(peer, None)
        if (task := self._connecting.pop(peer, None)) is not None:
            task.cancel()
        self._disconnect(peer)

    async def close(self) -> None:
        """End all connections."""
        for peer in list(self._present):
            self.gone(peer)
        await self._tasks.end()

    def _has_ended(self, peer: NodeName) -> None:
        self._connected.discard(peer)
        self._ended[peer].set()
        self.on_ended(peer)

    def _disconnect(self, peer: NodeName) -> None:
        self._gate.disconnect(peer)
        self._has_ended(peer)

    async def _keep_connected(self, peer: NodeName) -> None:
        while True:
            try:
                self._disconnect(peer)
                reply = await self._transport.request(peer, "connect", self._hello(peer), timeout_s=CONNECT_S)
                received = self._check(peer, reply)
                socket = await self._transport.connect(peer, reply)
                await self._open(peer, socket, received)
            except (ClusterError, OSError) as error:
                log.info("no connection to %s: %s", peer, error or type(error).__name__)
                await asyncio.sleep(AGAIN_S)
            else:
                await self._ended[peer].wait()

    def requested(self, peer: NodeName, body: Mapping[str, Any]) -> dict[str, Any]:
        """Reply to a machine that wants to connect; its connection is to come soon. Raises ClusterError."""
        self._check(peer, body)
        self._disconnect(peer)
        self._expected[peer] = received = self._check(peer, body)

        def accepted(socket: PeerSocket) -> None:
            if self._expected.get(peer) is not received:
                socket.close()
            else:
                self._tasks.start(self._accept(peer, socket, received))

        return self._hello(peer) | self._transport.expect(peer, accepted)

    async def _accept(self, peer: NodeName, socket: PeerSocket, received: Sequence[int]) -> None:
        try:
            await self._open(peer, socket, received)
        except (ClusterError, OSError) as error:
            log.info("a connection of %s was refused: %s", peer, error or type(error).__name__)

    async def _open(self, peer: NodeName, socket: PeerSocket, received: Sequence[int]) -> None:
        """Shake hands, then carry packets. Raises OSError, ClusterError."""
        one_way_s = socket.round_trip_s / 2
        try:
            async with asyncio.timeout(CONNECT_S):
                connection: Any = await self._gate.open(socket)
        except BaseException:
            socket.close()
            raise
        if socket.is_accepted and self._expected.get(peer) is not received:
            raise ClusterError("another request has come meanwhile")
        self._expected.pop(peer, None)
        self._ended[peer].clear()
        self.on_connected(peer, received, one_way_s)
        self._gate.connect(peer, connection, received)
        self._connected.add(peer)

    def _hello(self, peer: NodeName) -> dict[str, Any]:
        return {
            "epochs": [self._transport.epoch, self._epochs[peer]],
            "links": self._links[peer],
            "received": [crossed.received for crossed in self._gate.crossed(peer)],
        }

    def _check(self, peer: NodeName, body: Mapping[str, Any]) -> list[int]:
        """Return how many packets of each link a machine has received.

        Raises:  ClusterError: it is not the process that is present here, or takes this one for another.
        """
        own = self._hello(peer) if peer in self._present else None
        if own is None or body.get("epochs") != own["epochs"][::-1] or body.get("links") != own["links"]:
            raise ClusterError(f"{peer} means another process, or another lab")
        received, sent = body.get("received"), [crossed.sent for crossed in self._gate.crossed(peer)]
        if (
            not isinstance(received, list)
            or [type(count) for count in received] != [int] * len(sent)
            or not all(0 <= there <= here for there, here in zip(received, sent, strict=True))
        ):
            raise ClusterError(f"{peer} says that it has received more than was sent")
        return received
