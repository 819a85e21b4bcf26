"""How fast the simulated fabric is: packets per second over a number of hops, routing time, memory per host.

It measures only hfi_sim and so uses no World, which would take about 4 % more memory per host."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from time import perf_counter
from typing import Any, Final

from hfi_sim.base.clock import ManualClock
from hfi_sim.engine.events.outputs import BufferToken
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.fabric.topology import Topology
from hfi_sim.fabric.topology.generators import fat_tree_for
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.subnet_manager import Routing, SubnetManager
from hfi_sim.wire.lrh16b import Lrh16B
from hfi_sim.wire.packet import build_packet
from opavnic.base.errors import DatapathUnavailableError
from opavnic.datapath.selection import NOT_BUILT, load_native
from opavnic.engine import ENGINES, engine_factory
from opavnic_bench.base.sites import run
from opavnic_bench.base.turns import PeerError, Progress, Run, ratio, repeat, silent, take_turns

HOPS: Final = (1, 3, 5)
TIMES: Final = ("at-once", "virtual")
ROUTINGS: Final = ("min-hop", "fat-tree")
_BATCH: Final = 500
_BESIDE_S: Final = 120.0
"""For what another installation does besides measuring lines."""
_L4: Final = 0x55
_PAYLOAD: Final = 1024


@dataclass(frozen=True, slots=True)
class Line:
    """Packets of 1 KiB payload from host to host, over switches in a row."""

    hops: int
    """Number of switches on the path."""
    time: str
    """at-once: no clock; virtual: every link with its rate and latency on virtual time."""
    engine: str
    """What carries the packets: python or native."""
    endpoints: str = "python"
    """What sends and receives them."""

    def __str__(self) -> str:
        """Return its name for progress."""
        return f"{self.hops} switches, {self.time}, {self.engine} engine, {self.endpoints} ends"


@dataclass(frozen=True, slots=True)
class RoutingFigure:
    """One fat tree."""

    hosts: int
    switches: int
    engine: str
    build_s: float
    sweep_s: float
    """Discovery, LIDs, routes, tables of all switches, ports to ACTIVE."""
    bytes_per_host: float
    """Python's memory for fabric and tables, switches included, divided by the hosts."""


@dataclass(frozen=True, slots=True)
class Beside:
    """The lines of another installation, as its own benchmark measures them."""

    program: tuple[str, ...]

    def __str__(self) -> str:
        """Return its name for progress."""
        return f"{self.program[0]} bench fabric"


Speeds = dict[Line, float]
"""Packets per second."""


