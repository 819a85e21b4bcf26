"""The gate of an engine driven by Python, to other machines: the readable reference of native/cluster."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from hfi_sim.engine.events.outputs import TAG_SIZE, BufferToken, Departed, DirectionId
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.wire.lrh16b import sc_of
from opavnic.cluster.errors import MessageError
from opavnic.cluster.machines.gate import MOST_BYTES, Counts, Crossed, LinksToPeers
from opavnic.cluster.protocol.frames import (
    HEAD_SIZE,
    MANAGEMENT_SC,
    FrameType,
    Head,
    build_packets,
    build_received,
    number_of,
    records_of,
)
from opavnic.cluster.protocol.membership import NodeName
from opavnic.cluster.zenoh.sockets import PeerSocket, Streams

TURN: Final = 64 << 10
"""Bytes of one link and service channel that go in a row while others wait."""
FULL_BYTES: Final = 1 << 20
"""Bytes waiting for credits of the receiver behind a link, on one VL, above which its sender is paused."""
LOOK_AGAIN_S: Final = 1e-3
"""Interval at which a full receiver is checked again: an engine does not announce returned credits to the outside."""
REPORT_S: Final = 0.01
"""How long the number of packets that have arrived waits for more of them."""


Counters = TypeVar("Counters", Counts, Crossed)


def _with_more(counters: Counters, more: Mapping[str, int]) -> Counters:
    return counters._replace(**{name: getattr(counters, name) + count for name, count in more.items()})


@dataclass(slots=True)
class _Outgoing:
    """Packets that wait to leave over a link, by service channel."""

    peer: _Peer
    number: int
    lanes: dict[int, deque[tuple[bytes, BufferToken | None]]] = field(default_factory=dict)
    paused: set[int] = field(default_factory=set)
    waiting_bytes: int = 0
    counts: Counts = field(default_factory=Counts)

    def add(self, **more: int) -> None:
        self.counts = _with_more(self.counts, more)

    def take(self, sc: int) -> list[tuple[bytes, BufferToken | None]]:
        """Take the first packets of a service channel: one turn."""
        lane, taken, size = self.lanes[sc], [], 0
        while lane and size < TURN:
            taken.append(lane.popleft())
            size += len(taken[-1][0]) - TAG_SIZE
        self.waiting_bytes -= size
        self.add(waiting=-len(taken))
        return taken


@dataclass(slots=True)
class _Peer:
    """A machine, and the connection to it while there is one."""

    links: Sequence[tuple[DirectionId, DirectionId]]
    crossed: list[Crossed]
    streams: Streams | None = None
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    ahead: list[bytes] = field(default_factory=list)
    """Frames that go ahead of packets."""
    busy: dict[DirectionId, _Outgoing] = field(default_factory=dict)
    """Where packets wait."""
    unreported: set[int] = field(default_factory=set)
    full: set[tuple[int, int]] = field(default_factory=set)
    """Links and service channels whose sender is paused."""

    def add(self, link: int, **more: int) -> None:
        self.crossed[link] = _with_more(self.crossed[link], more)

    def say(self, frame: bytes) -> None:
        self.ahead.append(frame)
        self.wake.set()


class PythonGate:
    """See the module."""

    def __init__(self, fabric: Fabric, links: LinksToPeers, loop: asyncio.AbstractEventLoop) -> None:
        """Collect what leaves the fabric from now on."""
        self.on_ended: Callable[[NodeName], None] = lambda _: None
        self._fabric = fabric
        self._loop = loop
        self._peers = {peer: _Peer(those, [Crossed() for _ in those]) for peer, those in links.items()}
        self._outgoing = {
            leaves: _Outgoing(peer, number)
            for peer in self._peers.values()
            for number, (leaves, _) in enumerate(peer.links)
        }
        fabric.on_departed = self._departed

    # --- connections ---------------------------------------------------------------------------------------

    async def open(self, socket: PeerSocket) -> Streams:
        """See NativeGate."""
        return await socket.streams()

    def connect(self, peer: NodeName, connection: Streams, reported: Sequence[int]) -> None:
        """See NativeGate."""
        self.disconnect(peer)
        one = self._peers[peer]
        one.crossed = [
            crossed._replace(reported=count) for crossed, count in zip(one.crossed, reported, strict=True)
        ]
        one.ahead.clear()
        one.full.clear()
        for leaves, _ in one.links:
            self._outgoing[leaves].paused.clear()
        one.streams = connection
        one.wake.set()
        work = (self._send(one, connection[1]), self._receive(one, connection[0]))
        one.tasks = [self._loop.create_task(self._until_it_ends(peer, connection, part)) for part in work]

    async def _until_it_ends(
        self, peer: NodeName, streams: Streams, part: Coroutine[None, None, None]
    ) -> None:
        try:
            await part
        except (OSError, EOFError, MessageError):
            self._loop.call_soon(self._ended, peer, streams)

    def _ended(self, peer: NodeName, streams: Streams) -> None:
        if self._peers[peer].streams is streams:
            self.disconnect(peer)
            self.on_ended(peer)

    def disconnect(self, peer: NodeName) -> None:
        """See NativeGate."""
        one = self._peers[peer]
        streams, one.streams = one.streams, None
        if streams is not None:
            streams[1].transport.abort()
        for task in one.tasks:
            task.cancel()
        one.tasks.clear()

    # --- what leaves ---------------------------------------------------------------------------------------

    def _departed(self, departed: Departed) -> None:
        end = self._outgoing[departed.direction]
        size = len(departed.record) - TAG_SIZE
        end.add(packets=1, bytes=size)
        if departed.token is None and end.waiting_bytes + size > MOST_BYTES:
            end.add(overflows=1)
            return
        end.add(waiting=1)
        end.waiting_bytes += size
        end.lanes.setdefault(sc_of(departed.record), deque()).append((departed.record, departed.token))
        end.peer.busy[departed.direction] = end
        end.peer.wake.set()

    async def _send(self, peer: _Peer, writer: asyncio.StreamWriter) -> None:
        """Send what waits: one turn of each link and service channel after the other, management first."""
        while True:
            await peer.wake.wait()
            peer.wake.clear()
            while waiting := self._waiting(peer):
                ahead, peer.ahead = peer.ahead, []
                parts, tokens = ahead, []
                for end, sc in waiting:
                    taken = end.take(sc)
                    peer.add(end.number, sent=len(taken))
                    parts += build_packets(end.number, [record for record, _ in taken])
                    tokens += [token for _, token in taken if token is not None]
                try:
                    writer.write(b"".join(parts))
                    await writer.drain()
                finally:
                    self._release(tokens)
            if peer.ahead:
                ahead, peer.ahead = peer.ahead, []
                writer.write(b"".join(ahead))
                await writer.drain()

    def _waiting(self, peer: _Peer) -> list[tuple[_Outgoing, int]]:
        peer.busy = {leaves: end for leaves, end in peer.busy.items() if any(end.lanes.values())}
        ends = peer.busy.values()
        lanes = [(end, sc) for end in ends for sc, lane in end.lanes.items() if lane and sc not in end.paused]
        return sorted(lanes, key=lambda lane: lane[1] != MANAGEMENT_SC)

    def _release(self, tokens: list[BufferToken]) -> None:
        driver = self._fabric.driver
        for token in tokens:
            driver.engine.release(driver.now, token)
        if tokens:
            driver.run_soon()

    # --- what arrives --------------------------------------------------------------------------------------

    async def _receive(self, peer: _Peer, reader: asyncio.StreamReader) -> None:
        while True:
            head = Head.parse(await reader.readexactly(HEAD_SIZE))
            body = await reader.readexactly(head.body) if head.body else b""
            if head.link >= len(peer.links):
                raise MessageError("link", f"{head.link} of {len(peer.links)}")
            leaves, arrives = peer.links[head.link]
            paused = self._outgoing[leaves].paused
            match head.kind:
                case FrameType.PACKETS:
                    self._arrived(peer, head, arrives, body)
                case FrameType.RECEIVED:
                    crossed, number = peer.crossed[head.link], number_of(body)
                    if number > crossed.sent:
                        raise MessageError("number", f"{number} received, {crossed.sent} sent")
                    peer.crossed[head.link] = crossed._replace(reported=number)
                case FrameType.PAUSE:
                    paused.add(head.sc)
                case FrameType.RESUME:
                    paused.discard(head.sc)
                    peer.wake.set()

    def _arrived(self, peer: _Peer, head: Head, arrives: DirectionId, body: bytes) -> None:
        driver = self._fabric.driver
        driver.engine.arrive(driver.now, arrives, records_of(head, body))
        driver.run()
        peer.add(head.link, received=head.times, received_bytes=head.body)
        if not peer.unreported:
            self._loop.call_later(REPORT_S, self._report, peer)
        peer.unreported.add(head.link)
        lane = head.link, head.sc
        if lane not in peer.full and self._is_full(peer, lane):
            peer.full.add(lane)
            peer.say(Head(FrameType.PAUSE, head.sc, 0, head.link).build())
            self._loop.call_later(LOOK_AGAIN_S, self._look_again, peer, lane)

    def _is_full(self, peer: _Peer, lane: tuple[int, int]) -> bool:
        link, sc = lane
        return self._fabric.driver.engine.waiting_on(peer.links[link][1], sc) > FULL_BYTES

    def _look_again(self, peer: _Peer, lane: tuple[int, int]) -> None:
        if lane not in peer.full:
            return
        if self._is_full(peer, lane):
            self._loop.call_later(LOOK_AGAIN_S, self._look_again, peer, lane)
            return
        peer.full.discard(lane)
        peer.say(Head(FrameType.RESUME, lane[1], 0, lane[0]).build())

    def _report(self, peer: _Peer) -> None:
        unreported, peer.unreported = peer.unreported, set()
        for link in sorted(unreported):
            peer.say(build_received(link, peer.crossed[link].received))

    # --- counters ------------------------------------------------------------------------------------------

    def begin(self, peer: NodeName) -> None:
        """See NativeGate."""
        one = self._peers[peer]
        one.crossed = [Crossed() for _ in one.links]

    def crossed(self, peer: NodeName) -> list[Crossed]:
        """See NativeGate."""
        return self._peers[peer].crossed

    def forget(self, direction: DirectionId) -> None:
        """See NativeGate."""
        end = self._outgoing[direction]
        end.add(forgotten=end.counts.waiting, waiting=-end.counts.waiting)
        end.waiting_bytes = 0
        lanes, end.lanes = end.lanes, {}
        self._release([token for lane in lanes.values() for _, token in lane if token is not None])

    def counts(self, direction: DirectionId) -> Counts:
        """See NativeGate."""
        return self._outgoing[direction].counts
