"""The gate between an engine and the cluster's messages: packets leave for other machines and arrive from them here.

Packets that have left the engine wait here, by direction and service channel, until they are taken. With an engine
driven by Python, each packet is a Python object. A lab with native threads has a native gate, whose packets Python
never handles one by one (native/tap/src/departures.rs); both behave alike.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from hfi_sim.engine.crossing import TAG_SIZE
from hfi_sim.engine.events.outputs import BufferToken, Departed, DirectionId
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.wire.lrh16b import sc_of
from opavnic.cluster.protocol.messages import Body, Packets, Taken
from opavnic.cluster.protocol.transport import NodeName
from opavnic.engine.native import NativeEngine

if TYPE_CHECKING:
    from opavnic import _native

MOST_BYTES: Final = 8 << 20
"""Bytes of one direction that may wait; packets beyond are dropped (net_overflow), except on links with
credits, where the credits bound the backlog.
"""


class Counts(NamedTuple):
    """Counters of packets that reached the end of a direction."""

    packets: int = 0
    bytes: int = 0
    overflows: int = 0
    """Dropped for lack of room."""
    forgotten: int = 0
    """Lost while waiting for a machine that left."""
    waiting: int = 0


DirectionsToPeers = Mapping[NodeName, Sequence[DirectionId]]
"""The directions that end at each machine."""


class Gate(Protocol):
    """What `Boundary` needs of a gate; see the module."""

    is_threaded: bool
    """Whether packets are offered in one thread per machine; `take`, `arrive` and `wake` then run in any thread."""

    def start(self, offer: Callable[[NodeName], None]) -> None:
        """Start calling `offer` with a machine when packets begin to wait for it, and after `wake`."""

    async def stop(self) -> None:
        """Stop calling `offer`; waits for a running call to return."""

    def wake(self, peer: NodeName) -> None:
        """Have `offer` called for a machine soon."""

    def waiting(self, peer: NodeName) -> list[tuple[DirectionId, int]]:
        """Return the directions to a machine and the service channels on which packets wait."""

    def take(self, direction: DirectionId, sc: int, head: bytes, packets: int, size: int) -> Taken | None:
        """Take packets of a service channel, in order: see `messages.Take`."""

    def arrive(self, direction: DirectionId, body: Body) -> None:
        """Let packets that arrived from another machine enter a direction that begins there."""

    def forget(self, direction: DirectionId) -> None:
        """Drop what waits in a direction, as lost."""

    def counts(self, direction: DirectionId) -> Counts:
        """Return the counters of a direction."""


def gate_of(fabric: Fabric, directions: DirectionsToPeers, loop: asyncio.AbstractEventLoop) -> Gate:
    """Return the gate of a fabric's engine."""
    engine = fabric.driver.engine
    native = engine.open_gate(list(directions.values())) if isinstance(engine, NativeEngine) else None
    return (
        PythonGate(fabric, directions, loop)
        if native is None
        else NativeGate(fabric, list(directions), native)
    )


class _Outgoing:
    """Packets that wait to leave in one direction."""

    def __init__(self) -> None:
        self.lanes: dict[int, Packets] = {}
        self.tokens: dict[int, list[BufferToken]] = {}
        """One for each packet on a link with credits; otherwise empty."""
        self.waiting_bytes = 0
        self.counts = Counts()

    def add(self, **more: int) -> None:
        self.counts = self.counts._replace(
            **{name: getattr(self.counts, name) + count for name, count in more.items()}
        )


