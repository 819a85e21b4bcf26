"""Several engines that get the same inputs, each compared with the first event by event.

Twins({"python": PythonEngine, "native": NativeEngine}, icrc) is an engine itself: a fabric that is built on it runs on
the first, and every input goes to all of them. `difference` says where they first differ; from there on the first runs
alone.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import pytest

from hfi_sim.base.counters import CongestionCounters, Drop, PacketCounters
from hfi_sim.base.random_stream import RandomStream
from hfi_sim.engine.api import Engine, EngineFactory, PortError
from hfi_sim.engine.config import End, PortConfig, SwitchPortConfig
from hfi_sim.engine.events.outputs import BufferToken, DirectionId, Output, PortId, SwitchId
from hfi_sim.engine.link.capture import CaptureConfig, CaptureRing
from hfi_sim.engine.link.config import LinkConfig
from hfi_sim.engine.link.credits import LanesStatus
from hfi_sim.engine.link.rule import FaultRule, Tally
from hfi_sim.engine.link.vl_counters import VlCounters, WireCounters
from hfi_sim.routing.table import LinearTable
from hfi_sim.wire.icrc import Icrc
from native_module import REQUIRED
from opavnic.base.errors import DatapathUnavailableError
from opavnic.engine import ENGINES, engine_factory

T = TypeVar("T")
_Question = tuple[object, ...]
"""The name of a method and its arguments."""

_SHOWN: Final = 6
"""Inputs before a difference that are shown."""
_TX_DROPS: Final = (Drop.TX_SLID, Drop.TX_DLID, Drop.TX_PKEY)
_RX_DROPS: Final = (
    Drop.RX_PORT_DOWN,
    Drop.RX_TRUNCATED,
    Drop.RX_L2,
    Drop.RX_LENGTH,
    Drop.RX_ICRC,
    Drop.RX_DLID,
    Drop.RX_PKEY,
    Drop.RX_OVERFLOW,
)
"""What an engine counts at a port and nobody else does: hosts count there as well."""


def built_engines() -> dict[str, EngineFactory]:
    """Return the engines that can be had here, by name."""
    engines = {}
    for name in ENGINES:
        with contextlib.suppress(DatapathUnavailableError):
            engines[name] = engine_factory(name)
    return engines


needs_both_engines: Final = pytest.mark.skipif(
    len(built_engines()) < len(ENGINES) and not REQUIRED,
    reason="the native engine is not built here: there is nothing to compare the Python engine with",
)


class _Count:
    """What a fault of a twin has done."""

    def __init__(self, like: Tally) -> None:
        self.like = like
        self.seen = like.seen
        self.hits = like.hits


@dataclass(frozen=True)
class _Raised:
    """What an engine did instead of returning."""

    kind: type[Exception]
    text: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Raised) and other.kind is self.kind

    def __hash__(self) -> int:
        return hash(self.kind)


class TwinRing(CaptureRing):
    """One ring of each engine; what is asked of it is asked of all."""

    def __init__(self, twins: Twins, rings: Sequence[CaptureRing]) -> None:
        self.rings = rings
        self._twins = twins

    def take(self, rest: bool) -> bytes:
        return self._twins.ask_rings(self, ("take", rest), lambda ring: ring.take(rest))

    def counts(self) -> list[tuple[int, int]]:
        return self._twins.ask_rings(self, ("counts",), lambda ring: ring.counts())

    def totals(self) -> tuple[int, int]:
        return self._twins.ask_rings(self, ("totals",), lambda ring: ring.totals())

    @property
    def is_complete(self) -> bool:
        return self._twins.ask_rings(self, ("is_complete",), lambda ring: ring.is_complete)


class Twins(Engine):
    """The first engine, and the others beside it."""

    def __init__(self, makers: Mapping[str, EngineFactory], icrc: Icrc) -> None:
        """Make all engines. The caller's counters, streams and tallies are the first one's."""
        self.difference: str | None = None
        """The first event that differs; None: none did so far."""
        self.inputs = 0
        self.events = 0
        """Outputs that were compared."""
        self._names = list(makers)
        self._engines = [make(icrc) for make in makers.values()]
        self._ports: list[list[tuple[PacketCounters, PacketCounters, CongestionCounters]]] = []
        self._elements: list[tuple[str, list[PacketCounters]]] = []
        self._streams: list[tuple[str, list[list[RandomStream]]]] = []
        self._tallies: list[dict[int, _Count]] = [{} for _ in self._engines]
        self._inputs: deque[_Question] = deque(maxlen=_SHOWN)

    # --- comparing -----------------------------------------------------------------------------------------

    def _all(self, what: _Question, call: Callable[[int, Engine], T]) -> T:
        """Ask all engines the same, and return what the first one says."""
        try:
            first: T | _Raised = call(0, self._engines[0])
        except Exception as error:
            self._compare(what, _Raised(type(error), str(error)), call)
            raise
        self._compare(what, first, call)
        return first  # type: ignore[return-value]

    def _compare(self, what: _Question, first: object, call: Callable[[int, Engine], object]) -> None:
        if self.difference is not None:
            return
        for index in range(1, len(self._engines)):
            try:
                other = call(index, self._engines[index])
            except Exception as error:
                other = _Raised(type(error), str(error))
            if other != first:
                self._differs(_question(what), index, _text(first), _text(other))
                return

    def _differs(self, what: str, index: int, first: str, other: str) -> None:
        before = "".join(f"\n  {_question(each)}" for each in self._inputs)
        self.difference = (
            f"event {self.events}, {what}:\n{self._names[0]}: {first}\n{self._names[index]}: {other}\n"
            f"after input {self.inputs}, the last of{before}"
        )

    def _input(self, *what: object) -> _Question:
        self.inputs += 1
        self._inputs.append(what)
        return what

    def compare_counters(self) -> None:
        """Compare what the engines have counted; at rest, or after any input."""
        for engine in self._engines:
            engine.count()  # as it stands
        for number, each in enumerate(self._ports):
            self._compare_all(f"counters of port {number}", [_port_view(*counters) for counters in each])
            for tx, rx, _ in each[1:]:
                if tx.balance or rx.balance:
                    self._differs(f"counters of port {number}", 1, "balance 0", f"{tx}, {rx}")
        for name, elements in self._elements:
            self._compare_all(f"counters of {name}", elements)
        for name, streams in self._streams:
            views = [[stream.state for stream in each] for each in zip(*streams, strict=True)]
            self._compare_all(f"random streams of {name}", views)
        for index, tallies in enumerate(self._tallies):
            for tally in tallies.values():
                like = tally.like
                self._compare_all(
                    "what a fault has seen and hit",
                    [
                        (like.seen, like.hits),
                        *[(like.seen, like.hits)] * (index - 1),
                        (tally.seen, tally.hits),
                    ],
                )

    def _compare_all(self, what: str, views: Sequence[object]) -> None:
        for index, view in enumerate(views):
            if view != views[0] and self.difference is None:
                self._differs(what, index, _text(views[0]), _text(view))

    # --- elements ------------------------------------------------------------------------------------------

    def add_port(self, tx: PacketCounters, rx: PacketCounters, congestion: CongestionCounters) -> PortId:
        others = [(PacketCounters(), PacketCounters(), CongestionCounters()) for _ in self._engines[1:]]
        each = [(tx, rx, congestion), *others]
        self._ports.append(each)
        return self._all(self._input("add_port"), lambda index, engine: engine.add_port(*each[index]))

    def add_switch(self, counters: PacketCounters) -> SwitchId:
        each = self._element("a switch", counters)
        return self._all(self._input("add_switch"), lambda index, engine: engine.add_switch(each[index]))

    def add_port0(
        self, switch: SwitchId, tx: PacketCounters, rx: PacketCounters, congestion: CongestionCounters
    ) -> PortId:
        others = [(PacketCounters(), PacketCounters(), CongestionCounters()) for _ in self._engines[1:]]
        each = [(tx, rx, congestion), *others]
        self._ports.append(each)
        what = self._input("add_port0", switch)
        return self._all(what, lambda index, engine: engine.add_port0(switch, *each[index]))

    def _element(self, name: str, counters: PacketCounters) -> list[PacketCounters]:
        each = [counters, *(PacketCounters() for _ in self._engines[1:])]
        self._elements.append((f"{name}, element {len(self._elements)}", each))
        return each

    def add_link(
        self,
        ends: tuple[End, End],
        configs: tuple[LinkConfig, LinkConfig],
        counters: tuple[PacketCounters, PacketCounters],
        streams: tuple[tuple[RandomStream, RandomStream], tuple[RandomStream, RandomStream]],
    ) -> DirectionId:
        each = [self._element(f"a link from {ends[side]}", counters[side]) for side in (0, 1)]
        (a, b), (c, d) = streams
        drawn = [
            [stream, *(RandomStream(stream.state) for _ in self._engines[1:])] for stream in (a, b, c, d)
        ]
        self._streams.append((f"a link between {ends[0]} and {ends[1]}", drawn))

        def add(index: int, engine: Engine) -> DirectionId:
            a, b, c, d = (stream[index] for stream in drawn)
            return engine.add_link(ends, configs, (each[0][index], each[1][index]), ((a, b), (c, d)))

        return self._all(self._input("add_link", ends, configs), add)

    # --- changes -------------------------------------------------------------------------------------------

    def set_port(self, now: int, port: PortId, config: PortConfig) -> None:
        what = self._input("set_port", now, port, config)
        self._all(what, lambda _, engine: engine.set_port(now, port, config))

    def stall_port(self, now: int, port: PortId, stalled: bool) -> None:
        what = self._input("stall_port", now, port, stalled)
        self._all(what, lambda _, engine: engine.stall_port(now, port, stalled))

    def forget(self, now: int, ports: Sequence[PortId], directions: Sequence[DirectionId]) -> None:
        what = self._input("forget", now, ports, directions)
        self._all(what, lambda _, engine: engine.forget(now, ports, directions))

    def set_switch(self, now: int, switch: SwitchId, up: bool) -> None:
        what = self._input("set_switch", now, switch, up)
        self._all(what, lambda _, engine: engine.set_switch(now, switch, up))

    def set_switch_port(self, now: int, switch: SwitchId, port_num: int, config: SwitchPortConfig) -> None:
        what = self._input("set_switch_port", now, switch, port_num, config)
        self._all(what, lambda _, engine: engine.set_switch_port(now, switch, port_num, config))

    def set_tables(
        self, now: int, switch: SwitchId, lft: LinearTable, mft: Mapping[int, frozenset[int]]
    ) -> None:
        what = self._input("set_tables", now, switch, lft, mft)
        self._all(what, lambda _, engine: engine.set_tables(now, switch, lft, mft))

    def set_link(self, now: int, direction: DirectionId, config: LinkConfig, up: bool = True) -> None:
        what = self._input("set_link", now, direction, config, up)
        self._all(what, lambda _, engine: engine.set_link(now, direction, config, up))

    def set_rules(self, now: int, direction: DirectionId, rules: Sequence[FaultRule]) -> None:
        what = self._input("set_rules", now, direction, rules)
        each = [tuple(rules), *(self._own_rules(index, rules) for index in range(1, len(self._engines)))]
        self._all(what, lambda index, engine: engine.set_rules(now, direction, each[index]))

    def _own_rules(self, index: int, rules: Iterable[FaultRule]) -> tuple[FaultRule, ...]:
        tallies = self._tallies[index]
        own = [tallies.setdefault(id(rule.tally), _Count(rule.tally)) for rule in rules]
        return tuple(replace(rule, tally=tally) for rule, tally in zip(rules, own, strict=True))

    def observe(self, now: int, direction: DirectionId, on: bool) -> None:
        what = self._input("observe", now, direction, on)
        self._all(what, lambda _, engine: engine.observe(now, direction, on))

    def capture_ring(self, config: CaptureConfig) -> TwinRing:
        self._input("capture_ring", config)
        return TwinRing(self, [engine.capture_ring(config) for engine in self._engines])

    def attach(self, now: int, direction: DirectionId, ring: CaptureRing, interface: int) -> None:
        assert isinstance(ring, TwinRing)
        what = self._input("attach", now, direction, interface)
        self._all(what, lambda index, engine: engine.attach(now, direction, ring.rings[index], interface))

    def detach(self, now: int, direction: DirectionId, ring: CaptureRing) -> None:
        assert isinstance(ring, TwinRing)
        what = self._input("detach", now, direction)
        self._all(what, lambda index, engine: engine.detach(now, direction, ring.rings[index]))

    def ask_rings(self, ring: TwinRing, what: _Question, call: Callable[[CaptureRing], T]) -> T:
        """Ask the ring of each engine the same, and return what the first one's says."""
        return self._all(("ring", *what), lambda index, _: call(ring.rings[index]))

    # --- packets -------------------------------------------------------------------------------------------

    def send(self, now: int, port: PortId, data: bytes) -> Drop | None:
        what = self._input("send", now, port, data)
        return self._all(what, lambda _, engine: engine.send(now, port, data))

    def inject(self, now: int, port: PortId, packet: bytes, slid: int, dlid: int, pkey: int) -> Drop | None:
        what = self._input("inject", now, port, packet, slid, dlid, pkey)
        return self._all(what, lambda _, engine: engine.inject(now, port, packet, slid, dlid, pkey))

    def direct(self, now: int, port: PortId, out_port: int, data: bytes) -> Drop | None:
        what = self._input("direct", now, port, out_port, data)
        return self._all(what, lambda _, engine: engine.direct(now, port, out_port, data))

    def arrive(self, now: int, direction: DirectionId, records: Sequence[bytes]) -> None:
        what = self._input("arrive", now, direction, *records)
        self._all(what, lambda _, engine: engine.arrive(now, direction, records))

    def is_holding(self, direction: DirectionId) -> bool:
        return self._all(("is_holding", direction), lambda _, engine: engine.is_holding(direction))

    def waiting_on(self, direction: DirectionId, sc: int) -> int:
        return self._all(("waiting_on", direction), lambda _, engine: engine.waiting_on(direction, sc))

    def keep(self, token: BufferToken) -> None:
        self._all(self._input("keep", token), lambda _, engine: engine.keep(token))

    def release(self, now: int, token: BufferToken) -> None:
        self._all(self._input("release", now, token), lambda _, engine: engine.release(now, token))

    # --- time and results ----------------------------------------------------------------------------------

    def handle_timeout(self, now: int) -> None:
        self._all(self._input("handle_timeout", now), lambda _, engine: engine.handle_timeout(now))

    @property
    def deadline(self) -> int | None:
        return self._all(("deadline",), lambda _, engine: engine.deadline)

    def poll_output(self) -> Output | None:
        output = self._all(("poll_output",), lambda _, engine: engine.poll_output())
        self.events += output is not None
        return output

    def step(self, now: int) -> Sequence[Output]:
        outputs = self._all(self._input("step", now), lambda _, engine: tuple(engine.step(now)))
        self.events += len(outputs)
        return outputs

    # --- looking -------------------------------------------------------------------------------------------

    def is_stopped(self, port: PortId) -> bool:
        return self._all(("is_stopped", port), lambda _, engine: engine.is_stopped(port))

    def lanes(self, direction: DirectionId) -> LanesStatus | None:
        return self._all(("lanes", direction), lambda _, engine: engine.lanes(direction))

    def vl_counters(self, now: int, direction: DirectionId) -> tuple[VlCounters, ...]:
        what = self._input("vl_counters", now, direction)
        return self._all(what, lambda _, engine: engine.vl_counters(now, direction))

    def wire_counters(self, now: int, direction: DirectionId) -> WireCounters:
        what = self._input("wire_counters", now, direction)
        return self._all(what, lambda _, engine: engine.wire_counters(now, direction))

    def port_errors(self, now: int, end: End) -> Mapping[Drop, PortError]:
        what = self._input("port_errors", now, end)
        return self._all(what, lambda _, engine: engine.port_errors(now, end))

    def forget_errors(self, now: int, end: End, reasons: Iterable[Drop]) -> None:
        each = tuple(reasons)
        what = self._input("forget_errors", now, end, each)
        self._all(what, lambda _, engine: engine.forget_errors(now, end, each))

    def count(self) -> None:
        self._all(self._input("count"), lambda _, engine: engine.count())


