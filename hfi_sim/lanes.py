"""Virtual lanes with credits: a link direction that loses nothing, because a full receiver stops its sender.

Each VL of a direction has a buffer at the receiving end. A packet goes on the wire only when that buffer has room
(credit). The room is free again when the packet has left the receiver: a switch has put every copy of it on the
next wire, or an HFI has passed it to its host. So a host that reads nothing fills its port's buffer, then the
switch's, and so on back to the sender, on that VL alone.

If a link has several VLs, packets wait for the wire at its near end, and the arbiter (`hfi_sim.arbiter`) selects the
next one: high priority first, the others by weight, all equal by default.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hfi_sim.arbiter import Arbiter
from hfi_sim.conveyor import Hold
from hfi_sim.counters import Drop
from hfi_sim.errors import FabricError
from hfi_sim.wire.lrh16b import sc_of, with_fecn
from hfi_sim.wire.packet import MAX_PACKET

if TYPE_CHECKING:
    from hfi_sim.link import LinkDirection

SERVICE_CHANNELS: Final = 32
MAX_VLS: Final = 16
MAX_WEIGHT: Final = 255
"""A byte in the tables of a port."""


@dataclass(frozen=True, slots=True)
class FlowControl:
    """How a link with credits is set up, the same in both directions.

    Raises:  FabricError: the number of VLs is not 1 to 16, a buffer cannot hold the longest packet, or a
             service channel is mapped to a VL that does not exist.
    """

    vls: int = 1
    buffer_bytes: int = 64 << 10
    """Buffer of each VL at the receiving end."""
    sc_to_vl: Sequence[int] = ()
    """The VL of each service channel 0 to 31; empty: SC modulo the number of VLs."""
    fecn_bytes: int = 32 << 10
    """A switch marks FECN on what it sends while this much, waiting or in the buffer, is ahead on the VL."""
    weights: Sequence[int] = ()
    """Weight of each VL in sharing the wire, 1 to 255; empty: all equal."""
    high: Sequence[int] = ()
    """VLs with priority over all others."""
    high_limit_bytes: int | None = None
    """After this many bytes of those, one packet of another VL goes first, if any waits; None: never."""

    def __post_init__(self) -> None:
        if not 1 <= self.vls <= MAX_VLS:
            raise FabricError(f"{self.vls} VLs; a link has 1 to {MAX_VLS}")
        if self.buffer_bytes < MAX_PACKET:
            raise FabricError(
                f"a VL buffer of {self.buffer_bytes} bytes cannot hold the longest packet, {MAX_PACKET}"
            )
        if self.sc_to_vl and len(self.sc_to_vl) != SERVICE_CHANNELS:
            raise FabricError(
                f"the SC to VL map has {len(self.sc_to_vl)} entries; there are {SERVICE_CHANNELS} service channels"
            )
        for sc, vl in enumerate(self.sc_to_vl):
            if not 0 <= vl < self.vls:
                raise FabricError(f"the SC to VL map sends SC {sc} to VL {vl}; VLs are 0 to {self.vls - 1}")
        if self.weights and len(self.weights) != self.vls:
            raise FabricError(f"{len(self.weights)} weights for {self.vls} VLs: each VL has one")
        for vl, weight in enumerate(self.weights):
            if not 1 <= weight <= MAX_WEIGHT:
                raise FabricError(f"VL {vl} has the weight {weight}; weights are 1 to {MAX_WEIGHT}")
        for vl in self.high:
            if not 0 <= vl < self.vls:
                raise FabricError(f"VL {vl} has high priority and is not there; VLs are 0 to {self.vls - 1}")
        if self.high_limit_bytes is not None and self.high_limit_bytes < 0:
            raise FabricError(f"the limit of high priority is {self.high_limit_bytes} bytes, below 0")

    def map(self) -> tuple[int, ...]:
        """Return the VL of each service channel."""
        return tuple(self.sc_to_vl) or tuple(sc % self.vls for sc in range(SERVICE_CHANNELS))

    def arbiter(self) -> Arbiter | None:
        """Return the arbiter of the VLs; None if there is only one VL."""
        if self.vls == 1:
            return None
        return Arbiter(self.weights or (1,) * self.vls, self.high, self.high_limit_bytes)


class _BufferSpace:
    """The room that one packet occupies at the receiving end of a direction."""

    __slots__ = ("_holders", "_lanes", "_size", "_vl")

    def __init__(self, lanes: Lanes, vl: int, size: int) -> None:
        self._lanes = lanes
        self._vl = vl
        self._size = size
        self._holders = 1

    def keep(self) -> None:
        self._holders += 1

    def release(self) -> None:
        self._holders -= 1
        if self._holders == 0:
            self._lanes.give_back(self._vl, self._size)


class Lanes:
    """The VLs of one direction of a link: credits, and the packets that wait for them."""

    def __init__(self, direction: LinkDirection, flow: FlowControl) -> None:
        self._direction = direction
        self._flow = flow
        self._vl_of = flow.map()
        self._credits = [flow.buffer_bytes] * flow.vls
        self._queues: list[deque[tuple[bytes, int, float, Hold | None]]] = [deque() for _ in range(flow.vls)]
        self._queued = [0] * flow.vls
        self._stop_bytes = flow.buffer_bytes
        self._stopped = False
        self._arbiter = flow.arbiter()
        self._waking = False
        """A timer is set for when the wire is free."""
        self.fecn_marked = 0
        """Packets marked by this direction."""

    def waiting(self, vl: int) -> int:
        """Return the bytes that wait for credits, or for the wire, on a VL."""
        return self._queued[vl]

    def credits(self, vl: int) -> int:
        """Return the room, in bytes, that a VL has at the receiving end."""
        return self._credits[vl]

    def refusal(self, size: int) -> Drop | None:
        """Refuse a packet of a sender that ignores `tx_congested`; a switch is never refused."""
        if self._direction.source.forwards:
            return None
        if sum(self._queued) + size > self._direction.link.queue_bytes:
            return Drop.LINK_OVERFLOW
        return None

    def enter(self, packet: bytes, hops: int, delay_s: float = 0.0) -> None:
        """Send a packet, now or once there is room for it at the far end."""
        vl = self._vl_of[sc_of(packet)]
        size = len(packet)
        if self._direction.source.forwards and self._ahead(vl) >= self._flow.fecn_bytes:
            packet = with_fecn(packet)
            self.fecn_marked += 1
        if not self._queues[vl] and self._credits[vl] >= size and self._wire_is_for(vl, size):
            self._credits[vl] -= size
            self._direction.launch(packet, hops, delay_s)
            return
        hold = self._direction.link.conveyor.arriving if self._direction.source.forwards else None
        if hold is not None:
            hold.keep()
        self._queues[vl].append((packet, hops, delay_s, hold))
        self._queued[vl] += size
        if self._arbiter is not None:
            self._wake_for_wire()
        if not self._stopped and self._queued[vl] >= self._stop_bytes:
            self._stopped = True
            self._direction.source.tx_congested(True)

    def _wire_is_for(self, vl: int, size: int) -> bool:
        """Claim the wire for a packet; return whether it was free, with no packet ahead."""
        if self._arbiter is None:
            return True
        self._arbiter.woke(vl)
        if self._waking or not self._direction.wire_is_free():
            return False
        self._arbiter.sent(vl, size)
        return True

    def _ahead(self, vl: int) -> int:
        return self._queued[vl] + self._flow.buffer_bytes - self._credits[vl]

    def arrive(self, packet: bytes, hops: int) -> None:
        """Pass a packet to the receiving port; its room stays occupied while the packet is held."""
        space = _BufferSpace(self, self._vl_of[sc_of(packet)], len(packet))
        conveyor = self._direction.link.conveyor
        conveyor.arriving = space
        try:
            self._direction.target.receive(packet, hops)
        finally:
            conveyor.arriving = None
            space.release()

    def lose(self, packet: bytes) -> None:
        """Free the room of a packet that was lost on the wire."""
        self.give_back(self._vl_of[sc_of(packet)], len(packet))

    def give_back(self, vl: int, size: int) -> None:
        """Take a credit back and send packets that waited for it."""
        self._credits[vl] += size
        if self._arbiter is not None:
            if (queue := self._queues[vl]) and self._credits[vl] - size < len(queue[0][0]):
                self._arbiter.woke(vl)
            self._wake_for_wire()
            return
        while self._can_send(vl):
            self._send_next(vl)
        self._wake()

    def _can_send(self, vl: int) -> bool:
        queue = self._queues[vl]
        return bool(queue) and self._credits[vl] >= len(queue[0][0])

    def _send_next(self, vl: int) -> None:
        packet, hops, delay_s, hold = self._queues[vl].popleft()
        self._credits[vl] -= len(packet)
        self._queued[vl] -= len(packet)
        self._direction.launch(packet, hops, delay_s)
        if hold is not None:
            hold.release()

    def _wake_for_wire(self) -> None:
        """Send now, or as soon as the wire is free."""
        if self._waking or not any(map(self._can_send, range(self._flow.vls))):
            return
        if self._direction.wire_is_free():
            self._arbitrate()
        else:
            self._waking = True
            self._direction.link.conveyor.clock.call_at(self._direction.free_at, self._wire_free)

    def _wire_free(self) -> None:
        self._waking = False
        self._arbitrate()

    def _arbitrate(self) -> None:
        """Send what can go now, and the rest when the wire is free again."""
        assert self._arbiter is not None  # noqa: S101 - there are several VLs
        while ready := [vl for vl in range(self._flow.vls) if self._can_send(vl)]:
            vl = self._arbiter.choose(ready)
            self._arbiter.sent(vl, len(self._queues[vl][0][0]))
            self._send_next(vl)
            if not self._direction.wire_is_free():
                break
        self._wake_for_wire()
        self._wake()

    def _wake(self) -> None:
        if self._stopped and max(self._queued) <= self._stop_bytes // 2:
            self._stopped = False
            self._direction.source.tx_congested(False)

    def flush(self) -> None:
        """Drop all waiting packets: the link went down."""
        counters = self._direction.counters
        for vl, queue in enumerate(self._queues):
            waiting, self._queues[vl] = queue, deque()
            self._queued[vl] = 0
            for *_, hold in waiting:
                counters.in_flight -= 1
                counters.drop(Drop.LINK_DOWN)
                if hold is not None:
                    hold.release()
        self._wake()
