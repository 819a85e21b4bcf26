"""How fast the simulated fabric is: packets a second over a number of hops, routing time, memory per host."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Annotated, Any, Final

import typer

from hfi_sim.clock import ManualClock
from hfi_sim.fabric import Fabric
from hfi_sim.hfi import HfiPort
from hfi_sim.subnet_manager import Routing, SubnetManager
from hfi_sim.topology import Topology
from hfi_sim.topology.generators import fat_tree_for
from hfi_sim.wire.lrh16b import Lrh16B
from hfi_sim.wire.packet import build_packet
from opavnic.cli.output import print_json, print_table

HOPS: Final = (1, 3, 5)
HOSTS: Final = (128, 1024, 4096)
DEFAULT_SECONDS: Final = 1.0
_BATCH: Final = 500
_L4: Final = 0x55
_PAYLOAD: Final = 1024


@dataclass(frozen=True, slots=True)
class HopFigure:
    """Packets of 1 KiB payload from host to host."""

    hops: int
    """Switches on the way."""
    time: str
    """at-once: no clock; virtual: every link with its rate and latency on virtual time."""
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
    """Python's memory for fabric and tables, switches included, shared out among the hosts."""


def bench_fabric(seconds: float = DEFAULT_SECONDS, hosts: Sequence[int] = HOSTS) -> dict[str, Any]:
    """Measure all; `seconds` is how long each packet measurement lasts."""
    hop_figures = [_hops(hops, virtual, seconds) for hops in HOPS for virtual in (False, True)]
    routing = [_routing(count, engine) for count in hosts for engine in ("min-hop", "fat-tree")]
    return {"hops": [asdict(one) for one in hop_figures], "routing": [asdict(one) for one in routing]}


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


def _hops(hops: int, virtual: bool, seconds: float) -> HopFigure:
    clock = ManualClock() if virtual else None
    fabric = _line(hops).build(Fabric(clock, seed=1))
    a, b = (fabric.hfis[name].ports[1] for name in "ab")
    SubnetManager(fabric, a).sweep()
    arrived = 0

    def take(_: HfiPort, packet: bytes) -> None:
        nonlocal arrived
        arrived += 1

    b.register_l4(_L4, take)
    lrh = Lrh16B(a.lid, b.lid, l4=_L4, pkey=0xFFFF)
    packet = build_packet(lrh, bytes(_PAYLOAD), fabric.icrc)
    rate = _packets_per_second(lambda: a.send(packet), clock, seconds, lambda: arrived)
    return HopFigure(hops, "virtual" if virtual else "at-once", round(rate))


def _packets_per_second(
    send: Callable[[], object], clock: ManualClock | None, seconds: float, arrived: Callable[[], int]
) -> float:
    start = perf_counter()
    while (elapsed := perf_counter() - start) < seconds:
        for _ in range(_BATCH):
            send()
        if clock is not None:
            clock.advance(1e-3)
    return arrived() / elapsed


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
        hosts, switches, engine, round(built - start, 3), round(swept - built, 3), round(size / hosts)
    )


def fabric(
    seconds: Annotated[
        float, typer.Option(min=0.01, help="how long each packet measurement lasts")
    ] = DEFAULT_SECONDS,
    hosts: Annotated[
        list[int] | None, typer.Option(min=2, help="hosts of a fat tree to route; may be repeated")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Packets per second over 1, 3 and 5 switches; time to route fat trees; memory per host.

    \b
    Example:
      opavnic bench fabric --json
    """
    result = bench_fabric(seconds, tuple(hosts) if hosts else HOSTS)
    if as_json:
        print_json(result)
        return
    print_table(("switches", "time", "packets/s"), [list(one.values()) for one in result["hops"]])
    columns = ("hosts", "switches", "engine", "build s", "route s", "bytes/host")
    print_table(columns, [list(one.values()) for one in result["routing"]])