def bench_fabric(
    seconds: float,
    hosts: Sequence[int],
    *,
    rounds: int = 1,
    beside: tuple[str, ...] | None = None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Measure all.

    Args:  seconds: how long each packet measurement lasts. rounds: of the packet measurements; medians count.
           beside: the program `opavnic` of another installation, to measure in turns with this one.
    """
    lines: list[Line | Beside] = [
        Line(hops, time, engine) for hops in HOPS for time in TIMES for engine in ENGINES
    ]
    lines += [Line(hops, "virtual", "native", "native") for hops in HOPS]
    if beside is not None:
        lines.append(Beside(beside))
    hops = take_turns(
        lines,
        lambda line: _beside(line, seconds) if isinstance(line, Beside) else {line: _speed(line, seconds)},
        rounds,
        progress=progress,
    )
    routing = take_turns(
        [(count, engine) for count in hosts for engine in ROUTINGS],
        lambda tree: _routing(*tree),
        label=lambda tree: "{} hosts, {}".format(*tree),
        progress=progress,
    )
    ours, theirs = _medians(hops, Line), _medians(hops, Beside)
    result = {"hops": _rows(ours), "routing": [asdict(figure) for figure in routing.single()]}
    if beside is not None:
        result |= {"beside": _rows(theirs), "ratio_to_beside": _ratios(ours, theirs)}
    return result | {"rounds": hops.rounds, "skipped": hops.skipped}


def _medians(turns: Run[Line | Beside, Speeds], kind: type[Line | Beside]) -> Speeds:
    found: dict[Line, list[float]] = {}
    for subject, samples in turns.samples.items():
        for sample in samples if isinstance(subject, kind) else ():
            for line, speed in sample.items():
                found.setdefault(line, []).append(speed)
    return {line: median(speeds) for line, speeds in found.items()}


def _rows(speeds: Speeds) -> list[dict[str, Any]]:
    return [{**asdict(line), "packets_per_second": round(speed)} for line, speed in speeds.items()]


def _ratios(ours: Speeds, theirs: Speeds) -> list[dict[str, Any]]:
    """Return our speeds relative to that of the other installation's Python engine on the same line."""
    found = []
    for line, speed in ours.items():
        other = theirs.get(Line(line.hops, line.time, "python"))
        if other is not None:
            found.append({**asdict(line), "ratio": ratio(speed, other)})
    return found


def _beside(beside: Beside, seconds: float) -> Speeds:
    words = ("bench", "fabric", "--json", "--seconds", f"{seconds:g}", "--hosts", "2")
    text = run(
        *beside.program, *words, timeout_s=_BESIDE_S + len(HOPS) * len(TIMES) * len(ENGINES) * 2 * seconds
    )
    try:
        return {
            # before there were two engines, it did not say which
            Line(row["hops"], row["time"], row.get("engine", "python"), row.get("endpoints", "python")): row[
                "packets_per_second"
            ]
            for row in json.loads(text)["hops"]
        }
    except (ValueError, KeyError, TypeError) as error:
        raise PeerError(f"{beside}: no figures of hops in what it printed") from error


def _speed(line: Line, seconds: float) -> float:
    return _native_ends(line, seconds) if line.endpoints == "native" else _hops(line, seconds)


def _native_ends(line: Line, seconds: float) -> float:
    native = load_native()
    if native is None:
        raise PeerError(NOT_BUILT)
    return float(native.measure_line(line.hops, seconds))


def _line(hops: int) -> Topology:
    topology = Topology(f"{hops} switches in a row")
    for number in range(hops):
        topology.switch(f"sw{number}", ports=4)
    for name, switch in (("a", "sw0"), ("b", f"sw{hops - 1}")):
        topology.hfi(name)
        topology.join(name, switch)
    for number in range(hops - 1):
        topology.join(f"sw{number}", f"sw{number + 1}")
    return topology


def _hops(line: Line, seconds: float) -> float:
    clock = ManualClock() if line.time == "virtual" else None
    try:
        fabric = _line(line.hops).build(Fabric(clock, seed=1, engine=engine_factory(line.engine)))
    except DatapathUnavailableError as error:
        raise PeerError(str(error)) from error
    a, b = (fabric.hfis[name].ports[1] for name in "ab")
    SubnetManager(fabric, a).sweep()
    arrived = 0

    def take(_port: HfiPort, _packet: bytes, _token: BufferToken | None) -> None:
        nonlocal arrived
        arrived += 1

    b.register_l4(_L4, take)
    lrh = Lrh16B(a.lid, b.lid, l4=_L4, pkey=0xFFFF)
    packet = build_packet(lrh, bytes(_PAYLOAD), fabric.icrc)

    def step() -> int:
        for _ in range(_BATCH):
            a.send(packet)
        if clock is not None:
            clock.advance(1e-3)
        return _BATCH

    sent, elapsed = repeat(step, seconds)
    if arrived != sent:
        raise PeerError(f"{sent - arrived} of {sent} packets were lost")
    return arrived / elapsed


def _routing(hosts: int, engine: str) -> RoutingFigure:
    start = perf_counter()
    fabric = fat_tree_for(hosts).build(Fabric())
    built = perf_counter()
    SubnetManager(fabric, routing=Routing(engine=engine)).sweep()
    swept = perf_counter()
    switches = len(fabric.switches)
    del fabric
    tracemalloc.start()
    try:
        measured = fat_tree_for(hosts).build(Fabric())
        SubnetManager(measured, routing=Routing(engine=engine)).sweep()
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return RoutingFigure(
        hosts,
        switches,
        engine,
        build_s=round(built - start, 3),
        sweep_s=round(swept - built, 3),
        bytes_per_host=round(size / hosts),
    )
