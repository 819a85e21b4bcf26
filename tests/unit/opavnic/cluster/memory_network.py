"""A transport inside one process, on the clock of its event loop: the machines of a cluster in a test.

net = MemoryNetwork(loop, latency_s=1e-4)
alpha, beta = net.transport("alpha", is_coordinator=True), net.transport("beta")
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from hfi_sim.base.errors import HfiSimError
from opavnic.cluster.errors import AskError
from opavnic.cluster.protocol.messages import MAX_TRAIN, Body, Take
from opavnic.cluster.protocol.transport import LinkReport, NodeName, NodeState, Presence

WINDOW: Final = 256
"""Packets of one direction that may be in transit."""


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


@dataclass(slots=True)
class _Bound:
    peer: NodeName
    direction: int
    report: LinkReport
    blocked: bool = False
    paused: bool = False
    """Whether the peer has stopped acknowledging."""
    owed: int = 0
    """Packets to acknowledge when it resumes."""
    era: int = field(default=0)


class MemoryTransport:
    """The transport of one machine."""

    def __init__(self, net: MemoryNetwork, name: NodeName, is_coordinator: bool) -> None:
        self.is_threaded = False
        self.on_train: Callable[[str, int, Body], None] = lambda _link, _direction, _body: None
        self.on_room: Callable[[str, int], None] = lambda _link, _direction: None
        self.on_lost: Callable[[str, int, int], None] = lambda _link, _direction, _packets: None
        self.on_node: Callable[[NodeName, NodeState], None] = lambda _name, _state: None
        self.serve: Callable[[NodeName, str, dict[str, Any]], Awaitable[dict[str, Any]]] = _nobody
        self._net = net
        self._name = name
        self._is_coordinator = is_coordinator
        self.life = 0
        self._bound: dict[str, _Bound] = {}

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
        if self._net.up.pop(self._name, None) is not None:
            for other in list(self._net.up.values()):
                other.sees(self._name, None)

    def sees(self, name: NodeName, other: MemoryTransport | None) -> None:
        """Note that a machine has joined or left."""
        for link, bound in self._bound.items():
            if bound.peer == name:
                bound.era += 1
                report = bound.report
                bound.report = replace(
                    report, is_open=other is not None, lost=report.lost + report.under_way, under_way=0
                )
                if report.under_way:
                    self.on_lost(link, bound.direction, report.under_way)
                bound.paused, bound.owed = False, 0
                if other is not None and bound.blocked:
                    bound.blocked = False
                    self._net.loop.call_soon(self.on_room, link, bound.direction)
        if other is None:
            self.on_node(name, NodeState(Presence.GONE))
        else:
            self.on_node(
                name, NodeState(Presence.JOINED, is_coordinator=other._is_coordinator, life=other.life)
            )

    def bind(self, link: str, direction: int, peer: NodeName) -> None:
        """Bind a link to a peer."""
        is_open = self._net.joined(self._name, peer)
        self._bound[link] = _Bound(peer, direction, LinkReport(is_open, 0, 0, 0, 0, 0, 0, 0))
        other = self._net.up.get(peer)
        if other is not None and is_open:
            other.heard(link)

    def heard(self, link: str) -> None:
        """Note that the peer has bound its end."""
        bound = self._bound.get(link)
        if bound is not None and bound.blocked:
            bound.blocked = False
            self.on_room(link, bound.direction)

    def unbind(self, link: str) -> None:
        """Take a link out of service."""
        self._bound.pop(link, None)

    def send_train(self, link: str, direction: int, sc: int, take: Take) -> int:
        """Send packets, as many as the window allows."""
        bound = self._bound[link]
        peer = bound.peer
        far = self._net.up.get(peer)
        there = self._net.joined(self._name, peer) and far is not None and link in far._bound
        room = WINDOW - bound.report.under_way
        if far is None or not there or room == 0:
            bound.blocked = True
            return 0
        taken = take(b"", room, MAX_TRAIN)
        if taken is None:
            return 0
        message, count, _ = taken
        report = bound.report
        bound.report = replace(report, sent=report.sent + count, under_way=report.under_way + count)
        bound.blocked = True  # there may be more
        self._net.loop.call_later(
            self._net.latency_s,
            self._arrive,
            far,
            link,
            direction,
            Body.read(message, 0),
            bound.era,
            far.life,
        )
        return count

    def _arrive(
        self, far: MemoryTransport, link: str, direction: int, body: Body, era: int, life: int
    ) -> None:
        bound, there = self._bound.get(link), far._bound.get(link)
        if bound is None or bound.era != era or there is None or far.life != life:
            return  # lost in transit, and counted
        there.report = replace(there.report, received=there.report.received + body.count)
        far.on_train(link, direction, body)
        if bound.paused:
            bound.owed += body.count
        else:
            self._net.loop.call_later(self._net.latency_s, self._acknowledged, link, body.count, era)

    def _acknowledged(self, link: str, packets: int, era: int) -> None:
        bound = self._bound.get(link)
        if bound is None or bound.era != era:
            return
        report = bound.report
        bound.report = replace(
            report,
            acknowledged=report.acknowledged + packets,
            under_way=report.under_way - packets,
        )
        if bound.blocked:
            bound.blocked = False
            self.on_room(link, bound.direction)

    def pause(self, link: str, _direction: int) -> None:
        """Let the sender stop after one window."""
        self._far(link).paused = True

    def resume(self, link: str, _direction: int) -> None:
        """Let the sender go on."""
        bound = self._far(link)
        bound.paused = False
        owed, bound.owed = bound.owed, 0
        if owed:
            sender = self._net.up[self._bound[link].peer]
            self._net.loop.call_later(self._net.latency_s, sender._acknowledged, link, owed, bound.era)

    def _far(self, link: str) -> _Bound:
        return self._net.up[self._bound[link].peer]._bound[link]

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

    def links(self) -> Mapping[str, LinkReport]:
        """Return the counters of each link."""
        return {link: bound.report for link, bound in self._bound.items()}

    def counters(self) -> Mapping[str, int]:
        """Return nothing: every message is accepted."""
        return {}


async def _nobody(_asker: NodeName, verb: str, _body: dict[str, Any]) -> dict[str, Any]:
    raise AskError(f"no handler for {verb}")
