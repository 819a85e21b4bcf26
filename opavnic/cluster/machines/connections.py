"""One connection to each other machine that is present, made again whenever it ends.

A machine learns of the others by the transport, and one of the two calls the other. Both first say who they are,
for which process of the other they take it, and how many packets of each link they have received: so both know exactly
what was lost with an earlier connection, and nothing of that can arrive any more.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from opavnic.cluster.errors import ClusterError, MessageError
from opavnic.cluster.machines.gate import Gate
from opavnic.cluster.protocol.frames import LENGTH_SIZE, Greeting, length_of
from opavnic.cluster.protocol.transport import CallStream, NodeName
from opavnic.cluster.zenoh.calls import SocketCall
from opavnic.cluster.zenoh.credentials import name_in
from opavnic.cluster.zenoh.transport import ZenohTransport

log = logging.getLogger("opavnic.cluster")

AGAIN_S: Final = 0.2
"""Delay before a machine that could not be reached is called again: it may see this one a little later."""
MEET_S: Final = 5.0
"""Time limit for the first words over a connection."""
MAX_MEETING: Final = 64
"""MachineConnections at a time over which nothing has been said yet."""


class MachineConnections:
    """See the module."""

    def __init__(
        self, transport: ZenohTransport, gate: Gate, links: Mapping[NodeName, Sequence[str]]
    ) -> None:
        """Args:  links: the names of the links to each machine, in the order of their numbers."""
        self.refused: Counter[str] = Counter()
        """MachineConnections that were refused, by reason."""
        self.on_counted: Callable[[NodeName, Sequence[int] | None], None] = lambda peer, received: None
        """(machine, of each link how many packets it has received, if it has just said so): nothing is in transit."""
        self._transport = transport
        self._gate = gate
        self._links = {
            peer: hashlib.sha256("\n".join(names).encode()).hexdigest()[:16] for peer, names in links.items()
        }
        self._lives: dict[NodeName, int] = {}
        """The process of each machine that is present."""
        self._connected: set[NodeName] = set()
        self._callers: dict[NodeName, asyncio.Task[None]] = {}
        self._ended: dict[NodeName, asyncio.Event] = {peer: asyncio.Event() for peer in links}
        self._meeting: dict[NodeName, asyncio.Lock] = {peer: asyncio.Lock() for peer in links}
        self._answers: set[asyncio.Task[None]] = set()
        gate.on_ended = self._has_ended
        transport.on_call = self._called

    def is_connected(self, peer: NodeName) -> bool:
        """Return whether packets go to and from a machine now."""
        return peer in self._connected

    def joined(self, peer: NodeName, life: int, *, calls: bool) -> None:
        """Connect to a machine, or wait for its call. Args: calls: whether this machine is the one that calls."""
        if peer not in self._links:
            return
        self._lives[peer] = life
        if calls and peer not in self._callers:
            self._callers[peer] = asyncio.get_running_loop().create_task(self._keep_calling(peer))

    def gone(self, peer: NodeName) -> None:
        """End the connection to a machine that has left."""
        if self._lives.pop(peer, None) is None:
            return
        caller = self._callers.pop(peer, None)
        if caller is not None:
            caller.cancel()
        self._gate.disconnect(peer)
        self._has_ended(peer)

    async def close(self) -> None:
        """End all connections."""
        self._transport.on_call = lambda call: call.close()
        callers = list(self._callers.values())
        for peer in list(self._lives):
            self.gone(peer)
        for answer in self._answers:
            answer.cancel()
        await asyncio.gather(*callers, *self._answers, return_exceptions=True)

    def _has_ended(self, peer: NodeName) -> None:
        self._connected.discard(peer)
        self._ended[peer].set()
        self.on_counted(peer, None)

    # --- calling -------------------------------------------------------------------------------------------

    async def _keep_calling(self, peer: NodeName) -> None:
        while True:
            try:
                call = await self._transport.call(peer)
                await self._meet(call, peer)
            except (ClusterError, OSError, EOFError) as error:
                log.info("no connection to %s: %s", peer, error or type(error).__name__)
                await asyncio.sleep(AGAIN_S)
            else:
                await self._ended[peer].wait()

    async def _meet(self, call: SocketCall, peer: NodeName) -> None:
        stream: CallStream | None = None
        try:
            async with asyncio.timeout(MEET_S):
                stream = await self._gate.open(call)
                await stream.write(self._greeting(peer).build())
                greeting = await _heard(stream)
            self._check(stream, greeting, peer)
            self._connect(peer, stream, greeting)
        except BaseException:
            (stream or call).close()
            raise

    # --- being called --------------------------------------------------------------------------------------

    def _called(self, call: SocketCall) -> None:
        if len(self._answers) >= MAX_MEETING:
            self.refused["calls"] += 1
            call.close()
            return
        task = asyncio.get_running_loop().create_task(self._answer(call))
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)

    async def _answer(self, call: SocketCall) -> None:
        stream: CallStream | None = None
        try:
            async with asyncio.timeout(MEET_S):
                stream = await self._gate.open(call)
                greeting = await _heard(stream)
                peer = NodeName(greeting.sender)
                self._check(stream, greeting, peer)
                async with self._meeting[peer]:
                    self._gate.disconnect(peer)
                    self._has_ended(peer)
                    await stream.write(self._greeting(peer).build())
                    self._check(stream, greeting, peer)  # it may have left meanwhile
                    self._connect(peer, stream, greeting)
        except (ClusterError, OSError, EOFError) as error:
            self.refused["calls"] += 1
            log.info("a call was refused: %s", error or type(error).__name__)
            (stream or call).close()
        except BaseException:
            (stream or call).close()
            raise

    # --- both ----------------------------------------------------------------------------------------------

    def _greeting(self, peer: NodeName) -> Greeting:
        return Greeting(
            self._transport.fabric,
            self._transport.name,
            peer,
            self._transport.life,
            self._lives.get(peer, 0),
            self._links[peer],
            tuple(crossed.received for crossed in self._gate.crossed(peer)),
        )

    def _check(self, stream: CallStream, greeting: Greeting, peer: NodeName) -> None:
        """Raises MessageError: the other end is not the process of the machine that is present here."""
        own = self._greeting(peer) if peer in self._links else None
        if own is None or greeting.sender != peer or peer not in self._lives:
            raise MessageError("sender", f"{greeting.sender} is not a machine that is present")
        if stream.certificate is not None and (name := name_in(stream.certificate)) != peer:
            raise MessageError("sender", f"{greeting.sender} has a certificate of {name}")
        if (greeting.fabric, greeting.receiver, greeting.sender_life, greeting.receiver_life, greeting.links) != (
            own.fabric, own.sender, own.receiver_life, own.sender_life, own.links
        ):  # fmt: skip
            raise MessageError("greeting", f"{peer} means another process, or another lab")
        sent = [crossed.sent for crossed in self._gate.crossed(peer)]
        if len(greeting.received) != len(sent) or not all(
            0 <= there <= here for there, here in zip(greeting.received, sent, strict=True)
        ):
            raise MessageError("received", f"{peer} says that it has received more than was sent")

    def _connect(self, peer: NodeName, stream: CallStream, greeting: Greeting) -> None:
        self._ended[peer].clear()
        self.on_counted(peer, greeting.received)
        self._gate.connect(peer, stream, greeting.received)
        self._connected.add(peer)


async def _heard(stream: CallStream) -> Greeting:
    return Greeting.parse(await stream.read(length_of(await stream.read(LENGTH_SIZE))))
