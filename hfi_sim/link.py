"""A cable between two ports: rate, latency, jitter, a bounded queue in each direction.

In each direction packets leave one after the other at the link's rate, and arrive in order one latency later.
Credits (`hfi_sim.lanes`) and faults (`hfi_sim.faults`) hook in per direction; a direction without them does not
pay for them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from hfi_sim.clock import TimerHandle
from hfi_sim.conveyor import Conveyor
from hfi_sim.counters import Drop, PacketCounters
from hfi_sim.errors import FabricError
from hfi_sim.lanes import FlowControl, Lanes
from hfi_sim.random_stream import RandomStream

DEFAULT_RATE_BPS = 100e9
DEFAULT_LATENCY_S = 300e-9
DEFAULT_QUEUE_BYTES = 16 << 20

PacketObserver = Callable[["LinkDirection", bytes, Drop | None], None]
"""Called for each packet that enters a link, with the direction, the packet, and its drop there, if any."""


class LinkPort(Protocol):
    """What a link needs of the port at its end."""

    name: str
    link: Link | None
    forwards: bool
    """Whether this is a switch's port: its packets wait in the buffer of the port where they arrived."""

    def receive(self, packet: bytes, hops: int, /) -> None:
        """Receive a packet that has visited `hops` switches."""

    def link_changed(self, up: bool) -> None:
        """Notice that the link came up or went down."""

    def tx_congested(self, stopped: bool) -> None:
        """Stop offering packets, or continue."""


@dataclass(frozen=True, slots=True)
class Passage:
    """One packet that a fault lets pass, perhaps changed."""

    packet: bytes
    delay_s: float = 0.0
    """Delay on top of rate and latency; later packets of the direction do not overtake it."""
    behind: int = 0
    """Hold it back until this many later packets have passed."""
    hold_s: float = 0.0
    """... or until this time has passed."""


class FaultTally(Protocol):
    """What a fault has done."""

    seen: int
    hits: int


@dataclass(frozen=True, slots=True)
class PlainFault:
    """A fault that hits every packet of a direction with one probability."""

    chance: int
    """The probability as a share of 2**53 (`hfi_sim.random_stream`)."""
    bits: int
    """How many bits of a packet it flips; 0: the packet is lost."""
    tally: FaultTally
    """Counts the packets seen and hit, kept by the datapath that applies the fault."""


class DirectionFaults(Protocol):
    """What disturbs one direction of a link."""

    def plain(self) -> list[PlainFault] | None:
        """Return the faults in order if all are plain chances, for a datapath of its own; otherwise None."""
        ...

    def judge(self, packet: bytes) -> tuple[list[Passage], Drop | None]:
        """Return the fate of a packet: nothing and the reason, or itself and its copies."""
        ...


@dataclass(slots=True)
class _Held:
    """A packet that later ones may overtake."""

    passage: Passage
    hops: int
    behind: int
    timer: TimerHandle | None = None


