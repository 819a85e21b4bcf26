"""The native engine (native/engine) as every engine looks: it carries packets in Rust, and counts where it is told to.

What it was given is translated when it changes. Counters, tallies of faults and random streams of the fabric are
brought up to date by `count`, for elements that did something.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, cast

from hfi_sim.base.counters import CongestionCounters, Drop, PacketCounters
from hfi_sim.base.random_stream import RandomStream
from hfi_sim.engine.api import Engine, PortError
from hfi_sim.engine.config import BoundaryEnd, End, HfiEnd, PortConfig, SwitchPortConfig
from hfi_sim.engine.events.outputs import BufferToken, DirectionId, Output, PortId, SwitchId
from hfi_sim.engine.link.arbiter import Egress
from hfi_sim.engine.link.capture import CaptureConfig, CaptureRing
from hfi_sim.engine.link.config import FlowControl, LinkConfig
from hfi_sim.engine.link.credits import LanesStatus
from hfi_sim.engine.link.rule import FaultRule, Tally
from hfi_sim.engine.link.vl_counters import Uncounted, VlCounters, WireCounters, vl_counters
from hfi_sim.routing.table import LinearTable
from hfi_sim.wire.icrc import IBA_POLYNOMIAL, Icrc
from opavnic.base.errors import DatapathUnavailableError
from opavnic.datapath.selection import load_native, why_not_native

if TYPE_CHECKING:
    from opavnic import _native

DROPS: Final = tuple(Drop)
"""By the number that the native module has for each."""
_MOST: Final = (1 << 64) - 1
"""The largest number of 64 bits; rates and limits beyond it mean the same."""


class NativeEngine(Engine):
    """Elements in Rust; the ones here are where they count."""

    def __init__(self, icrc: Icrc, carrier: _native.Carrier | None = None) -> None:
        """Make an engine without elements.

        Args:    carrier: take its engine; None: one that is driven here alone.
        Raises:  DatapathUnavailableError: it is not built; the ICRC has a polynomial of its own.
        """
        module = load_native()
        if module is None:
            raise DatapathUnavailableError(why_not_native())
        if icrc.polynomial != IBA_POLYNOMIAL:
            raise DatapathUnavailableError(
                f"the native engine knows no ICRC polynomial but {IBA_POLYNOMIAL:#010x}; "
                f"this fabric has {icrc.polynomial:#010x}"
            )
        self._native: _native.FabricEngine = module.FabricEngine(DROPS) if carrier is None else carrier.engine
        self._carrier = carrier
        self._make_ring: type[_native.CaptureRing] = module.CaptureRing
        # called for each packet, and the same there
        self.handle_timeout = self._native.handle_timeout  # type: ignore[method-assign]
        self.send = self._native.send  # type: ignore[method-assign]
        self.inject = self._native.inject  # type: ignore[method-assign]
        self.step = self._native.step  # type: ignore[method-assign]
        self._ports: dict[PortId, tuple[PacketCounters, PacketCounters, CongestionCounters]] = {}
        self._switches: list[PacketCounters] = []
        self._directions: dict[DirectionId, tuple[PacketCounters, RandomStream, RandomStream]] = {}
        self._flows: dict[DirectionId, FlowControl] = {}
        self._tallies = _Tallies()

    # --- elements ------------------------------------------------------------------------------------------

    def add_port(self, tx: PacketCounters, rx: PacketCounters, congestion: CongestionCounters) -> PortId:
        number = PortId(self._native.add_port())
        self._ports[number] = tx, rx, congestion
        return number

    def add_port0(
        self, switch: SwitchId, tx: PacketCounters, rx: PacketCounters, congestion: CongestionCounters
    ) -> PortId:
        number = PortId(self._native.add_port0(switch))
        self._ports[number] = tx, rx, congestion
        return number

    def add_switch(self, counters: PacketCounters) -> SwitchId:
        self._switches.append(counters)
        return SwitchId(self._native.add_switch())

    def add_link(
        self,
        ends: tuple[End, End],
        configs: tuple[LinkConfig, LinkConfig],
        counters: tuple[PacketCounters, PacketCounters],
        streams: tuple[tuple[RandomStream, RandomStream], tuple[RandomStream, RandomStream]],
    ) -> DirectionId:
        (a, b), (there, back) = ends, streams
        first = self._native.add_link(
            (_end(a), _end(b)),
            configs,
            tuple(None if config.flow is None else _flow(config.flow) for config in configs),
            ((there[0].state, there[1].state), (back[0].state, back[1].state)),
        )
        for side, (here, (faults, jitter)) in enumerate(zip(counters, streams, strict=True)):
            number, flow = DirectionId(first + side), configs[side].flow
            self._directions[number] = here, faults, jitter
            if flow is not None:
                self._flows[number] = flow
        return DirectionId(first)

    # --- changes -------------------------------------------------------------------------------------------

    def set_port(self, now: int, port: PortId, config: PortConfig) -> None:
        self._native.set_port(
            now,
            port,
            {
                "state": config.state,
                "lid": config.lid,
                "lmc": config.lmc,
                "sendable": list(config.pkeys.sendable),
                "admitted": list(config.pkeys.admitted),
                "groups": list(config.multicast_lids),
                "any_group": config.any_group,
                "egress": _egress(config.egress),
            },
        )

    def forget(self, now: int, ports: Sequence[PortId], directions: Sequence[DirectionId]) -> None:
        self._native.handle_timeout(now)
        self.count()
        self._native.forget(now, ports, directions)
        for direction in directions:
            self._tallies.use(direction, [])
            self._directions.pop(direction, None)
            self._flows.pop(direction, None)
        for port in ports:
            self._ports.pop(port, None)

    def stall_port(self, now: int, port: PortId, stalled: bool) -> None:
        self._native.stall_port(now, port, stalled)

    def set_switch(self, now: int, switch: SwitchId, up: bool) -> None:
        self._native.set_switch(now, switch, up)

    def set_switch_port(self, now: int, switch: SwitchId, port_num: int, config: SwitchPortConfig) -> None:
        pkeys_in, pkeys_out = config.pkeys_in, config.pkeys_out
        self._native.set_switch_port(
            now,
            switch,
            port_num,
            {
                "state": config.state,
                "egress": _egress(config.egress),
                "pkeys_in": None if pkeys_in is None else list(pkeys_in.borne),
                "pkeys_out": None if pkeys_out is None else list(pkeys_out.admitted),
                "sc_to_sc": list(config.sc_to_sc.items()),
            },
        )

    def set_tables(
        self, now: int, switch: SwitchId, lft: LinearTable, mft: Mapping[int, frozenset[int]]
    ) -> None:
        groups = [(lid, list(ports)) for lid, ports in mft.items()]
        self._native.set_tables(now, switch, lft.entries.tobytes(), lft.groups, groups)

    def set_link(self, now: int, direction: DirectionId, config: LinkConfig, up: bool = True) -> None:
        if direction not in self._directions:
            return
        before = self._flows.get(direction)
        if (config.flow is None) != (before is None):
            raise ValueError("a direction of a link gets credits when it is created, or never")
        self._native.set_link(now, direction, config, up)
        if config.flow is not None and config.flow != before:
            self._flows[direction] = config.flow
            self._native.set_flow(now, direction, _flow(config.flow))

    def set_rules(self, now: int, direction: DirectionId, rules: Sequence[FaultRule]) -> None:
        if direction not in self._directions:
            return
        self._native.handle_timeout(now)  # the old rules act, and are counted, up to now
        self.count()
        slots = self._tallies.use(direction, [rule.tally for rule in rules])
        for slot, rule in zip(slots, rules, strict=True):
            self._native.set_tally(slot, rule.tally.seen, rule.tally.hits)
        self._native.set_rules(now, direction, list(zip(rules, slots, strict=True)))

    def observe(self, now: int, direction: DirectionId, on: bool) -> None:
        self._native.observe(now, direction, on)

    def capture_ring(self, config: CaptureConfig) -> CaptureRing:
        return self._make_ring(
            {
                "interfaces": config.interfaces,
                "fits": config.match,
                "snap": config.snap,
                "limit": config.limit,
                "epoch_ns": config.epoch_ns,
                "segments": config.segments,
                "segment_bytes": config.segment_bytes,
            }
        )

    def attach(self, now: int, direction: DirectionId, ring: CaptureRing, interface: int) -> None:
        self._native.attach(now, direction, cast("_native.CaptureRing", ring), interface)

    def detach(self, now: int, direction: DirectionId, ring: CaptureRing) -> None:
        self._native.detach(now, direction, cast("_native.CaptureRing", ring))

    # --- packets -------------------------------------------------------------------------------------------

    def send(self, now: int, port: PortId, data: bytes) -> Drop | None:
        return self._native.send(now, port, data)

    def inject(self, now: int, port: PortId, packet: bytes, slid: int, dlid: int, pkey: int) -> Drop | None:
        return self._native.inject(now, port, packet, slid, dlid, pkey)

    def direct(self, now: int, port: PortId, out_port: int, data: bytes) -> Drop | None:
        return self._native.direct(now, port, out_port, data)

    def arrive(self, now: int, direction: DirectionId, records: Sequence[bytes]) -> None:
        self._native.arrive(now, direction, records)

    def open_gate(self, peers: Sequence[Sequence[tuple[int, int]]]) -> _native.Gate | None:
        """Open the gate of the carrier to other machines; None: there is no carrier, and what leaves is an output.

        Args:  peers: of each other machine, the directions of each link, there and back.
        """
        return None if self._carrier is None else self._carrier.gate(peers)

    def keep(self, token: BufferToken) -> None:
        self._native.keep(token)

    def release(self, now: int, token: BufferToken) -> None:
        self._native.release(now, token)

    # --- time and results ----------------------------------------------------------------------------------

    def handle_timeout(self, now: int) -> None:
        self._native.handle_timeout(now)

    @property
    def deadline(self) -> int | None:
        return self._native.deadline

    def poll_output(self) -> Output | None:
        return self._native.poll_output()

    def step(self, now: int) -> Sequence[Output]:
        return self._native.step(now)

    # --- looking -------------------------------------------------------------------------------------------

    def is_stopped(self, port: PortId) -> bool:
        return self._native.is_stopped(port)

    def is_holding(self, direction: DirectionId) -> bool:
        return self._native.is_holding(direction)

    def lanes(self, direction: DirectionId) -> LanesStatus | None:
        lanes = self._native.lanes(direction)
        if lanes is None:
            return None
        credits_left, waiting, occupied, fecn_marked, blocked, held = lanes
        return LanesStatus(
            tuple(credits_left), tuple(waiting), tuple(occupied), fecn_marked, tuple(blocked), tuple(held)
        )

    def waiting_on(self, direction: DirectionId, sc: int) -> int:
        return self._native.waiting_on(direction, sc)

    def vl_counters(self, now: int, direction: DirectionId) -> tuple[VlCounters, ...]:
        more, rows = self._native.vl_counters(now, direction)
        self.count()
        return vl_counters(self._directions[direction][0], Uncounted(*more), rows)

    def wire_counters(self, now: int, direction: DirectionId) -> WireCounters:
        return WireCounters(*self._native.wire_counters(now, direction))

    def port_errors(self, now: int, end: End) -> Mapping[Drop, PortError]:
        errors = self._native.port_errors(now, _end(end))
        return {reason: PortError(packets, first) for reason, packets, first in errors}

    def forget_errors(self, now: int, end: End, reasons: Iterable[Drop]) -> None:
        self._native.forget_errors(now, _end(end), [DROPS.index(reason) for reason in reasons])

    def count(self) -> None:
        """Add what has been counted since the last time to the counters that elements were given."""
        for counted in self._native.take_counts():
            if counted[0] == "direction":
                if (direction := self._directions.get(DirectionId(counted[1]))) is not None:
                    counters, faults, jitter = direction
                    _add(counters, counted[2])
                    if counted[3] is not None:  # from the worker that draws from them
                        faults.state, jitter.state = counted[3]
            elif counted[0] == "switch":
                _add(self._switches[counted[1]], counted[2])
            elif counted[0] == "tally":
                if (tally := self._tallies.slots[counted[1]]) is not None:
                    tally.seen, tally.hits = counted[2], counted[3]
            elif (port := self._ports.get(PortId(counted[1]))) is None:
                continue
            elif counted[0] == "port":
                _add(port[0], counted[2])
                _add(port[1], counted[3])
            else:
                _add_congestion(port[2], counted[2])


class _Tallies:
    """The numbers under which the native engine knows tallies; a number is free again when no direction uses it."""

    def __init__(self) -> None:
        self.slots: list[Tally | None] = []
        self._users: list[int] = []
        self._used: dict[int, list[int]] = {}
        """The numbers in use, by direction."""

    def use(self, direction: int, tallies: Sequence[Tally]) -> list[int]:
        """Let a direction use these instead of what it used; return their numbers."""
        numbers = [self._number(tally) for tally in tallies]
        for number in numbers:
            self._users[number] += 1
        for number in self._used.pop(direction, ()):
            self._users[number] -= 1
            if self._users[number] == 0:
                self.slots[number] = None
        if numbers:
            self._used[direction] = numbers
        return numbers

    def _number(self, tally: Tally) -> int:
        free = len(self.slots)
        for number, other in enumerate(self.slots):
            if other is tally:
                return number
            if other is None:
                free = min(free, number)
        if free == len(self.slots):
            self.slots.append(None)
            self._users.append(0)
        self.slots[free] = tally
        return free


def _end(end: End) -> tuple[int, int | None] | None:
    if isinstance(end, BoundaryEnd):
        return None
    return (end.port, None) if isinstance(end, HfiEnd) else (end.switch, end.port_num)


def _egress(egress: Egress) -> _native.FabricEgress:
    arbitration, buffers = egress.arbitration, egress.buffers
    return {
        "sc_to_vl": egress.sc_to_vl or None,
        "vl_mtus": egress.vl_mtus or None,
        "arbitration": None
        if arbitration is None
        else {
            "low": arbitration.low,
            "high": arbitration.high,
            "high_limit_bytes": arbitration.high_limit_bytes,
        },
        "hoq_codes": egress.hoq_codes or None,
        "buffers": None
        if buffers is None
        else {
            "dedicated": buffers.dedicated,
            "shared": buffers.shared,
            "overall_shared": buffers.overall_shared,
        },
    }


def _flow(flow: FlowControl) -> _native.FabricFlow:
    return {
        "buffer_bytes": flow.buffer_bytes,
        "sc_to_vl": flow.map(),
        "fecn_bytes": max(0, min(flow.fecn_bytes, _MOST)),
        "weights": tuple(flow.weights) or (1,) * flow.vls,
        "high": tuple(flow.high),
        "high_limit_bytes": flow.high_limit_bytes,
        "shared_bytes": flow.shared_bytes,
        "hoq_code": flow.hoq_code,
    }


def _add(counters: PacketCounters, more: _native.FabricCounts) -> None:
    (in_packets, in_bytes, copies, out_packets, out_bytes), in_flight, drops = more
    counters.in_packets += in_packets
    counters.in_bytes += in_bytes
    counters.copies += copies
    counters.out_packets += out_packets
    counters.out_bytes += out_bytes
    counters.in_flight += in_flight
    for reason, packets in drops:
        counters.drop(DROPS[reason], packets)


def _add_congestion(counters: CongestionCounters, more: Sequence[int]) -> None:
    fecn_received, becn_sent, becn_received, tx_stops = more
    counters.fecn_received += fecn_received
    counters.becn_sent += becn_sent
    counters.becn_received += becn_received
    counters.tx_stops += tx_stops
