"""Virtual lanes with credits: a link direction that loses nothing, because a full receiver stops its sender.

Each VL of a direction has a buffer at the receiving end, and may use part of a shared one. A packet goes on the wire
only when there is room for it (credit), or when nothing else of its VL is under way: hardware cuts a packet longer
than a buffer through. The room is free again when the packet has left the receiver: a switch has put every copy of
it on the next wire, or an HFI has passed it to its host. So a host that reads nothing fills its port's buffer, then
the switch's, and so on back to the sender, on that VL alone.

If a link has several VLs, packets wait for the wire at its near end, and the arbiter (`hfi_sim.engine.link.arbiter`)
selects the next one: high priority first, the others by weight, all equal by default.

A switch may limit how long a packet is the first of its VL: it drops one that is so for longer than the head-of-queue
lifetime. So lanes that wait for each other in a circle move again.

All settings can change while packets wait or are in transit. Those stay on their lane: waiting packets follow the
new rules, packets in transit return their room there. Until then a lane may occupy more than it is now allowed.
Lanes that are no longer used stay until they are empty, with a weight of 1 and no room of their own, so they send
packet by packet.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from hfi_sim.base.counters import Drop
from hfi_sim.engine.events.queue import EngineState, Space
from hfi_sim.engine.link.arbiter import Egress, Rooms, arbiter_of
from hfi_sim.engine.link.config import FlowControl
from hfi_sim.engine.link.wire import Wire
from hfi_sim.wire.lrh16b import sc_of, with_fecn


@dataclass(frozen=True, slots=True)
class LanesStatus:
    """The current state of the virtual lanes of one direction; index: VL."""

    credits: tuple[int, ...]
    """Bytes of room at the receiving end."""
    waiting: tuple[int, ...]
    """Bytes that wait for credits, or for the wire."""
    occupied: tuple[int, ...]
    """Bytes on the wire and at the receiving end."""
    fecn_marked: int
    """Packets that this direction has marked."""
    blocked: tuple[bool, ...]
    """Whether the first packet that waits has no room."""
    held: tuple[tuple[int, int, int, int, int], ...]
    """What waits here and holds room elsewhere meanwhile: own VL, direction and VL of that room, packet, bytes; sorted.
    The packet is how many had arrived there with it, where copies of it hold its room as well; 0: all others together.
    """


class _BufferSpace:
    """The room that one packet occupies at the receiving end of a direction."""

    def __init__(self, lanes: Lanes, vl: int, size: int, packet: int) -> None:
        self._lanes = lanes
        self._vl = vl
        self.size = size
        self._packet = packet
        self._holders = 1

    @property
    def place(self) -> tuple[int, int, int]:
        """The direction and the VL that it belongs to, and the packet, as in `LanesStatus.held`."""
        return self._lanes.number, self._vl, self._packet if self._holders > 1 else 0

    def keep(self) -> None:
        self._holders += 1

    def release(self) -> None:
        self._holders -= 1
        if self._holders == 0:
            self._lanes.free(self._vl, self.size)


class Lanes:
    """The VLs of one direction of a link: credits, and the packets that wait for them."""

    def __init__(
        self,
        state: EngineState,
        wire: Wire,
        flow: FlowControl,
        *,
        limit: int,
        forwards: bool,
        on_stop: Callable[[int, bool], None],
        lose: Callable[[bytes, Drop], None],
        number: int,
    ) -> None:
        """Start with nothing waiting and all credits.

        Args:  limit: bytes that may wait without reserved room: packets of a sender that ignores being stopped, or
               of a switch that received them on a link without credits. forwards: the near end is a switch, which
               marks FECN.
               on_stop: called with the time and whether the sender is to stop. lose: counts a packet that was the
               first of its VL for too long.
        """
        self.number = number
        """That of its direction."""
        self.limit = limit
        self.stopped = False
        self._state = state
        self._wire = wire
        self._flow = flow
        self._egress = Egress()
        self._forwards = forwards
        self._on_stop = on_stop
        self._lose = lose
        self._vl_of: Sequence[int] = flow.map()
        self._vls_on_wire: deque[int] = deque()
        """Of the packets on the wire, in order, as the SC to VL table may have changed since they were sent."""
        self._rooms = Rooms.of(flow, None, flow.vls)
        self._occupied = [0] * flow.vls
        """Bytes on the wire and at the receiving end."""
        self._queues: list[deque[tuple[bytes, int, int, Space | None]]] = [deque() for _ in range(flow.vls)]
        self._queued = [0] * flow.vls
        self._waited = [0] * flow.vls
        """Total waiting time of each VL in nanoseconds, without the current wait."""
        self._since = [0] * flow.vls
        """When the current wait of a VL began: when its first packet began to wait, or its previous packet was sent."""
        self._last_vl = 0
        """The VL that sent last."""
        self._arbiter = arbiter_of(flow, None, flow.vls)
        self._wire_event = 0
        """The sequence number of the event at which the wire is free; 0: none is scheduled."""
        self._fecn_marked = 0
        self._arrivals = 0
        self._hoq_lives: list[int] = []
        """The head-of-queue lifetime of each VL in nanoseconds, 0: none; empty: no VL has one."""
        self._hoq_event = 0
        """The sequence number of the event at which a first packet may have been waiting for too long; 0: none."""
        self._hoq_due = 0
        self._limit_heads()

    @property
    def vls(self) -> int:
        """Number of VLs, including those that are no longer used."""
        return len(self._queues)

    @property
    def first_vl(self) -> int:
        """The VL of the first packet on the wire."""
        return self._vls_on_wire[0]

    def set_up(self, now: int, flow: FlowControl, egress: Egress) -> None:
        """Apply new settings; see the module.

        Packets that enter from now on take the VLs of their service channels, modulo the number of VLs.
        """
        blocked = self._blocked(range(self.vls))
        while self.vls < flow.vls:
            self._queues.append(deque())
            for each in (self._occupied, self._queued, self._waited, self._since):
                each.append(0)
        self._flow, self._egress = flow, egress
        self._vl_of = tuple(vl % flow.vls for vl in egress.sc_to_vl or flow.map())
        self._rooms = Rooms.of(flow, egress.buffers, self.vls)
        arbiter = arbiter_of(flow, egress.arbitration, self.vls)
        if self._arbiter is None or arbiter is None or not arbiter.shares_like(self._arbiter):
            self._arbiter = arbiter
        self._limit_heads()
        self._go_on(now, blocked)
        self._watch_heads(now)
        self._wake(now)
        self._stop(now, self._queued.index(max(self._queued)))

    def waiting_on(self, sc: int) -> int:
        """Return the bytes that wait on the VL of a service channel."""
        return self._queued[self._vl_of[sc]]

    def status(self) -> LanesStatus:
        """Return the current state of the lanes."""
        free = tuple(self._free(vl) for vl in range(self.vls))
        held: dict[tuple[int, int, int, int], int] = {}
        for vl, queue in enumerate(self._queues):
            for _, _, _, space in queue:
                if isinstance(space, _BufferSpace):
                    key = (vl, *space.place)
                    held[key] = held.get(key, 0) + space.size
        blocked = self._blocked(range(self.vls))
        return LanesStatus(
            free,
            tuple(self._queued),
            tuple(self._occupied),
            self._fecn_marked,
            tuple(vl in blocked for vl in range(self.vls)),
            tuple((*key, size) for key, size in sorted(held.items())),
        )

    def _shared_used(self) -> int:
        """Return how much of the shared room is occupied."""
        return sum(
            max(occupied - own, 0)
            for occupied, own in zip(self._occupied, self._rooms.dedicated, strict=True)
        )

    def _free(self, vl: int) -> int:
        """Return how many bytes of a VL the receiving end has room for now."""
        rooms = self._rooms
        own = rooms.dedicated[vl] - self._occupied[vl]
        shared = min(rooms.shared[vl] - max(-own, 0), rooms.overall - self._shared_used())
        return max(own, 0) + max(shared, 0)

    def _has_room(self, vl: int, size: int) -> bool:
        """Return whether a packet may be sent now: there is room for it, or nothing of its VL is under way."""
        return not self._occupied[vl] or size <= self._free(vl)

    def _blocked(self, vls: Iterable[int]) -> list[int]:
        """Return the VLs that have something to send but no room for it."""
        return [vl for vl in vls if (queue := self._queues[vl]) and not self._has_room(vl, len(queue[0][0]))]

    def refusal(self, _now: int, size: int, space: Space | None) -> Drop | None:
        """Refuse a packet beyond the limit; never one that waits in the room it has at its incoming port."""
        if space is not None:
            return None
        return Drop.LINK_OVERFLOW if sum(self._queued) + size > self.limit else None

    def enter(self, now: int, packet: bytes, hops: int, delay_ns: int, space: Space | None) -> None:
        """Send a packet, now or once there is room for it at the far end.

        Args:  space: the room it occupies until then in the switch that it came to.
        """
        vl = self._vl_of[sc_of(packet)]
        size = len(packet)
        if self._forwards and self._ahead(vl) >= self._flow.fecn_bytes:
            packet = with_fecn(packet)
            self._fecn_marked += 1
        if not self._queues[vl] and self._has_room(vl, size) and self._wire_is_for(now, vl, size):
            self._occupied[vl] += size
            self._vls_on_wire.append(vl)
            self._wire.enter(now, packet, hops, delay_ns)
            return
        if space is not None:
            space.keep()
        is_first = not self._queues[vl]
        if is_first:
            self._since[vl] = now
        self._queues[vl].append((packet, hops, delay_ns, space))
        self._queued[vl] += size
        if is_first:
            self._watch_heads(now)
        if self._arbiter is not None:
            self._wake_for_wire(now)
        self._stop(now, vl)

    def _stop(self, now: int, vl: int) -> None:
        """Stop the sender if too much waits on a VL."""
        if not self.stopped and self._queued[vl] >= self._flow.buffer_bytes:
            self.stopped = True
            self._on_stop(now, True)

    def _wire_is_for(self, now: int, vl: int, size: int) -> bool:
        """Claim the wire for a packet; return whether it was free, with no packet ahead."""
        if self._arbiter is None:
            return True
        self._arbiter.woke(vl)
        if self._wire_event or self._wire.free_from > now:
            return False
        self._arbiter.sent(self._arbiter.alone(vl), size)
        self._take_wire(vl)
        return True

    def _take_wire(self, vl: int) -> None:
        """Note that a VL sends now: the previous VL, if it has more packets, has been waiting since its last one
        left.
        """
        last = self._last_vl
        if last != vl:
            self._last_vl = vl
            self._since[last] = max(self._since[last], self._wire.free_from)

    def _limit_heads(self) -> None:
        """Note the head-of-queue lifetimes; only switches have them."""
        lives = self._egress.hoq_lives_ns(self._flow, self.vls)
        self._hoq_lives = lives if self._forwards and any(lives) else []

    def _watch_heads(self, now: int) -> None:
        """Schedule the end of the first lifetime, unless an event is due by then."""
        ends = [
            self._since[vl] + life for vl, life in enumerate(self._hoq_lives) if life and self._queues[vl]
        ]
        if not ends:
            return
        due = max(min(ends), now)
        if self._hoq_event and self._hoq_due <= due:
            return
        if self._hoq_event:
            self._state.events.cancel(self._hoq_event)
        self._hoq_due = due
        self._hoq_event = self._state.events.schedule(due, self._heads_expire)

    def _heads_expire(self, now: int, _number: int) -> None:
        """Drop the first packets that have been waiting for their lifetime, one of each VL."""
        self._hoq_event = 0
        blocked = self._blocked(range(self.vls))
        for vl, life in enumerate(self._hoq_lives):
            if life and self._queues[vl] and self._since[vl] + life <= now:
                self._waited[vl] += self._waits(now, vl)
                self._since[vl] = now
                packet, _, _, space = self._queues[vl].popleft()
                self._queued[vl] -= len(packet)
                self._lose(packet, Drop.LINK_HOQ)
                if space is not None:
                    space.release()
        self._go_on(now, blocked)
        self._wake(now)
        self._watch_heads(now)

    def _waits(self, now: int, vl: int) -> int:
        """Return how long a VL with packets to send has been waiting, in nanoseconds."""
        since = self._since[vl]
        if vl == self._last_vl:
            since = max(since, self._wire.free_from)
        return max(now - since, 0)

    def waits(self, now: int) -> list[int]:
        """Return the total waiting time of each VL, in nanoseconds; see `VlCounters.wait_ns`."""
        return [
            waited + (self._waits(now, vl) if self._queues[vl] else 0)
            for vl, waited in enumerate(self._waited)
        ]

    def _ahead(self, vl: int) -> int:
        return self._queued[vl] + self._occupied[vl]

    def arrived(self, packet: bytes) -> Space:
        """Return the room that the first packet on the wire occupies now that it has arrived."""
        self._arrivals = self._arrivals % 0xFFFFFFFF + 1
        return _BufferSpace(self, self._vls_on_wire.popleft(), len(packet), self._arrivals)

    def lose(self, packet: bytes) -> None:
        """Free the room of the first packet on the wire, which was lost there."""
        self.free(self._vls_on_wire.popleft(), len(packet))

    def free(self, vl: int, size: int) -> None:
        """Return a credit, after the current event: at once, it would recurse along the whole path."""
        self._state.events.afterwards(lambda now: self._give_back(now, vl, size))

    def _give_back(self, now: int, vl: int, size: int) -> None:
        blocked = self._blocked(range(self.vls) if self._rooms.overall else (vl,))
        self._occupied[vl] -= size
        self._go_on(now, blocked)

    def _go_on(self, now: int, blocked: Iterable[int]) -> None:
        """Send what can go now that there may be room. Args: blocked: VLs that had no room before."""
        if self._arbiter is not None:
            for vl in blocked:
                self._arbiter.woke(vl)
            self._wake_for_wire(now)
            return
        while self._can_send(0):
            self._send_next(now, 0)
        self._wake(now)

    def _can_send(self, vl: int) -> bool:
        queue = self._queues[vl]
        return bool(queue) and self._has_room(vl, len(queue[0][0]))

    def _send_next(self, now: int, vl: int) -> None:
        self._waited[vl] += self._waits(now, vl)
        self._since[vl] = now
        self._take_wire(vl)
        packet, hops, delay_ns, space = self._queues[vl].popleft()
        self._occupied[vl] += len(packet)
        self._queued[vl] -= len(packet)
        self._vls_on_wire.append(vl)
        self._wire.enter(now, packet, hops, delay_ns)
        if space is not None:
            space.release()

    def _wake_for_wire(self, now: int) -> None:
        """Send now, or as soon as the wire is free."""
        if self._wire_event or not any(map(self._can_send, range(self.vls))):
            return
        if self._wire.free_from <= now:
            self._arbitrate(now)
        else:
            self._wire_event = self._state.events.schedule(self._wire.free_from, self._wire_free)

    def _wire_free(self, now: int, _number: int) -> None:
        self._wire_event = 0
        self._arbitrate(now)

    def wire_changed(self, now: int) -> None:
        """Reschedule the wait for the wire: it may be free sooner or later than before."""
        if self._wire_event:
            self._state.events.cancel(self._wire_event)
            self._wire_event = 0
            self._wake_for_wire(now)

    def _arbitrate(self, now: int) -> None:
        """Send what can go now, and the rest when the wire is free again."""
        assert self._arbiter is not None  # noqa: S101 - there are several VLs
        while ready := [vl for vl in range(self.vls) if self._can_send(vl)]:
            turn = self._arbiter.choose(ready)
            self._arbiter.sent(turn, len(self._queues[turn.vl][0][0]))
            self._send_next(now, turn.vl)
            if self._wire.free_from > now:
                break
        self._wake_for_wire(now)
        self._wake(now)

    def _wake(self, now: int) -> None:
        if self.stopped and max(self._queued) <= self._flow.buffer_bytes // 2:
            self.stopped = False
            self._on_stop(now, False)

    def flush(self, now: int) -> list[bytes]:
        """Remove all waiting packets and return them: the link went down."""
        packets: list[bytes] = []
        self._waited = self.waits(now)
        for vl, queue in enumerate(self._queues):
            self._queued[vl] = 0
            while queue:
                packet, _, _, space = queue.popleft()
                packets.append(packet)
                if space is not None:
                    space.release()
        if self._wire_event:
            self._state.events.cancel(self._wire_event)
            self._wire_event = 0
        if self._hoq_event:
            self._state.events.cancel(self._hoq_event)
            self._hoq_event = 0
        self._wake(now)
        return packets
