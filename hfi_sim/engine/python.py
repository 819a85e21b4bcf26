"""The Python engine: the readable reference, used where the native engine was not built."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from hfi_sim.base.counters import CongestionCounters, Drop, PacketCounters
from hfi_sim.base.random_stream import RandomStream
from hfi_sim.base.types import PortState
from hfi_sim.engine.api import Engine, PortError, PortErrors
from hfi_sim.engine.config import BoundaryEnd, End, HfiEnd, PortConfig, SwitchEnd, SwitchPortConfig
from hfi_sim.engine.events.outputs import (
    BufferToken,
    Departed,
    DirectionId,
    Output,
    PortId,
    SwitchId,
    packet_of,
    record_of,
)
from hfi_sim.engine.events.queue import EngineState, Space
from hfi_sim.engine.link.arbiter import Egress
from hfi_sim.engine.link.capture import CaptureConfig, CaptureRing, PythonRing
from hfi_sim.engine.link.config import PLAIN_LINK, LinkConfig
from hfi_sim.engine.link.credits import LanesStatus
from hfi_sim.engine.link.direction import Direction, Lookahead
from hfi_sim.engine.link.rule import FaultRule
from hfi_sim.engine.link.vl_counters import VlCounters, WireCounters
from hfi_sim.engine.link.wire import Visibility
from hfi_sim.engine.port import EnginePort
from hfi_sim.engine.switch import EngineSwitch, EngineSwitchPort
from hfi_sim.routing.table import LinearTable
from hfi_sim.wire.icrc import Icrc

_Number = TypeVar("_Number")
_Element = TypeVar("_Element")


class _IntoSwitch:
    """Where port 0 sends: to its switch, which forwards."""

    is_stopped = False

    def __init__(self, switch: EngineSwitch) -> None:
        self._switch = switch

    def enter(self, now: int, packet: bytes, _hops: int, _space: Space | None, /) -> None:
        self._switch.from_port0(now, packet)

    def discards(self, _egress: Egress, _packet: bytes, /) -> bool:
        return False  # a switch has VLs at its other ports


class _OutOfSwitch(_IntoSwitch):
    """Where port 0 sends by a directed route: out of one port of its switch."""

    def __init__(self, switch: EngineSwitch, port_num: int) -> None:
        super().__init__(switch)
        self._port_num = port_num

    def enter(self, now: int, packet: bytes, _hops: int, _space: Space | None, /) -> None:
        self._switch.directed(now, self._port_num, packet)


class _Boundary:
    """The end of a direction whose far end is in another engine."""

    def __init__(self, state: EngineState, number: DirectionId, lend: Callable[[Space], BufferToken]) -> None:
        self._outputs = state.outputs
        self._number = number
        self._lend = lend

    def receive(self, now: int, packet: bytes, hops: int, space: Space | None, /) -> None:
        token = None
        if space is not None:
            space.keep()
            token = self._lend(space)
        self._outputs.append(Departed(now, self._number, record_of(packet, hops), token))


class _Elements(dict[_Number, _Element]):
    """Elements by number. For what still names one that is gone there is another one, which is nowhere."""

    def __init__(self, gone: Callable[[], _Element]) -> None:
        super().__init__()
        self._gone = gone

    def __missing__(self, _: _Number) -> _Element:
        return self._gone()


class PythonEngine(Engine):
    """The elements are Python objects; every event is processed when due, never ahead of time."""

    def __init__(self, icrc: Icrc) -> None:
        """Make an engine without elements. Args: icrc: checks packets that HFI ports receive."""
        self._state = EngineState()
        self._icrc = icrc
        self._ports: _Elements[PortId, EnginePort] = _Elements(self._gone_port)
        self._switches: list[EngineSwitch] = []
        self._directions: _Elements[DirectionId, Direction] = _Elements(self._gone_direction)
        self._next_port, self._next_direction = PortId(0), DirectionId(0)
        self._switch_of: dict[PortId, SwitchId] = {}
        """Of those ports that are port 0."""
        self._lent: dict[BufferToken, tuple[Space, int]] = {}
        """Room that hosts occupy, and its number of holders."""
        self._tokens = 0
        self._lookahead = Lookahead()
        """From anything inside the fabric to the first output that it may cause, while no port is stopped."""

    # --- elements ------------------------------------------------------------------------------------------

    def add_port(self, tx: PacketCounters, rx: PacketCounters, congestion: CongestionCounters) -> PortId:
        number = self._next_port
        self._next_port = PortId(number + 1)
        self._ports[number] = EnginePort(
            self._state, number, tx, rx, congestion, icrc=self._icrc, lend=self._lend
        )
        return number

    def add_switch(self, counters: PacketCounters) -> SwitchId:
        self._switches.append(EngineSwitch(self._state, counters))
        self._state.switches += 1
        return SwitchId(len(self._switches) - 1)

    def add_port0(
        self, switch: SwitchId, tx: PacketCounters, rx: PacketCounters, congestion: CongestionCounters
    ) -> PortId:
        number = self.add_port(tx, rx, congestion)
        self._ports[number].leaving = _IntoSwitch(self._switches[switch])
        self._switch_of[number] = switch
        return number

    def add_link(
        self,
        ends: tuple[End, End],
        configs: tuple[LinkConfig, LinkConfig],
        counters: tuple[PacketCounters, PacketCounters],
        streams: tuple[tuple[RandomStream, RandomStream], tuple[RandomStream, RandomStream]],
    ) -> DirectionId:
        first = self._next_direction
        self._next_direction = DirectionId(first + 2)
        ports = [self._end(end) for end in ends]
        for side in (0, 1):
            source, target = ends[side], ports[1 - side]
            direction = Direction(
                self._state,
                DirectionId(first + side),
                configs[side],
                counters[side],
                streams=streams[side],
                forwards=not isinstance(source, HfiEnd),
                visibility=self._visibility(ends[1 - side]),
                on_stop=self._stopper(source),
                arrives=isinstance(source, BoundaryEnd),
            )
            far_end = target or _Boundary(self._state, direction.number, self._lend)
            direction.lead_to(far_end.receive)
            if (near := ports[side]) is not None:
                near.leaving = direction
                direction.set_egress(0, near.config.egress)
            if isinstance(target, EngineSwitchPort):
                target.arriving = direction
            self._directions[direction.number] = direction
            self._lookahead.changed((direction,))
        return first

    def _end(self, end: End) -> EnginePort | EngineSwitchPort | None:
        if isinstance(end, BoundaryEnd):
            return None
        if isinstance(end, HfiEnd):
            return self._ports[end.port]
        return self._switches[end.switch].port(end.port_num)

    def _visibility(self, end: End) -> Visibility:
        """Return which arrivals at an end may be outputs."""
        if not isinstance(end, SwitchEnd):
            return Visibility.EVERYTHING
        return Visibility.NOTHING if self._switches[end.switch].port0 is None else Visibility.MADS

    def _stopper(self, source: End) -> Callable[[int, bool], None]:
        """Return the callback that stops a sender; packets waiting in a switch fill the switch's own buffers
        instead.
        """
        if not isinstance(source, HfiEnd):
            return lambda _now, _stopped: None
        return self._ports[source.port].stop

    # --- changes -------------------------------------------------------------------------------------------

    def set_port(self, now: int, port: PortId, config: PortConfig) -> None:
        self.handle_timeout(now)
        if port not in self._ports:
            return
        changed = self._ports[port]
        changed.config = config
        if isinstance(changed.leaving, Direction):
            changed.leaving.set_egress(now, config.egress)
            self._state.events.settle(now)
        if port in self._switch_of:
            self._open_port0(port, config.state is not PortState.DOWN)

    def _open_port0(self, port: PortId, is_open: bool) -> None:
        """Let a switch pass packets to its port 0, or not."""
        switch = self._switches[self._switch_of[port]]
        if is_open == (switch.port0 is not None):
            return
        switch.port0 = self._ports[port] if is_open else None
        ends = (end.arriving for end in switch.ports.values() if end.arriving is not None)
        arriving = [direction for direction in ends if direction.number in self._directions]
        self._lookahead.changed(arriving)
        for direction in arriving:
            direction.set_visibility(Visibility.MADS if is_open else Visibility.NOTHING)

    def forget(self, now: int, ports: Sequence[PortId], directions: Sequence[DirectionId]) -> None:
        self.handle_timeout(now)
        for number in directions:
            if (direction := self._directions.pop(number, None)) is not None:
                self._lookahead.forget(direction)
        for port in ports:
            self._ports.pop(port, None)

    def stall_port(self, now: int, port: PortId, stalled: bool) -> None:
        self.handle_timeout(now)
        if port not in self._ports:
            return
        if stalled:
            self._ports[port].stall()
        else:
            self._ports[port].resume(now)
            self._state.events.settle(now)

    def set_switch(self, now: int, switch: SwitchId, up: bool) -> None:
        self.handle_timeout(now)
        self._switches[switch].up = up

    def set_switch_port(self, now: int, switch: SwitchId, port_num: int, config: SwitchPortConfig) -> None:
        self.handle_timeout(now)
        self._switches[switch].port(port_num).configure(now, config)
        self._state.events.settle(now)

    def set_tables(
        self, now: int, switch: SwitchId, lft: LinearTable, mft: Mapping[int, frozenset[int]]
    ) -> None:
        self.handle_timeout(now)
        self._switches[switch].lft = lft
        self._switches[switch].mft = mft

    def set_link(self, now: int, direction: DirectionId, config: LinkConfig, up: bool = True) -> None:
        self.handle_timeout(now)
        if direction not in self._directions:
            return
        changed = self._directions[direction]
        self._lookahead.changed((changed,))
        changed.configure(now, config, up)
        self._state.events.settle(now)
        changed.set_flow(now, config.flow)
        self._state.events.settle(now)

    def set_rules(self, now: int, direction: DirectionId, rules: Sequence[FaultRule]) -> None:
        self.handle_timeout(now)
        if direction not in self._directions:
            return
        self._directions[direction].set_rules(rules)
        self._lookahead.changed((self._directions[direction],))

    def observe(self, now: int, direction: DirectionId, on: bool) -> None:
        self.handle_timeout(now)
        if direction not in self._directions:
            return
        self._directions[direction].observe(on)
        self._lookahead.changed((self._directions[direction],))

    def capture_ring(self, config: CaptureConfig) -> PythonRing:
        return PythonRing(config)

    def attach(self, now: int, direction: DirectionId, ring: CaptureRing, interface: int) -> None:
        self.handle_timeout(now)
        if direction not in self._directions:
            return
        self._directions[direction].attach(_own(ring), interface)

    def detach(self, now: int, direction: DirectionId, ring: CaptureRing) -> None:
        self.handle_timeout(now)
        self._directions[direction].detach(_own(ring))

    # --- packets -------------------------------------------------------------------------------------------

    def send(self, now: int, port: PortId, data: bytes) -> Drop | None:
        self._state.events.run(now)
        drop = self._ports[port].send(now, data)
        self._state.events.settle(now)
        return drop

    def inject(self, now: int, port: PortId, packet: bytes, slid: int, dlid: int, pkey: int) -> Drop | None:
        self._state.events.run(now)
        drop = self._ports[port].inject(now, packet, slid, dlid, pkey)
        self._state.events.settle(now)
        return drop

    def direct(self, now: int, port: PortId, out_port: int, data: bytes) -> Drop | None:
        self.handle_timeout(now)
        way = _OutOfSwitch(self._switches[self._switch_of[port]], out_port)
        drop = self._ports[port].send(now, data, way)
        self._state.events.settle(now)
        return drop

    def arrive(self, now: int, direction: DirectionId, records: Sequence[bytes]) -> None:
        self.handle_timeout(now)
        for record in records:
            packet, hops = packet_of(record)
            self._directions[direction].arrive(now, packet, hops)
        self._state.events.settle(now)
        self.handle_timeout(now)

    def is_holding(self, direction: DirectionId) -> bool:
        return self._directions[direction].is_holding

    def _gone_port(self) -> EnginePort:
        nowhere = PacketCounters(), PacketCounters(), CongestionCounters()
        return EnginePort(self._state, PortId(-1), *nowhere, icrc=self._icrc, lend=self._lend)

    def _gone_direction(self) -> Direction:
        number = DirectionId(-1)
        gone = Direction(
            self._state,
            number,
            PLAIN_LINK,
            PacketCounters(),
            streams=(RandomStream(0), RandomStream(0)),
            forwards=False,
            visibility=Visibility.NOTHING,
            on_stop=lambda _now, _stopped: None,
            arrives=True,
        )
        gone.lead_to(_Boundary(self._state, number, self._lend).receive)
        gone.configure(0, PLAIN_LINK, False)
        return gone

    def _lend(self, space: Space) -> BufferToken:
        self._tokens += 1
        token = BufferToken(self._tokens)
        self._lent[token] = space, 1
        return token

    def keep(self, token: BufferToken) -> None:
        space, holders = self._lent[token]
        self._lent[token] = space, holders + 1

    def release(self, now: int, token: BufferToken) -> None:
        self.handle_timeout(now)
        space, holders = self._lent[token]
        if holders > 1:
            self._lent[token] = space, holders - 1
            return
        del self._lent[token]
        space.release()
        self._state.events.settle(now)

    # --- time and results ----------------------------------------------------------------------------------

    def handle_timeout(self, now: int) -> None:
        self._state.events.run(now)

    @property
    def deadline(self) -> int | None:
        if self._state.outputs:
            return 0
        lookahead = 0 if self._state.stopped else self._lookahead.least()
        return self._state.events.earliest(lookahead)

    def poll_output(self) -> Output | None:
        return self._state.outputs.popleft() if self._state.outputs else None

    def step(self, now: int) -> Sequence[Output]:
        self._state.events.run(now)
        outputs = tuple(self._state.outputs)
        self._state.outputs.clear()
        return outputs

    # --- queries -------------------------------------------------------------------------------------------

    def is_stopped(self, port: PortId) -> bool:
        leaving = self._ports[port].leaving
        return leaving is not None and leaving.is_stopped

    def lanes(self, direction: DirectionId) -> LanesStatus | None:
        return self._directions[direction].lanes()

    def waiting_on(self, direction: DirectionId, sc: int) -> int:
        return self._directions[direction].waiting_on(sc)

    def vl_counters(self, now: int, direction: DirectionId) -> tuple[VlCounters, ...]:
        self.handle_timeout(now)
        return self._directions[direction].vl_counters(now)

    def wire_counters(self, now: int, direction: DirectionId) -> WireCounters:
        self.handle_timeout(now)
        return self._directions[direction].wire_counters(now)

    def port_errors(self, now: int, end: End) -> Mapping[Drop, PortError]:
        self.handle_timeout(now)
        return self._errors_of(end).all()

    def forget_errors(self, now: int, end: End, reasons: Iterable[Drop]) -> None:
        self.handle_timeout(now)
        self._errors_of(end).forget(reasons)

    def _errors_of(self, end: End) -> PortErrors:
        if isinstance(end, SwitchEnd):
            return self._switches[end.switch].errors_of(end.port_num)
        return self._ports[end.port].errors if isinstance(end, HfiEnd) else PortErrors()

    def count(self) -> None:
        """Do nothing: elements count directly into the counters they were given."""


def _own(ring: CaptureRing) -> PythonRing:
    if not isinstance(ring, PythonRing):
        raise TypeError(f"{type(ring).__name__} is not a ring of the Python engine")
    return ring