def _port_view(tx: PacketCounters, rx: PacketCounters, congestion: CongestionCounters) -> dict[str, Any]:
    """Return what an engine alone counts at a port."""
    return {
        "sent": (tx.out_packets, tx.out_bytes),
        "received": (rx.in_packets, rx.in_bytes),
        "tx drops": {drop: tx.drops[drop] for drop in _TX_DROPS if drop in tx.drops},
        "rx drops": {drop: rx.drops[drop] for drop in _RX_DROPS if drop in rx.drops},
        "congestion": congestion,
    }


def _question(what: _Question) -> str:
    return f"{what[0]}({', '.join(map(_text, what[1:]))})"


def _text(value: object) -> str:
    """Return a value as it is shown; packets by their length and first bytes."""
    if isinstance(value, bytes):
        return f"{len(value)} bytes {value[:24].hex(' ')}"
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        fields = zip(value._fields, value, strict=True)
        return f"{type(value).__name__}({', '.join(f'{name}={_text(field)}' for name, field in fields)})"
    if isinstance(value, Mapping):
        return f"{type(value).__name__} of {len(value)}" if len(value) > 20 else str(dict(value))
    if isinstance(value, _Raised):
        return f"raised {value.kind.__name__}: {value.text}"
    return str(value)


# --- what was compared, over a whole run of tests --------------------------------------------------------------

_PROPERTY: Final = "engines compared"


def note_comparison(node: pytest.Item, twins: Iterable[Twins]) -> None:
    """Let the end of the run say how much a test has compared."""
    each = list(twins)
    if each:
        differ = sum(one.difference is not None for one in each)
        row = [len(each), sum(one.inputs for one in each), sum(one.events for one in each), differ]
        node.user_properties.append((_PROPERTY, row))


def comparison_line(reports: Iterable[pytest.TestReport]) -> str | None:
    """Return what was compared in all tests; None: nothing was."""
    rows = [
        value
        for report in reports
        if report.when == "teardown"
        for name, value in report.user_properties
        if name == _PROPERTY
    ]
    if not rows:
        return None
    fabrics, inputs, events, differ = (sum(column) for column in zip(*rows, strict=True))
    verdict = f"{differ} fabrics differ" if differ else "no difference"
    return f"engines compared: {len(rows)} scenarios, {fabrics} fabrics, {inputs} inputs, {events} events: {verdict}"
