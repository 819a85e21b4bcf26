"""A transport inside one process, on the clock of its event loop: the machines of a cluster in a test.

net = MemoryNetwork(loop, latency_s=1e-4)
alpha, beta = net.transport("alpha", is_coordinator=True), net.transport("beta")
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hfi_sim.base.errors import HfiSimError
from opavnic.cluster.errors import AskError
from opavnic.cluster.protocol.transport import CallStream, NodeName, NodeState, Presence
from opavnic.cluster.zenoh.calls import SocketCall


class MemoryNetwork:
    """The network between transports; `part` cuts the connection of two machines and `heal` restores it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, latency_s: float = 1e-4, fabric: int = 1) -> None:
        """Make a network without machines. Args: latency_s: from one machine to another."""
        self.loop = loop
        self.latency_s = latency_s
        self.fabric = fabric
        self.up: dict[NodeName, MemoryTransport] = {}
        self.apart: set[frozenset[NodeName]] = set()
        self.lives = 0

    def transport(self, name: str, *, is_coordinator: bool = False) -> MemoryTransport:
        """Return the transport of a new machine, not started."""
        return MemoryTransport(self, NodeName(name), is_coordinator)

    def joined(self, a: NodeName, b: NodeName) -> bool:
        """Return whether two machines can reach each other."""
        return a in self.up and b in self.up and frozenset((a, b)) not in self.apart

    def part(self, a: str, b: str) -> None:
        """Cut the connection of two machines: each finds that the other has left."""
        self.apart.add(frozenset((NodeName(a), NodeName(b))))
        for one, other in ((a, b), (b, a)):
            self.up[NodeName(one)].sees(NodeName(other), None)

    def heal(self, a: str, b: str) -> None:
        """Restore the connection."""
        self.apart.discard(frozenset((NodeName(a), NodeName(b))))
        for one, other in ((a, b), (b, a)):
            self.up[NodeName(one)].sees(NodeName(other), self.up[NodeName(other)])


@dataclass
class MemoryStream:
    """One end of a connection; it is its own call. What it has sent arrives after the latency of the network."""

    net: MemoryNetwork
    certificate: bytes | None = None

    def __post_init__(self) -> None:
        self._reader = asyncio.StreamReader()
        self._is_open = True
        self.far = self

    @classmethod
    def pair(cls, net: MemoryNetwork) -> tuple[MemoryStream, MemoryStream]:
        one, other = cls(net), cls(net)
        one.far, other.far = other, one
        return one, other

    async def stream(self) -> CallStream:
        """Return itself."""
        return self

    async def read(self, count: int) -> bytes:
        """Return the next bytes."""
        return await self._reader.readexactly(count)

    async def write(self, data: bytes) -> None:
        """Send bytes."""
        if not self._is_open:
            raise ConnectionResetError
        self.net.loop.call_later(self.net.latency_s, self.far._arrive, data)

    def _arrive(self, data: bytes) -> None:
        if self._is_open:
            self._reader.feed_data(data)

    def close(self) -> None:
        """End both ends; what is in transit is lost."""
        for end in (self, self.far):
            if end._is_open:
                end._is_open = False
                end._reader.feed_eof()


class MemoryTransport:
    """The transport of one machine."""

    def __init__(self, net: MemoryNetwork, name: NodeName, is_coordinator: bool) -> None:
        self.on_call: Callable[[SocketCall], None] = lambda call: call.close()
        self.on_node: Callable[[NodeName, NodeState], None] = lambda _name, _state: None
        self.serve: Callable[[NodeName, str, dict[str, Any]], Awaitable[dict[str, Any]]] = _nobody
        self._net = net
        self._name = name
        self._is_coordinator = is_coordinator
        self.life = 0
        self._streams: list[MemoryStream] = []

    @property
    def name(self) -> NodeName:
        """The name of this node."""
        return self._name

    @property
    def fabric(self) -> int:
        """The fabric's id."""
        return self._net.fabric

    async def start(self) -> None:
        """Join."""
        self._net.lives += 1
        self.life = self._net.lives
        others = list(self._net.up.values())
        self._net.up[self._name] = self
        for other in others:
            if self._net.joined(self._name, other.name):
                other.sees(self._name, self)
                self.sees(other.name, other)

    async def stop(self) -> None:
        """Leave."""
        self.kill()

    def kill(self) -> None:
        """Disappear, as a process that was killed."""
        for stream in self._streams:
            stream.close()
        if self._net.up.pop(self._name, None) is not None:
            for other in list(self._net.up.values()):
                other.sees(self._name, None)

    def sees(self, name: NodeName, other: MemoryTransport | None) -> None:
        """Note that a machine has joined or left."""
        if other is None:
            self.on_node(name, NodeState(Presence.GONE))
        else:
            self.on_node(
                name, NodeState(Presence.JOINED, is_coordinator=other._is_coordinator, life=other.life)
            )

    async def call(self, node: NodeName) -> SocketCall:
        """Connect to a machine."""
        await asyncio.sleep(self._net.latency_s)
        if not self._net.joined(self._name, node):
            raise AskError(f"{node} is not present")
        near, far = MemoryStream.pair(self._net)
        self._streams.append(near)
        self._net.up[node].on_call(far)
        return near

    async def ask(
        self, node: NodeName, verb: str, body: dict[str, Any], *, timeout_s: float = 10.0
    ) -> dict[str, Any]:
        """Send a request to a machine."""
        if not self._net.joined(self._name, node):
            raise AskError(f"{verb}: {node} is not present")
        await asyncio.sleep(self._net.latency_s)
        other = self._net.up.get(node)
        if other is None:
            raise AskError(f"{verb}: {node} has left")
        try:
            answer = await asyncio.wait_for(
                other.serve(self._name, verb, json.loads(json.dumps(body))), timeout_s
            )
        except TimeoutError:
            raise AskError(f"{verb}: {node} did not answer within {timeout_s:g} s") from None
        except HfiSimError as error:
            raise AskError(f"{node}: {error}") from error
        await asyncio.sleep(self._net.latency_s)
        return dict(json.loads(json.dumps(answer)))

    def counters(self) -> Mapping[str, int]:
        """Return nothing: every message is accepted."""
        return {}


async def _nobody(_asker: NodeName, verb: str, _body: dict[str, Any]) -> dict[str, Any]:
    raise AskError(f"no handler for {verb}")
