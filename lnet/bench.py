"""`opavnic bench lnet`: how throughput grows with the number of HFIs, in virtual time and in real time."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Final

import typer

from hfi_sim.clock import ManualClock
from lnet.nid import Nid
from lnet.node import LnetNode
from lnet.rig import LnetRig
from lnet.selftest import Selftest, SelftestResult
from lnet.tx import TxKind

LINK_BPS: Final = 10e9
"""Rate of every link in virtual time; what counts is the ratio, not the rate."""
MESSAGE_BYTES: Final = 1 << 20
MESSAGES_PER_HFI: Final = 8


@dataclass(frozen=True, slots=True)
class BenchRun:
    """One run with a number of HFIs on either host."""

    hfis: int
    virtual_gbps: float
    """Payload per second of virtual time, on links of LINK_BPS."""
    real_gbps: float
    """Payload per second of the time that passed here: what this machine simulates."""


def starter(node: LnetNode) -> Any:
    """Return what a Selftest starts messages with on `node`."""

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


def run_bench(hfis: Iterable[int] = (1, 2, 3, 4), virtual_seconds: float = 0.02) -> dict[str, Any]:
    """Return `{"runs": [{hfis, virtual_gbps, real_gbps}, ...]}`."""
    return {"runs": [asdict(run_once(count, virtual_seconds)) for count in hfis]}


def bench(
    as_json: Annotated[bool, typer.Option("--json", help="JSON in place of a table.")] = False,
    hfis: Annotated[int, typer.Option("--hfis", min=1, max=16, help="Up to so many HFIs.")] = 4,
    seconds: Annotated[float, typer.Option("--seconds", help="Virtual seconds of each run.")] = 0.02,
) -> None:
    """Throughput between two hosts with 1, 2, ... HFIs each, on links of 10 Gb/s in virtual time.

    \b
    Example:
      opavnic bench lnet --json
    """
    from rich.console import Console
    from rich.progress import track

    from opavnic.cli.output import EXIT_USAGE, fail, print_json, print_table

    if not 0 < seconds <= 10:
        fail(f"bench lnet: --seconds {seconds:g} is not above 0 and at most 10", EXIT_USAGE)
    counts = track(range(1, hfis + 1), "LNet", console=Console(stderr=True), transient=True)
    data = run_bench(counts, seconds)
    if as_json:
        print_json(data)
        return
    rows = [(run["hfis"], run["virtual_gbps"], run["real_gbps"]) for run in data["runs"]]
    print_table(("HFIs", "virtual Gb/s", "real Gb/s"), rows, "LNet over bonded HFIs, 1 MiB messages")
