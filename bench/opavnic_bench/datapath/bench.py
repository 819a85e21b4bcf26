"""`opavnic bench datapath`: our datapaths and the installed peers, measured in turns in one run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

from opavnic_bench.datapath.measure import Sample, measure
from opavnic_bench.datapath.peers import Variant, remove_namespaces, variants
from opavnic_bench.turns import Progress, Run, machine, medians, ratio, silent, take_turns

BUDGET_S: Final = 285.0
"""A run that would take longer stops early; the report says how many rounds it measured."""
COLUMNS: Final = ("variant", "mtu", "icrc", *(item.name for item in fields(Sample)))
"""The figures of a variant."""
RATIOS: Final = ("tcp_gbps", "tcp4_gbps", "udp64_kpps", "rtt_us_p50")
"""The figures of which ratios are given."""


@dataclass(frozen=True, slots=True)
class BenchResult:
    """The results of a run."""

    run: Run[Variant, Sample]

    def rows(self) -> list[dict[str, Any]]:
        """Return the median of each variant, in the order of the run."""
        return [
            {"variant": variant.name, "mtu": variant.mtu, "icrc": variant.icrc, **medians(samples)}
            for variant, samples in self.run.samples.items()
            if samples
        ]

    def ratios(self) -> list[dict[str, Any]]:
        """Return the figures of native (ICRC on every packet) relative to every other variant of the same MTU."""
        rows = self.rows()
        ratios = []
        for ours in (row for row in rows if row["variant"] == "native" and row["icrc"] == "always"):
            for row in rows:
                if row is not ours and row["mtu"] == ours["mtu"]:
                    ratios.append(_ratios(ours, row))
        return ratios

    def as_json(self) -> dict[str, Any]:
        """Return plain data for --json."""
        return {
            "results": self.rows(),
            "ratios": self.ratios(),
            "skipped": self.run.skipped,
            "rounds": self.run.rounds,
            "took_s": round(self.run.took_s, 1),
            "machine": machine(),
        }


def _ratios(ours: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    return {
        "native_to": other["variant"],
        "mtu": other["mtu"],
        "icrc": other["icrc"],
        **{name: ratio(ours[name], other[name]) for name in RATIOS},
    }


def bench_datapath(
    rounds: int, seconds: int, *, only: Sequence[str] = (), progress: Progress = silent
) -> BenchResult:
    """Measure every variant `rounds` times, in turns.

    Args:  seconds: of each throughput measurement. only: names of variants; empty means all.
    """
    chosen = [variant for variant in variants() if not only or variant.name in only]
    missing = {variant.label: reason for variant in chosen if (reason := variant.missing())}
    here = [variant for variant in chosen if variant.label not in missing]
    remove_namespaces()
    try:
        run = take_turns(
            here,
            lambda variant: _measure(variant, seconds),
            rounds,
            label=lambda variant: variant.label,
            progress=progress,
            budget_s=BUDGET_S,
        )
    finally:
        remove_namespaces()
    run.skipped = missing | run.skipped
    return BenchResult(run)


def _measure(variant: Variant, seconds: int) -> Sample:
    with variant.site(variant.mtu) as site:
        return measure(site, seconds)
