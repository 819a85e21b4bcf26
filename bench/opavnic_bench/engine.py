"""How many packets per second several workers of the native engine carry, on real time and without a kernel.

Each packet is built with its ICRC where it is sent, and checked where it is received, as in a lab; what programs and
kernel cost does not hide what workers cost each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from time import process_time
from typing import Any, Final

from opavnic.datapath.selection import NOT_BUILT, load_native
from opavnic_bench.machine import machine
from opavnic_bench.turns import BenchError, Progress, ratio, silent, take_turns

CASES: Final = ("all-to-all", "bottleneck")
"""8 ports on one switch, each sends to each; 4 ports send to 4 others over one link of 100 Gbit/s."""
MOST_WORKERS: Final = 64
COLUMNS: Final = ("case", "workers", "packets_per_second", "processor_ns", "handed_over")
RATIO_COLUMNS: Final = ("case", "workers", "to", "ratio")


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

    def measure(subject: tuple[str, int]) -> _Sample:
        began = process_time()
        try:
            sent, delivered, astray, handed, took = native.measure_workers(*subject, seconds)
        except RuntimeError as error:
            raise BenchError(str(error)) from error
        spent = process_time() - began
        if delivered != sent or astray or not sent:
            raise BenchError(
                f"{_label(subject)}: {delivered} of {sent} packets arrived, {astray} out of order"
            )
        return _Sample(delivered / took, spent / delivered * 1e9, handed / delivered)

    subjects = [(case, count) for case in CASES for count in workers]
    run = take_turns(subjects, measure, rounds, label=_label, progress=progress)
    rates = {
        subject: median(one.packets_per_second for one in found) for subject, found in run.samples.items()
    }
    costs = {subject: median(one.processor_ns for one in found) for subject, found in run.samples.items()}
    return {
        "rounds": run.rounds,
        "runs": [
            {
                "case": case,
                "workers": count,
                "packets_per_second": round(rates[case, count]),
                "processor_ns": round(costs[case, count], 1),
                "handed_over": round(median(one.handed_over for one in found), 3),
            }
            for (case, count), found in run.samples.items()
        ],
        "ratios": [
            {
                "case": case,
                "workers": count,
                "to": workers[0],
                "ratio": ratio(rates[case, count], rates[case, workers[0]]),
            }
            for case in CASES
            for count in workers[1:]
        ],
        "machine": machine(),
    }


def _label(subject: tuple[str, int]) -> str:
    case, workers = subject
    return f"{case}, {workers} worker{'s' * (workers > 1)}"
