"""`opavnic bench lnet`: throughput by number of HFIs, bonding beside Multi-Rail, CPU time by number of peers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Final

from opavnic_bench.base.turns import Progress, silent, take_turns
from opavnic_bench.lnet.bonding import (
    FAULTS,
    LOADS,
    MESSAGES_PER_HFI,
    SHAPES,
    WAYS,
    Bed,
    CpuRun,
    FaultRun,
    ShapeRun,
    run_cpu,
    run_fault,
    run_shape,
)

PEERS: Final = (1, 16, 63)
"""Numbers of peers for the CPU time of a message."""


@dataclass(frozen=True, slots=True)
class BenchRun:
    """One run with a number of HFIs on each host."""

    hfis: int
    virtual_gbps: float
    """Payload per second of virtual time, on links of 10 Gb/s."""
    real_gbps: float
    """Payload per second of real time: how fast this machine simulates."""


def run_once(hfis: int, virtual_seconds: float = 0.02) -> BenchRun:
    """Send 1 MiB messages from one host with `hfis` HFIs to another for `virtual_seconds`."""
    bed = Bed("o2ibs", hfis, hfis)
    began = time.perf_counter()
    result = bed.load(MESSAGES_PER_HFI * hfis, virtual_seconds)
    real_s = time.perf_counter() - began
    return BenchRun(hfis, round(result.gbps, 3), round(result.bytes * 8 / real_s / 1e9, 3))


def bench_lnet(
    hfis: Iterable[int] = (1, 2, 3, 4),
    virtual_seconds: float = 0.02,
    progress: Progress = silent,
    *,
    compare: bool = True,
) -> dict[str, Any]:
    """Measure everything, or with `compare` False only the growth with the number of HFIs.

    Returns: `runs`, `shapes`, `faults` and `cpu`: lists of BenchRun, ShapeRun, FaultRun and CpuRun as plain data.
    """
    measures: dict[str, Callable[[], Any]] = {
        f"{count} HFIs": partial(run_once, count, virtual_seconds) for count in hfis
    }
    if compare:
        measures |= {
            f"{shape}, {way}": partial(run_shape, shape, way, virtual_seconds)
            for shape in SHAPES
            for way in WAYS
        }
        measures |= {
            f"{fault}, {load}, {way}": partial(run_fault, fault, load, way)
            for fault in FAULTS
            for load in LOADS
            for way in ("o2ibs", "multi-rail")
        }
        measures |= {f"CPU with {peers} peers": partial(run_cpu, peers) for peers in PEERS}
    results = take_turns([*measures], lambda name: measures[name](), progress=progress).single()
    kinds: dict[str, type[BenchRun | ShapeRun | FaultRun | CpuRun]] = {
        "runs": BenchRun,
        "shapes": ShapeRun,
        "faults": FaultRun,
        "cpu": CpuRun,
    }
    return {
        name: [asdict(result) for result in results if isinstance(result, kind)]
        for name, kind in kinds.items()
    }
