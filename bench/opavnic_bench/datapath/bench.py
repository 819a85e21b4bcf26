"""`opavnic bench datapath`: our datapaths and the installed peers, measured in turns in one run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

from opavnic_bench.base.machine import machine
from opavnic_bench.base.running_lab import end_labs
from opavnic_bench.base.sites import remove_namespaces
from opavnic_bench.base.turns import Progress, Run, medians, ratio, silent, take_turns
from opavnic_bench.datapath.measure import DatapathSample, measure
from opavnic_bench.datapath.peers import BESIDE, DEFAULT, Variant, variants

BUDGET_S: Final = 285.0
"""A run that would take longer stops early; the report says how many rounds it measured."""
COLUMNS: Final = ("variant", "mtu", "icrc", *(item.name for item in fields(DatapathSample)))
"""The figures of a variant."""
RATIOS: Final = ("tcp_gbps", "tcp4_gbps", "udp64_kpps", "rtt_us_p50")
"""The figures of which ratios are given."""
_LESS_IS_BETTER: Final = ("rtt_us_p50",)


@dataclass(frozen=True, slots=True)
class BenchResult:
    """The results of a run."""

    run: Run[Variant, DatapathSample]

    def rows(self) -> list[dict[str, Any]]:
        """Return the median of each variant, in the order of the run."""
        return [
            {"variant": variant.name, "mtu": variant.mtu, "icrc": variant.icrc, **medians(samples)}
            for variant, samples in self.run.samples.items()
            if samples
        ]

    def ratios(self) -> list[dict[str, Any]]:
        """Return the figures of native, as it is by default, relative to every other variant of the same MTU."""
        rows = self.rows()
        ratios = []
        for ours in (row for row in rows if row["variant"] == "native" and row["icrc"] == DEFAULT):
            for row in rows:
                if row is not ours and row["mtu"] == ours["mtu"] and not row["variant"].startswith(BESIDE):
                    ratios.append(_ratios(ours, row))
        return ratios

    def ratios_to_beside(self) -> list[dict[str, Any]]:
        """Return our figures relative to those of the installation beside; above 1, ours are better in each."""
        rows = {(row["variant"], row["mtu"], row["icrc"]): row for row in self.rows()}
        pairs = [
            (row, rows.get((f"{BESIDE}{name}", mtu, icrc)))
            for (name, mtu, icrc), row in rows.items()
            if icrc is not None
        ]
        return [
            {"variant": ours["variant"], "mtu": ours["mtu"], "icrc": ours["icrc"]}
            | {
                name: ratio(theirs[name], ours[name])
                if name in _LESS_IS_BETTER
                else ratio(ours[name], theirs[name])
                for name in RATIOS
            }
            for ours, theirs in pairs
            if theirs is not None
        ]

    def as_json(self) -> dict[str, Any]:
        """Return plain data for --json."""
        return {
            "results": self.rows(),
            "ratios": self.ratios(),
            **({"ratio_to_beside": beside} if (beside := self.ratios_to_beside()) else {}),
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
    rounds: int,
    seconds: int,
    *,
    only: Sequence[str] = (),
    beside: Sequence[str] | None = None,
    progress: Progress = silent,
) -> BenchResult:
    """Measure every variant `rounds` times, in turns.

    Args:  seconds: of each throughput measurement. only: names of variants; empty means all.
           beside: the program `opavnic` of another installation, to measure as well.
    """
    chosen = [
        variant for variant in variants(beside) if not only or variant.name.removeprefix(BESIDE) in only
    ]
    missing = {variant.label: reason for variant in chosen if (reason := variant.missing())}
    here = [variant for variant in chosen if variant.label not in missing]
    _clean_up()
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
        _clean_up()
    run.skipped = missing | run.skipped
    return BenchResult(run)


def _clean_up() -> None:
    end_labs()
    remove_namespaces()


def _measure(variant: Variant, seconds: int) -> DatapathSample:
    with variant.site(variant.mtu) as site:
        return measure(site, seconds)
