"""A transport inside one process, on the clock of its event loop: the machines of a cluster in a test.

net = MemoryNetwork(loop, latency_s=1e-4)
alpha, beta = net.transport("alpha", is_coordinator=True), net.transport("beta")
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Mapping
from typing import Any, cast

from hfi_sim.base.errors import HfiSimError
from opavnic.cluster.errors import PeerRequestError
from opavnic.cluster.protocol.membership import NodeName, NodeState
from opavnic.cluster.zenoh.requests import Verb, reply_to
from opavnic.cluster.zenoh.sockets import PeerSocket, Streams


class MemoryNetwork:
    """The network between transports; `part` cuts the connection of two machines and `heal` restores it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, latency_s: float = 1e-4) -> None:
        """Make a network without machines. Args: latency_s: from one machine to another."""
        self.loop = loop
        self.latency_s = latency_s
        self.up: dict[NodeName, MemoryTransport] = {}
        self.apart: set[frozenset[NodeName]] = set()
        self.epochs = 0

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


class MemorySocket(PeerSocket):
    """One end of a connection, socket and streams in one. What it has sent arrives after the latency of the network."""

    def __init__(self, net: MemoryNetwork, peer: NodeName, is_accepted: bool) -> None:
        with socket.socket() as unused:
            super().__init__(unused, peer, None, is_accepted)
        self.end = MemoryEnd(net)

    @property
    def round_trip_s(self) -> float:
        """The latency of the network, twice."""
        return 2 * self.end.net.latency_s

    async def streams(self) -> Streams:
        """Return its end, twice."""
        return self.end.reader, cast("asyncio.StreamWriter", self.end)

    def close(self) -> None:
        """End both ends."""
        self.end.abort()


class MemoryEnd:
    """What a StreamWriter is to its users, and its transport."""

    def __init__(self, net: MemoryNetwork) -> None:
        self.net = net
        self.reader = asyncio.StreamReader()
        self._is_open = True
        self.far = self
        self.transport = self

    def write(self, data: bytes) -> None:
        """Send bytes."""
        if not self._is_open:
            raise ConnectionResetError
        self.net.loop.call_later(self.net.latency_s, self.far._arrive, data)

    async def drain(self) -> None:
        """Do nothing: all has been taken."""

    def _arrive(self, data: bytes) -> None:
        if self._is_open:
            self.reader.feed_data(data)

    def abort(self) -> None:
        """End both ends; what is in transit is lost."""
        for end in (self, self.far):
            if end._is_open:
                end._is_open = False
                end.reader.feed_eof()


class MemoryTransport:
    """The transport of one machine."""

    def __init__(self, net: MemoryNetwork, name: NodeName, is_coordinator: bool) -> None:
        self.on_node: Callable[[NodeName, NodeState | None], None] = lambda _name, _state: None
        self.verbs: dict[str, Verb] = {}
        self._net = net
        self._name = name
        self._is_coordinator = is_coordinator
        self.epoch = 0
        self.nodes: dict[NodeName, NodeState] = {}
        self._ends: list[MemoryEnd] = []
        self._expected: dict[int, Callable[[PeerSocket], None]] = {}

    @property
    def name(self) -> NodeName:
        """The name of this node."""
        return self._name

    async def start(self) -> None:
        """Join."""
        self._net.epochs += 1
        self.epoch = self._net.epochs
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
        for end in self._ends:
            end.abort()
        if self._net.up.pop(self._name, None) is not None:
            for other in list(self._net.up.values()):
                other.sees(self._name, None)

    def sees(self, name: NodeName, other: MemoryTransport | None) -> None:
        """Note that a machine has joined or left."""
        if other is not None:
            self.nodes[name] = state = NodeState(other.epoch, other._is_coordinator)
            self.on_node(name, state)
        elif self.nodes.pop(name, None) is not None:
            self.on_node(name, None)

    def expect(self, _node: NodeName, accepted: Callable[[PeerSocket], None]) -> dict[str, Any]:
        """Expect a connection of a machine."""
        self._expected[len(self._expected)] = accepted
        return {"ticket": len(self._expected) - 1}

    async def connect(self, node: NodeName, expected: Mapping[str, Any]) -> PeerSocket:
        """Connect to a machine."""
        await asyncio.sleep(self._net.latency_s)
        if not self._net.joined(self._name, node):
            raise PeerRequestError(f"{node} is not present")
        near, far = MemorySocket(self._net, node, False), MemorySocket(self._net, self._name, True)
        near.end.far, far.end.far = far.end, near.end
        self._ends.append(near.end)
        self._net.up[node]._expected[expected["ticket"]](far)
        return near

    async def request(
        self, node: NodeName, verb: str, body: dict[str, Any], *, timeout_s: float = 10.0
    ) -> dict[str, Any]:
        """Send a request to a machine."""
        if not self._net.joined(self._name, node):
            raise PeerRequestError(f"{verb}: {node} is not present")
        await asyncio.sleep(self._net.latency_s)
        other = self._net.up.get(node)
        if other is None:
            raise PeerRequestError(f"{verb}: {node} has left")
        try:
            answer = await asyncio.wait_for(
                reply_to(other.verbs, self._name, verb, json.loads(json.dumps(body))), timeout_s
            )
        except TimeoutError:
            raise PeerRequestError(f"{verb}: {node} did not answer within {timeout_s:g} s") from None
        except HfiSimError as error:
            raise PeerRequestError(f"{node}: {error}") from error
        await asyncio.sleep(self._net.latency_s)
        return dict(json.loads(json.dumps(answer)))
