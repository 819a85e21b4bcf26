"""How fast the simulated fabric is: packets per second over a number of hops, routing time, memory per host.

It measures only hfi_sim and so uses no World, which would take about 4 % more memory per host."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any, Final

from hfi_sim.clock import ManualClock
from hfi_sim.engine.outputs import BufferToken
from hfi_sim.fabric import Fabric
from hfi_sim.hfi import HfiPort
from hfi_sim.subnet_manager import Routing, SubnetManager
from hfi_sim.topology import Topology
from hfi_sim.topology.generators import fat_tree_for
from hfi_sim.wire.lrh16b import Lrh16B
from hfi_sim.wire.packet import build_packet
from opavnic.engine import ENGINES, engine_factory
from opavnic.errors import DatapathUnavailableError
from opavnic_bench.turns import PeerError, Progress, repeat, silent, take_turns

HOPS: Final = (1, 3, 5)
TIMES: Final = ("at-once", "virtual")
ROUTINGS: Final = ("min-hop", "fat-tree")
_BATCH: Final = 500
_L4: Final = 0x55
_PAYLOAD: Final = 1024


@dataclass(frozen=True, slots=True)
class HopFigure:
    """Packets of 1 KiB payload from host to host."""

    hops: int
    """Number of switches on the path."""
    time: str
    """at-once: no clock; virtual: every link with its rate and latency on virtual time."""
    engine: str
    """What carries the packets: python or native."""
    endpoints: str
    """What sends and receives them."""
    packets_per_second: float


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


def bench_fabric(seconds: float, hosts: Sequence[int], progress: Progress = silent) -> dict[str, Any]:
    """Measure all; `seconds` is how long each packet measurement lasts."""
    hops = take_turns(
        [(hops, time, engine) for hops in HOPS for time in TIMES for engine in ENGINES],
        lambda line: _hops(*line, seconds),
        label=lambda line: "{} switches, {}, {} engine".format(*line),
        progress=progress,
    )
    routing = take_turns(
        [(count, engine) for count in hosts for engine in ROUTINGS],
        lambda tree: _routing(*tree),
        label=lambda tree: "{} hosts, {}".format(*tree),
        progress=progress,
    )
    return {
        "hops": [asdict(figure) for figure in hops.single()],
        "routing": [asdict(figure) for figure in routing.single()],
    }


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


def _hops(hops: int, time: str, engine: str, seconds: float) -> HopFigure:
    clock = ManualClock() if time == "virtual" else None
    try:
        fabric = _line(hops).build(Fabric(clock, seed=1, engine=engine_factory(engine)))
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

    _, elapsed = repeat(step, seconds)
    return HopFigure(hops, time, engine, "python", round(arrived / elapsed))


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
