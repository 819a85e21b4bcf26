"""`opavnic bench datapath`: our datapaths beside the peers that are installed, in one run, in turns."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from statistics import median
from typing import Any, Final

from opavnic.bench.datapath_measure import Sample, measure
from opavnic.bench.datapath_peers import PeerError, Variant, remove_namespaces, variants

ROUNDS: Final = 3
SECONDS: Final = 1
"""How long each throughput of a round is measured."""
BUDGET_S: Final = 285.0
"""A run that would take longer ends after the round before; the report says how many there were."""
_DIGITS: Final = 3


@dataclass(slots=True)
class BenchResult:
    """Samples by variant, what was left out and why, and what holds for all."""

    samples: dict[Variant, list[Sample]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    rounds: int = 0
    took_s: float = 0.0

    def rows(self) -> list[dict[str, Any]]:
        """Return the median of each variant, in the order of the run."""
        return [
            {"variant": variant.name, "mtu": variant.mtu, "icrc": variant.icrc, **_medians(samples)}
            for variant, samples in self.samples.items()
            if samples
        ]

    def ratios(self) -> list[dict[str, Any]]:
        """Return what native (ICRC on every packet) reaches, relative to every other variant of its MTU."""
        rows = self.rows()
        ratios = []
        for ours in (row for row in rows if row["variant"] == "native" and row["icrc"] == "always"):
            for row in rows:
                if row is not ours and row["mtu"] == ours["mtu"]:
                    ratios.append(_ratio(ours, row))
        return ratios

    def as_json(self) -> dict[str, Any]:
        """Return plain data for --json."""
        return {
            "results": self.rows(),
            "ratios": self.ratios(),
            "skipped": self.skipped,
            "rounds": self.rounds,
            "took_s": round(self.took_s, 1),
            "machine": machine(),
        }


def machine() -> dict[str, Any]:
    """Return what the figures depend on."""
    return {"cpus": os.cpu_count(), "kernel": platform.release(), "load": os.getloadavg()[0]}


def _medians(samples: Sequence[Sample]) -> dict[str, float | None]:
    result: dict[str, float | None] = {}
    for item in fields(Sample):
        values = [value for sample in samples if (value := getattr(sample, item.name)) is not None]
        result[item.name] = round(median(values), _DIGITS) if values else None
    return result


def _ratio(ours: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    def over(name: str) -> float | None:
        mine, theirs = ours[name], other[name]
        return round(mine / theirs, 2) if mine is not None and theirs else None

    return {
        "native_to": other["variant"],
        "mtu": other["mtu"],
        "icrc": other["icrc"],
        **{name: over(name) for name in ("tcp_gbps", "tcp4_gbps", "udp64_kpps", "rtt_us_p50")},
    }


def bench_datapath(
    *,
    rounds: int = ROUNDS,
    seconds: int = SECONDS,
    only: Sequence[str] = (),
    progress: Callable[[str], None] = lambda text: None,
) -> BenchResult:
    """Measure every variant `rounds` times, in turns, so that a noisy minute touches all of them.

    Args:  seconds: of each throughput measurement. only: names of variants; empty means all.
    """
    result = BenchResult()
    start = time.monotonic()
    remove_namespaces()
    chosen = [variant for variant in variants() if not only or variant.name in only]
    for variant in chosen:
        if reason := variant.missing():
            result.skipped[variant.label] = reason
        else:
            result.samples[variant] = []
    try:
        for number in range(1, rounds + 1):
            began = time.monotonic()
            for variant, samples in result.samples.items():
                if variant.label in result.skipped:
                    continue
                progress(f"round {number} of {rounds}: {variant.label}")
                try:
                    with variant.site(variant.mtu) as site:
                        samples.append(measure(site, seconds))
                except PeerError as error:
                    result.skipped[variant.label] = str(error)
            result.rounds = number
            now = time.monotonic()
            if now - start + (now - began) > BUDGET_S:
                break
    finally:
        remove_namespaces()
    result.took_s = time.monotonic() - start
    return result
