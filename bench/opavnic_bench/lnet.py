"""`opavnic bench lnet`: how throughput grows with the number of HFIs, in virtual time and in real time."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Final

from hfi_sim.clock import ManualClock
from lnet.nid import Nid
from lnet.node import LnetNode
from lnet.rig import LnetRig
from lnet.selftest import Selftest, SelftestResult
from lnet.tx import TxKind
from opavnic_bench.turns import Progress, silent, take_turns

LINK_BPS: Final = 10e9
"""Rate of every link in virtual time; only ratios matter."""
MESSAGE_BYTES: Final = 1 << 20
MESSAGES_PER_HFI: Final = 8


@dataclass(frozen=True, slots=True)
class BenchRun:
    """One run with a number of HFIs on each host."""

    hfis: int
    virtual_gbps: float
    """Payload per second of virtual time, on links of LINK_BPS."""
    real_gbps: float
    """Payload per second of real time: how fast this machine simulates."""


def starter(node: LnetNode) -> Any:
    """Return the function with which a Selftest starts messages on `node`."""

    def start(kind: TxKind, nid: Nid, size: int) -> int:
        if kind is TxKind.PUT:
            return node.put(nid, bytes(size))
        return node.get(nid, size)

    return start


def run_once(hfis: int, virtual_seconds: float = 0.02) -> BenchRun:
    """Send 1 MiB messages from one host with `hfis` HFIs to another for `virtual_seconds`."""
    clock = ManualClock()
    rig = LnetRig(clock, rate_bps=LINK_BPS)
    ends = {name: [f"10.1.{net}.{2 + i}" for i in range(hfis)] for net, name in enumerate("ab", 1)}
    targets = "".join(f"{addrs[0]}@o2ib0 {' '.join(addrs)}\n" for addrs in ends.values())
    hosts = {name: rig.add_host(name, addrs, targets=targets) for name, addrs in ends.items()}
    node = hosts["a"].node
    results: list[SelftestResult] = []
    selftest = Selftest(
        clock,
        starter(node),
        hosts["b"].nid,
        size=MESSAGE_BYTES,
        concurrency=MESSAGES_PER_HFI * hfis,
        seconds=virtual_seconds,
        on_end=results.append,
    )
    reports = hosts["a"].reports
    node.on_report = lambda report: None if selftest.on_report(report) else reports.append(report)
    hosts["b"].node.on_report = lambda report: None
    began = time.perf_counter()
    selftest.begin()
    while not results:
        clock.advance(1e-3)
    real_s = time.perf_counter() - began
    result = results[0]
    return BenchRun(hfis, round(result.gbps, 3), round(result.bytes * 8 / real_s / 1e9, 3))


def bench_lnet(
    hfis: Iterable[int] = (1, 2, 3, 4), virtual_seconds: float = 0.02, progress: Progress = silent
) -> dict[str, Any]:
    """Return `{"runs": [{hfis, virtual_gbps, real_gbps}, ...]}`."""
    run = take_turns(
        [*hfis],
        lambda count: run_once(count, virtual_seconds),
        label=lambda count: f"{count} HFIs",
        progress=progress,
    )
    return {"runs": [asdict(figures) for figures in run.single()]}
