"""The gate between an engine and other machines: packets leave and arrive by one connection for each pair of machines.

Packets that have left the engine wait here, by direction and service channel, until the connection takes them. A lab
with native threads has a native gate, whose packets Python never handles one by one (native/cluster); with an engine
driven by Python each packet is a Python object (`python_gate`). Both speak the same frames.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Final, NamedTuple

from hfi_sim.engine.events.outputs import DirectionId
from hfi_sim.fabric.fabric import Fabric
from opavnic.cluster.protocol.membership import NodeName
from opavnic.cluster.zenoh.sockets import PeerSocket
from opavnic.datapath.selection import load_native

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


class Crossed(NamedTuple):
    """Packets of a link since the other machine's process began."""

    sent: int = 0
    reported: int = 0
    """Those of them that have arrived, as far as the other machine has said so."""
    received: int = 0
    received_bytes: int = 0


LinksToPeers = Mapping[NodeName, Sequence[tuple[DirectionId, DirectionId]]]
"""The directions of each link to a machine, there and back; its place is its number in frames."""


_threads: Final = ThreadPoolExecutor(8, "handshake")
"""Of their own: handshakes that last keep no other work waiting."""


class NativeGate:
    """The gate of an engine driven by native threads."""

    def __init__(
        self, fabric: Fabric, peers: Sequence[NodeName], gate: _native.Gate, loop: asyncio.AbstractEventLoop
    ) -> None:
        """Use the open gate of a carrier. Args: peers: the machines, in its order."""
        self.on_ended: Callable[[NodeName], None] = lambda _: None
        """The connection to a machine has ended by itself."""
        self._fabric = fabric
        self._gate = gate
        self._loop = loop
        self._numbers = {peer: number for number, peer in enumerate(peers)}

    async def open(self, socket: PeerSocket) -> _native.MachineConnection:
        """Shake hands; return the connection, for `connect`. Raises OSError, ClusterError."""
        own = socket.socket.dup()

        def shake_hands() -> _native.MachineConnection:
            native = load_native()
            assert native is not None  # noqa: S101 - there is a native gate
            with closing(own):
                connection: _native.MachineConnection = native.MachineConnection(own.fileno(), socket.files)
                return connection

        opened = await self._loop.run_in_executor(_threads, shake_hands)
        socket.check(opened.certificate)
        socket.socket.close()
        return opened

    def connect(self, peer: NodeName, connection: _native.MachineConnection, reported: Sequence[int]) -> None:
        """Carry packets over a connection from now on. Args: reported: of each link, how many have arrived."""
        number = self._numbers[peer]
        self._gate.connect(number, connection, reported)
        self._loop.add_reader(self._gate.ended_fd(number), self._ended, peer)

    def _ended(self, peer: NodeName) -> None:
        self.disconnect(peer)
        self.on_ended(peer)

    def disconnect(self, peer: NodeName) -> None:
        """End the connection to a machine, if there is one: nothing more leaves or arrives by it."""
        number = self._numbers[peer]
        self._loop.remove_reader(self._gate.ended_fd(number))
        self._gate.disconnect(number)

    def begin(self, peer: NodeName) -> None:
        """Count from 0 again what goes to and from a machine: it is another process now."""
        self._gate.begin(self._numbers[peer])

    def crossed(self, peer: NodeName) -> list[Crossed]:
        """Return the counters of each link to a machine."""
        return [Crossed(*counts) for counts in self._gate.crossed(self._numbers[peer])]

    def forget(self, direction: DirectionId) -> None:
        """Drop what waits in a direction, as lost."""
        self._gate.forget(self._fabric.driver.now, direction)

    def counts(self, direction: DirectionId) -> Counts:
        """Return the counters of a direction."""
        return Counts(*self._gate.counts(direction))
