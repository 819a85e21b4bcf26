"""How many packets per second several workers of the native engine carry, on real time and without a kernel.

Each packet is built with its ICRC where it is sent, and the engine checks it: where it is received, or before it is
handed to another worker. What programs and kernel cost does not hide what workers cost each other.

Beside several workers stands their ceiling: as many threads, each the one worker of a fabric of its own. What they do
together is what the machine gives; the rest is the program.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from time import process_time
from typing import Any, Final

from opavnic.datapath.selection import NOT_BUILT, load_native
from opavnic_bench.base.machine import machine
from opavnic_bench.base.turns import BenchError, Progress, ratio, silent, take_turns

CASES: Final = ("all-to-all", "bottleneck")
"""8 ports on one switch, each sends to each; 4 ports send to 4 others over one link of 100 Gbit/s."""
MOST_WORKERS: Final = 64
COLUMNS: Final = ("case", "workers", "packets_per_second", "ceiling", "processor_ns", "handed_over")
RATIO_COLUMNS: Final = ("case", "workers", "to", "ratio", "ceiling")


@dataclass(frozen=True, slots=True)
class _Subject:
    case: str
    workers: int
    apart: bool = False
    """Whether they share nothing."""

    def __str__(self) -> str:
        threads = "threads apart" if self.apart else "workers" if self.workers > 1 else "worker"
        return f"{self.case}, {self.workers} {threads}"


@dataclass(frozen=True, slots=True)
class _Sample:
    packets_per_second: float
    processor_ns: float
    """Processor time of a packet, of all workers together, with what they spend on waiting for each other."""
    handed_over: float
    """Share of the packets."""


def bench_engine(
    workers: Sequence[int], seconds: float, rounds: int = 3, progress: Progress = silent
) -> dict[str, Any]:
    """Measure each case with each number of workers, in turns.

    Raises:  BenchError: the native module is not built, a worker failed, or a packet did not arrive.
    """
    workers = list(dict.fromkeys(workers))
    native = load_native()
    if native is None:
        raise BenchError(NOT_BUILT)

    def measure(subject: _Subject) -> _Sample:
        began = process_time()
        try:
            sent, delivered, astray, handed, took = native.measure_workers(
                subject.case, subject.workers, seconds, subject.apart
            )
        except RuntimeError as error:
            raise BenchError(str(error)) from error
        spent = process_time() - began
        if delivered != sent or astray or not sent:
            raise BenchError(f"{subject}: {delivered} of {sent} packets arrived, {astray} out of order")
        return _Sample(delivered / took, spent / delivered * 1e9, handed / delivered)

    # one worker is its own ceiling
    ways = {count: (False, True) if count > 1 else (False,) for count in workers}
    subjects = [_Subject(case, count, apart) for case in CASES for count in workers for apart in ways[count]]
    run = take_turns(subjects, measure, rounds, progress=progress)
    rates = {
        subject: median(one.packets_per_second for one in found) for subject, found in run.samples.items()
    }
    ceilings = {(case, count): rates[_Subject(case, count, count > 1)] for case in CASES for count in workers}
    return {
        "rounds": run.rounds,
        "runs": [
            {
                "case": subject.case,
                "workers": subject.workers,
                "packets_per_second": round(rates[subject]),
                "ceiling": round(ceilings[subject.case, subject.workers]),
                "processor_ns": round(median(one.processor_ns for one in found), 1),
                "handed_over": round(median(one.handed_over for one in found), 3),
            }
            for subject, found in run.samples.items()
            if not subject.apart
        ],
        "ratios": [
            {
                "case": case,
                "workers": count,
                "to": workers[0],
                "ratio": ratio(rates[_Subject(case, count)], rates[_Subject(case, workers[0])]),
                "ceiling": ratio(ceilings[case, count], ceilings[case, workers[0]]),
            }
            for case in CASES
            for count in workers[1:]
        ],
        "machine": machine(),
    }