class PythonGate:
    """The gate of an engine driven by Python: the readable reference."""

    is_threaded = False

    def __init__(
        self, fabric: Fabric, directions: DirectionsToPeers, loop: asyncio.AbstractEventLoop
    ) -> None:
        """Collect what leaves the fabric from now on."""
        self._fabric = fabric
        self._loop = loop
        self._outgoing: dict[DirectionId, _Outgoing] = {}
        self._directions = directions
        self._peers = {direction: peer for peer, leaving in directions.items() for direction in leaving}
        self._offer: Callable[[NodeName], None] = lambda _: None
        self._awake: set[NodeName] = set()
        fabric.on_departed = self._departed

    def start(self, offer: Callable[[NodeName], None]) -> None:
        """See Gate."""
        self._offer = offer

    async def stop(self) -> None:
        """See Gate."""
        self._offer = lambda _: None

    def wake(self, peer: NodeName) -> None:
        """See Gate."""
        if peer not in self._awake:
            self._awake.add(peer)
            self._loop.call_soon(self._run, peer)

    def _run(self, peer: NodeName) -> None:
        self._awake.discard(peer)
        self._offer(peer)

    def _departed(self, departed: Departed) -> None:
        end = self._outgoing.setdefault(departed.direction, _Outgoing())
        size = len(departed.record) - TAG_SIZE
        end.add(packets=1, bytes=size)
        if departed.token is None and end.waiting_bytes + size > MOST_BYTES:
            end.add(overflows=1)
            return
        end.add(waiting=1)
        end.waiting_bytes += size
        sc = sc_of(departed.record)
        end.lanes.setdefault(sc, Packets()).append(departed.record)
        if departed.token is not None:
            end.tokens.setdefault(sc, []).append(departed.token)
        self.wake(self._peers[departed.direction])

    def waiting(self, peer: NodeName) -> list[tuple[DirectionId, int]]:
        """See Gate."""
        queues = [(direction, self._outgoing.get(direction)) for direction in self._directions[peer]]
        return [
            (direction, sc)
            for direction, end in queues
            if end is not None
            for sc, lane in end.lanes.items()
            if lane
        ]

    def take(self, direction: DirectionId, sc: int, head: bytes, packets: int, size: int) -> Taken | None:
        """See Gate."""
        end = self._outgoing.get(direction)
        taken = None if end is None or sc not in end.lanes else end.lanes[sc].take(head, packets, size)
        if taken is None or end is None:
            return None
        _, count, taken_size = taken
        end.add(waiting=-count)
        end.waiting_bytes -= taken_size - TAG_SIZE * count
        if tokens := end.tokens.get(sc):
            self._release(tokens[:count])
            del tokens[:count]
        return taken

    def arrive(self, direction: DirectionId, body: Body) -> None:
        """See Gate."""
        driver = self._fabric.driver
        driver.engine.arrive(driver.now, direction, body.packets)
        driver.run()

    def forget(self, direction: DirectionId) -> None:
        """See Gate."""
        end = self._outgoing.get(direction)
        if end is not None:
            end.add(forgotten=end.counts.waiting, waiting=-end.counts.waiting)
            end.lanes.clear()
            end.waiting_bytes = 0
            tokens, end.tokens = end.tokens, {}
            for lane in tokens.values():
                self._release(lane)

    def counts(self, direction: DirectionId) -> Counts:
        """See Gate."""
        end = self._outgoing.get(direction)
        return Counts() if end is None else end.counts

    def _release(self, tokens: list[BufferToken]) -> None:
        driver = self._fabric.driver
        for token in tokens:
            driver.engine.release(driver.now, token)
        driver.run_soon()


class NativeGate:
    """The gate of an engine driven by native threads, with one thread for each machine that offers what leaves.

    A slow machine blocks only its own thread.
    """

    is_threaded = True

    def __init__(self, fabric: Fabric, peers: Sequence[NodeName], gate: _native.Gate) -> None:
        """Use the open gate of a carrier. Args: peers: the peer of each taker of the gate, in order."""
        self._fabric = fabric
        self._gate = gate
        self._takers = {peer: taker for taker, peer in enumerate(peers)}
        self._is_stopped = False
        self._threads: list[threading.Thread] = []

    def start(self, offer: Callable[[NodeName], None]) -> None:
        """See Gate."""
        for peer in self._takers:
            thread = threading.Thread(
                target=self._run, args=(offer, peer), name=f"gate to {peer}", daemon=True
            )
            thread.start()
            self._threads.append(thread)

    def _run(self, offer: Callable[[NodeName], None], peer: NodeName) -> None:
        taker = self._takers[peer]
        while not self._is_stopped:
            self._gate.wait(taker)
            offer(peer)

    async def stop(self) -> None:
        """See Gate."""
        self._is_stopped = True
        for peer in self._takers:
            self.wake(peer)
        while self._threads:
            await asyncio.to_thread(self._threads.pop().join)

    def wake(self, peer: NodeName) -> None:
        """See Gate."""
        self._gate.wake(self._takers[peer])

    def waiting(self, peer: NodeName) -> list[tuple[DirectionId, int]]:
        """See Gate."""
        return [(DirectionId(direction), sc) for direction, sc in self._gate.waiting(self._takers[peer])]

    def take(self, direction: DirectionId, sc: int, head: bytes, packets: int, size: int) -> Taken | None:
        """See Gate."""
        return self._gate.take(self._fabric.driver.now, (direction, sc), head, packets, size)

    def arrive(self, direction: DirectionId, body: Body) -> None:
        """See Gate."""
        self._gate.arrive(self._fabric.driver.now, direction, body.message, body.begin)

    def forget(self, direction: DirectionId) -> None:
        """See Gate."""
        self._gate.forget(self._fabric.driver.now, direction)

    def counts(self, direction: DirectionId) -> Counts:
        """See Gate."""
        return Counts(*self._gate.counts(direction))
