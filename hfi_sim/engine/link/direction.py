"""One direction of a link in the Python engine, composed of the layers that it needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from hfi_sim.base.counters import Drop, PacketCounters
from hfi_sim.base.quantities import SizeOrTime
from hfi_sim.base.random_stream import RandomStream
from hfi_sim.engine.events.outputs import DirectionId
from hfi_sim.engine.events.queue import EngineState, Layer, Space
from hfi_sim.engine.link.arbiter import Egress, vls_without_table
from hfi_sim.engine.link.capture import Observer, PythonRing
from hfi_sim.engine.link.config import INSTANT_BPS, MAX_VLS, FlowControl, LinkConfig
from hfi_sim.engine.link.credits import Lanes, LanesStatus
from hfi_sim.engine.link.faults import FaultLayer
from hfi_sim.engine.link.rule import FaultRule
from hfi_sim.engine.link.vl_counters import (
    DISCARDS,
    Uncounted,
    VlCounters,
    VlTally,
    WireCounters,
    WireTally,
    vl_counters,
)
from hfi_sim.engine.link.wire import Queue, Visibility, Wire
from hfi_sim.wire.lrh16b import sc_of

Receive = Callable[[int, bytes, int, Space | None], None]
"""How the far end takes a packet: now, the packet, the switches that it has visited, and on a link with credits its
room in the receive buffer."""


class Direction:
    """Admits packets, counts them, and passes arriving ones to the far end."""

    def __init__(
        self,
        state: EngineState,
        number: DirectionId,
        config: LinkConfig,
        counters: PacketCounters,
        *,
        streams: tuple[RandomStream, RandomStream],
        forwards: bool,
        visibility: Visibility,
        on_stop: Callable[[int, bool], None],
        arrives: bool = False,
    ) -> None:
        """Make an empty direction.

        Args:  streams: the random streams of its faults and its jitter. forwards, on_stop: as for `Lanes`.
               visibility: which arrivals may be outputs. arrives: packets come from another engine, which has the wire
               and the faults.
        """
        self.number = number
        self.counters = counters
        self._receive: Receive
        self._state = state
        self._arrives = arrives
        self._config = config = self._here(config)
        self._up = True
        self._wire = Wire(state.events, self._arrive, config, streams[1], visibility=visibility)
        self._carried = WireTally()
        self._faults = FaultLayer(self, state, streams[0], self._carried.failed)
        self._observer = Observer(number, state.outputs)
        limit = config.queue_bytes
        self._room: Queue | Lanes = (
            Queue(self._wire, limit)
            if config.flow is None
            else Lanes(
                state,
                self._wire,
                config.flow,
                limit=limit,
                forwards=forwards,
                on_stop=on_stop,
                lose=self._lose,
                number=number,
            )
        )
        self._lanes = self._room if isinstance(self._room, Lanes) else None
        """The same object, on a link with credits."""
        self._tally: VlTally | None = None
        """Counters of each VL; None: there has only ever been one VL."""
        self._too_long = 0
        self._vl_of: Sequence[int]
        """The VL of each service channel."""
        self._egress = Egress()
        self._map()
        self._first: Layer
        """The layer that takes a packet first."""
        self.compose()

    def lead_to(self, receive: Receive) -> None:
        """Set how the port at the far end receives arriving packets; called once, before anything arrives."""
        self._receive = receive

    def compose(self) -> None:
        """Compose the layers that are needed now."""
        layer: Layer = self._wire if self._lanes is None else self._lanes
        if not self._observer.is_idle:
            self._observer.before(layer)
            layer = self._observer
        self._faults.before(layer)
        self._first = layer if self._faults.is_idle else self._faults

    # --- the path of a packet ------------------------------------------------------------------------------

    def enter(self, now: int, packet: bytes, hops: int, space: Space | None) -> None:
        """Admit a packet that has visited `hops` switches, or count why not."""
        size = len(packet)
        self.counters.in_packets += 1
        self.counters.in_bytes += size
        self.counters.in_flight += 1
        self._state.pool -= size
        drop = self.refusal(now, size, space)
        if drop is None:
            self._first.enter(now, packet, hops, 0, space)
        else:
            self.end(now, packet, drop)

    def arrive(self, now: int, packet: bytes, hops: int) -> None:
        """Receive a packet that has come over the wire of the engine where this direction begins."""
        if self._lanes is not None or not self._up:
            self.enter(now, packet, hops, None)
            return
        size = len(packet)
        self.counters.in_packets += 1
        self.counters.in_bytes += size
        self.counters.in_flight += 1
        self._state.pool -= size
        self._observer.show(now, packet, None)
        self._arrive(now, packet, hops)

    def refusal(self, now: int, size: int, space: Space | None) -> Drop | None:
        """Return why a packet in flight cannot be sent, or None."""
        if not self._up:
            return Drop.LINK_DOWN
        if self._state.pool < 0:
            return Drop.LINK_OVERFLOW
        return self._room.refusal(now, size, space)

    def take_up(self, packet: bytes) -> None:
        """Count an additional packet in flight: a copy made here."""
        self.counters.copies += 1
        self.counters.in_flight += 1
        self._state.pool -= len(packet)

    def end(self, now: int, packet: bytes, drop: Drop) -> None:
        """Drop a packet before it is sent."""
        self._lose(packet, drop)
        self._observer.show(now, packet, drop)

    def discards(self, egress: Egress, packet: bytes) -> bool:
        """Return whether a packet exceeds the MTU of its VL, and count it then; the caller discards it."""
        if not egress.is_too_long(len(packet), self._vl_of[sc_of(packet)]):
            return False
        self._too_long += 1
        self._tally_discard(packet, None)
        return True

    def _tally_discard(self, packet: bytes, drop: Drop | None) -> None:
        if self._tally is not None:
            self._tally.discarded(self._vl_of[sc_of(packet)], drop)

    def _lose(self, packet: bytes, drop: Drop) -> None:
        self.counters.in_flight -= 1
        self.counters.drop(drop)
        self._state.pool += len(packet)
        if drop in DISCARDS:
            self._tally_discard(packet, drop)

    def _arrive(self, now: int, packet: bytes, hops: int) -> None:
        size = len(packet)
        self.counters.in_flight -= 1
        self.counters.out_packets += 1
        self.counters.out_bytes += size
        self._state.pool += size
        self._carried.note(packet)
        if self._tally is not None:
            vl = self._vl_of[sc_of(packet)] if self._lanes is None else self._lanes.first_vl
            self._tally.carried(vl, packet)
        if self._lanes is None:
            self._receive(now, packet, hops, None)
        else:
            space = self._lanes.arrived(packet)
            self._receive(now, packet, hops, space)
            space.release()

    # --- changes -------------------------------------------------------------------------------------------

    def configure(self, now: int, config: LinkConfig, up: bool) -> None:
        """Apply a new configuration, except its credits; packets in transit stay unless the direction goes down.

        Raises:  ValueError: credits cannot be added to or removed from an existing link.
        """
        if (config.flow is None) != (self._lanes is None):
            raise ValueError("a direction of a link gets credits when it is created, or never")
        config = self._here(config)
        was_up, self._up = self._up, up
        self._config = replace(config, flow=self._config.flow)
        self._wire.configure(now, config)
        self._room.limit = config.queue_bytes
        if self._lanes is not None:
            self._lanes.wire_changed(now)
        if was_up and not up:
            self._cut(now)
        self.compose()

    def _here(self, config: LinkConfig) -> LinkConfig:
        """Return the part of a configuration that applies here: an arriving direction has no wire of its own."""
        if not self._arrives:
            return config
        queue = SizeOrTime(config.queue_bytes)  # at the rate of the wire
        return LinkConfig(INSTANT_BPS, latency_ns=0, queue=queue, flow=config.flow)

    def _cut(self, now: int) -> None:
        """Drop everything in transit: first what waits, then what is held back, then what is on the wire."""
        waiting = [] if self._lanes is None else self._lanes.flush(now)
        for packet in waiting:
            self._lose(packet, Drop.LINK_DOWN)
        for packet in self._faults.cut():
            self.end(now, packet, Drop.LINK_DOWN)
        for packet in self._wire.cut():
            self._lose(packet, Drop.LINK_DOWN)
            if self._lanes is not None:
                self._lanes.lose(packet)

    def set_rules(self, rules: Sequence[FaultRule]) -> None:
        """Apply new faults; packets held back by the old ones stay held."""
        self._faults.rules = () if self._arrives else tuple(rules)
        self.compose()

    def observe(self, on: bool) -> None:
        """Start or stop reporting packets."""
        self._observer.reports = on
        self.compose()

    def attach(self, ring: PythonRing, interface: int) -> None:
        """Start copying packets into a ring."""
        self._observer.attach(ring, interface)
        self.compose()

    def detach(self, ring: PythonRing) -> None:
        """Stop copying into a ring."""
        self._observer.detach(ring)
        self.compose()

    def set_flow(self, now: int, flow: FlowControl | None) -> None:
        """Change the credits of a link that has some; packets that wait or are in transit stay on their VL."""
        if flow != self._config.flow:
            self._config = replace(self._config, flow=flow)
            self._set_up(now)

    def set_egress(self, now: int, egress: Egress) -> None:
        """Apply a port's settings for leaving packets.

        Packets that wait or are on the wire stay on their VL.
        """
        if egress != self._egress:
            self._egress = egress
            self._set_up(now)

    def _set_up(self, now: int) -> None:
        self._map()
        flow = self._config.flow
        if self._lanes is not None and flow is not None:
            self._lanes.set_up(now, flow, self._egress)

    def _map(self) -> None:
        """Update the VL of each service channel, and start counting by VL where there may be several."""
        flow, table = self._config.flow, self._egress.sc_to_vl
        self._vl_of = table or vls_without_table(flow)
        vls = flow.vls if flow is not None else MAX_VLS if table else 1
        if self._tally is not None:
            self._tally.grow(vls)
        elif vls > 1:
            self._tally = VlTally(vls)

    def set_visibility(self, visibility: Visibility) -> None:
        """Set whether arrivals may be outputs at once."""
        self._wire.set_visibility(visibility)

    # --- queries -------------------------------------------------------------------------------------------

    @property
    def visible_from(self) -> int | None:
        """The least time in nanoseconds from a packet's entry to an output that it causes here; None: it never does.

        Ignored: that a sender is stopped, which only an input causes, and that a sender may send again.
        """
        if self._observer.reports or self._faults.show_at_once:
            return 0
        if self._arrives:  # every entry is an input
            return None
        return None if self._wire.visibility is Visibility.NOTHING else self._config.latency_ns

    @property
    def is_stopped(self) -> bool:
        """Whether the sender is to stop for lack of credits."""
        return self._lanes is not None and self._lanes.stopped

    @property
    def is_holding(self) -> bool:
        """Whether a packet is held back for later ones to overtake."""
        return self._faults.is_holding

    def lanes(self) -> LanesStatus | None:
        """Return the current state of the virtual lanes; None on a link without credits."""
        return None if self._lanes is None else self._lanes.status()

    def waiting_on(self, sc: int) -> int:
        """Return the bytes that wait for credits on the VL of a service channel; 0 on a link without credits."""
        return 0 if self._lanes is None else self._lanes.waiting_on(sc)

    def vl_counters(self, now: int) -> tuple[VlCounters, ...]:
        """Return the counters of each VL."""
        waits = [] if self._lanes is None else self._lanes.waits(now)
        rows = self._tally.rows(waits) if self._tally is not None else [(0, 0, sum(waits))]
        more = Uncounted(self._too_long, self._carried.fecn, self._carried.becn)
        return vl_counters(self.counters, more, rows)

    def wire_counters(self, now: int) -> WireCounters:
        """Return the counters in addition to packets and bytes."""
        return self._carried.counters(now)


class Lookahead:
    """The minimum of `visible_from` over all link directions."""

    def __init__(self) -> None:
        self._least = 0
        """The last result of `least`."""
        self._changed: set[Direction] = set()
        self._values: dict[Direction, int] = {}
        """Of the directions that can cause an output."""
        self._counts: Counter[int] = Counter()
        """Number of directions with each value: few values, as links of a fabric are much alike."""
        self._holding: set[Direction] = set()
        """Directions that hold packets back, which they can release without a change of settings."""

    def changed(self, directions: Iterable[Direction]) -> None:
        """Note directions whose value may have changed."""
        self._changed.update(directions)

    def forget(self, direction: Direction) -> None:
        """Forget a direction that is gone."""
        self._changed.discard(direction)
        self._set(direction, None)
        self._least = min(self._counts, default=0)

    def least(self) -> int:
        """Return the least value, in nanoseconds; 0 if no direction can cause an output."""
        if self._changed:
            for direction in self._changed | self._holding:
                self._set(direction, direction.visible_from)
            self._changed.clear()
            self._least = min(self._counts, default=0)
        return self._least

    def _set(self, direction: Direction, value: int | None) -> None:
        old = self._values.pop(direction, None)
        if old is not None:
            self._counts[old] -= 1
            if not self._counts[old]:
                del self._counts[old]
        self._holding.discard(direction)
        if value is not None:
            self._values[direction] = value
            self._counts[value] += 1
            if direction.is_holding:
                self._holding.add(direction)