class LinkDirection:
    """One direction of a link, from `source` to `target`."""

    def __init__(self, link: Link, source: LinkPort, target: LinkPort, seed: int) -> None:
        self.link = link
        self.source = source
        self.target = target
        self.name = f"{source.name}->{target.name}"
        self.counters = PacketCounters()
        self.stream = RandomStream.named(seed, self.name)
        """Random stream of its faults."""
        self._jitter = RandomStream.named(seed, f"{self.name} jitter")
        self.faults: DirectionFaults | None = None
        self.lanes: Lanes | None = None
        self._arrivals: deque[tuple[float, bytes, int]] = deque()
        self._queued_bytes = 0
        self.free_at = 0.0
        """Time at which the wire will have sent all launched packets."""
        self._held: list[_Held] = []

    def transmit(self, packet: bytes, hops: int = 0) -> Drop | None:
        """Send one packet that has visited `hops` switches; return why it was dropped, or None."""
        counters = self.counters
        size = len(packet)
        counters.in_packets += 1
        counters.in_bytes += size
        if self.faults is not None:
            return self._transmit_faulty(packet, hops, self.faults)
        drop = self._refusal(size)
        for observer in self.link.observers:
            observer(self, packet, drop)
        if drop is not None:
            counters.drop(drop)
            return drop
        counters.in_flight += 1
        if self.lanes is not None:
            self.lanes.enter(packet, hops)
        else:
            self.launch(packet, hops)
        return None

    def _refusal(self, size: int) -> Drop | None:
        if not self.link.up:
            return Drop.LINK_DOWN
        if self.lanes is not None:
            return self.lanes.refusal(size)
        if self._queued_bytes + size > self.link.queue_bytes:
            return Drop.LINK_OVERFLOW
        return None

    def wire_is_free(self) -> bool:
        """Return whether a packet launched now need not wait for the wire, within the resolution of a timer."""
        conveyor = self.link.conveyor
        return self.free_at - conveyor.clock.time() <= conveyor.timer_resolution_s

    def launch(self, packet: bytes, hops: int, delay_s: float = 0.0) -> None:
        """Put a packet on the wire; it already counts as in flight."""
        link = self.link
        conveyor = link.conveyor
        now = conveyor.clock.time()
        size = len(packet)
        self.free_at = max(now, self.free_at) + size * 8 / link.rate_bps
        arrival = self.free_at + link.latency_s
        if delay_s or link.jitter_s:
            arrival += delay_s + (self._jitter.fraction() * link.jitter_s if link.jitter_s else 0.0)
            if self._arrivals:
                arrival = max(arrival, self._arrivals[-1][0])
        if not self._arrivals and arrival - now <= conveyor.timer_resolution_s:
            conveyor.put(self._arrive, packet, hops)
            return
        self._queued_bytes += size
        self._arrivals.append((arrival, packet, hops))
        if len(self._arrivals) == 1:
            conveyor.clock.call_at(arrival, self._deliver_due)

    def _deliver_due(self) -> None:
        conveyor = self.link.conveyor
        arrivals = self._arrivals
        # the first is due whatever the clock says: event loops may wake up early by a rounding error
        due = max(arrivals[0][0], conveyor.clock.time())
        while arrivals and arrivals[0][0] <= due:
            _, packet, hops = arrivals.popleft()
            self._queued_bytes -= len(packet)
            conveyor.put(self._arrive, packet, hops)
        if arrivals:
            conveyor.clock.call_at(arrivals[0][0], self._deliver_due)

    def _arrive(self, packet: bytes, hops: int) -> None:
        counters = self.counters
        counters.in_flight -= 1
        if not self.link.up:
            counters.drop(Drop.LINK_DOWN)
            if self.lanes is not None:
                self.lanes.lose(packet)
            return
        counters.out_packets += 1
        counters.out_bytes += len(packet)
        if self.lanes is not None:
            self.lanes.arrive(packet, hops)
        else:
            self.target.receive(packet, hops)

    # --- with faults ---------------------------------------------------------------------------------------

    def _transmit_faulty(self, packet: bytes, hops: int, faults: DirectionFaults) -> Drop | None:
        counters = self.counters
        drop = self._refusal(len(packet))
        passages: list[Passage] = []
        if drop is None:
            passages, drop = faults.judge(packet)
        for observer in self.link.observers:
            for passage in passages:
                observer(self, passage.packet, None)
            if drop is not None:
                observer(self, packet, drop)
        if drop is not None:
            counters.drop(drop)
            return drop
        counters.copies += len(passages) - 1
        for passage in passages:
            counters.in_flight += 1
            if passage.behind:
                self._hold(passage, hops)
            else:
                self._pass(passage, hops)
                self._overtaken()
        if self._held:
            self.faults = (
                faults  # the last fault may just have ended, but overtaking packets must still be counted
            )
        return None

    @property
    def holding(self) -> bool:
        """Whether a packet is held back for later ones to overtake."""
        return bool(self._held)

    def _pass(self, passage: Passage, hops: int) -> None:
        if self.lanes is not None:
            self.lanes.enter(passage.packet, hops, passage.delay_s)
        else:
            self.launch(passage.packet, hops, passage.delay_s)

    def _hold(self, passage: Passage, hops: int) -> None:
        held = _Held(passage, hops, passage.behind)
        held.timer = self.link.conveyor.clock.call_later(passage.hold_s, self._let_go, held)
        self._held.append(held)

    def _overtaken(self) -> None:
        """Count one more packet that overtook those held back."""
        for held in tuple(self._held):
            held.behind -= 1
            if held.behind == 0:
                if held.timer is not None:
                    held.timer.cancel()
                self._let_go(held)

    def _let_go(self, held: _Held) -> None:
        self._held.remove(held)
        self._pass(held.passage, held.hops)


class Link:
    """A cable. `up` is its state; `set_up` changes it and tells both ports."""

    def __init__(
        self,
        a: LinkPort,
        b: LinkPort,
        conveyor: Conveyor,
        *,
        rate_bps: float = DEFAULT_RATE_BPS,
        latency_s: float = DEFAULT_LATENCY_S,
        jitter_s: float = 0.0,
        queue_bytes: int = DEFAULT_QUEUE_BYTES,
        flow: FlowControl | None = None,
        observers: Iterable[PacketObserver] = (),
        seed: int,
    ) -> None:
        if rate_bps <= 0:
            raise FabricError(f"link {a.name}--{b.name}: rate {rate_bps:g} bit/s is not above 0")
        if latency_s < 0:
            raise FabricError(f"link {a.name}--{b.name}: latency {latency_s:g} s is below 0")
        if jitter_s < 0:
            raise FabricError(f"link {a.name}--{b.name}: jitter {jitter_s:g} s is below 0")
        self.name = f"{a.name}--{b.name}"
        self.ends = (a, b)
        self.conveyor = conveyor
        self.rate_bps = rate_bps
        self.latency_s = latency_s
        self.jitter_s = jitter_s
        """Maximum of an extra delay drawn for each packet; packets still arrive in order."""
        self.queue_bytes = queue_bytes
        self.observers = list(observers)
        """Called for each packet that enters; see `Fabric.observe`."""
        self.up = False
        self.directions = (LinkDirection(self, a, b, seed), LinkDirection(self, b, a, seed))
        if flow is not None:
            for direction in self.directions:
                direction.lanes = Lanes(direction, flow)
        self.downed_by: set[str] = {"admin"}
        """Everyone that holds the link down; it is up if this is empty."""
        a.link = b.link = self

    def hold_down(self, by: str, down: bool) -> bool:
        """Record whether `by` holds the link down; return whether the link changed."""
        (self.downed_by.add if down else self.downed_by.discard)(by)
        was_up = self.up
        self.set_up(not self.downed_by)
        return self.up != was_up

    def direction_from(self, port: LinkPort) -> LinkDirection:
        """Return the direction in which `port` sends."""
        return self.directions[0] if port is self.ends[0] else self.directions[1]

    def far_end(self, port: LinkPort) -> LinkPort:
        """Return the port at the other end."""
        return self.ends[1] if port is self.ends[0] else self.ends[0]

    def set_up(self, up: bool) -> None:
        """Bring the link up or down; a packet on the wire when it goes down is lost (link_down)."""
        if up == self.up:
            return
        self.up = up
        if not up:
            for direction in self.directions:
                if direction.lanes is not None:
                    direction.lanes.flush()
        for port in self.ends:
            port.link_changed(up)
