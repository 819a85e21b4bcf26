"""`opavnic bench links`: each case and each peer, measured in turns in one run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from time import monotonic
from typing import Any, Final

from opavnic_bench.base.machine import machine
from opavnic_bench.base.running_lab import end_labs
from opavnic_bench.base.sites import remove_namespaces
from opavnic_bench.base.turns import Progress, Run, ratio, silent, take_turns
from opavnic_bench.links.cases import PLAIN, LinkCase, Subject, Veth, plain_case, subjects
from opavnic_bench.links.measure import measure, staying
from opavnic_bench.links.proof import LinkSample, prove
from opavnic_bench.links.theory import FULL_FRAME, packet_bytes, round_trip_us, tcp_limit_gbps

COLUMNS: Final = {
    "case": "case",
    "engine": "engine",
    "tcp_gbps": "TCP Gbit/s",
    "possible_gbps": "possible",
    "share": "share",
    "to_veth": "to veth",
    "rtt_us_p50": "RTT us",
    "rtt_expected_us": "expected",
    "rtt_over_us_per_direction": "over/link",
}
"""The figures of a case in the table, and what they are called there."""


@dataclass(frozen=True, slots=True)
class LinksResult:
    """The results of a run."""

    run: Run[Subject, LinkSample]
    """All but the plain case."""
    plain: Sequence[LinkSample]
    """The plain case, in the order of time: a run before each of the others, and one after the last."""

    @property
    def proven(self) -> bool:
        """Whether every case of ours was measured, and was what it says."""
        rows = {row["case"]: row for row in self.rows()}
        ours = [PLAIN, *(subject.name for subject in self.run.samples if isinstance(subject, LinkCase))]
        return all(name in rows for name in ours) and all(
            row["proof"] is None or row["proof"]["ok"] for row in rows.values()
        )

    def rows(self) -> list[dict[str, Any]]:
        """Return the medians of each case, in the order of the run, with what proves it."""
        everything = [(plain_case(), self.plain), *self.run.samples.items()]
        return [self._row(subject, samples) for subject, samples in everything if samples]

    def _row(self, subject: Subject, samples: Sequence[LinkSample]) -> dict[str, Any]:
        gbps = median(sample.tcp_gbps for sample in samples)
        rtt = median(sample.rtt_us_p50 for sample in samples)
        is_plain = samples is self.plain
        beside = self.plain if is_plain else [one for sample in samples for one in self._beside(sample)]
        possible = _possible_gbps(subject, beside)
        shares = [
            sample.tcp_gbps / _possible_gbps(subject, [sample] if is_plain else self._beside(sample))
            for sample in samples
        ]
        expected = _expected_us(subject, beside)
        return {
            "case": subject.name,
            "tcp_gbps": round(gbps, 3),
            "possible_gbps": round(possible, 3),
            "share": round(median(shares), 2),
            "to_veth": self._to_veth(subject, gbps),
            "rtt_us_p50": round(rtt, 1),
            "rtt_expected_us": None if expected is None else round(expected, 1),
            "rtt_over_us_per_direction": None
            if expected is None or isinstance(subject, Veth)
            else round((rtt - expected) / (2 * len(subject.way)), 1),
            "engine": "+".join(dict.fromkeys(sample.engine for sample in samples)),
            "proof": prove(subject, samples, beside),
        }

    def _beside(self, sample: LinkSample) -> Sequence[LinkSample]:
        """Return the runs of the plain case right before and right after."""
        return self.plain[sample.place : sample.place + 2]

    def _to_veth(self, subject: Subject, gbps: float) -> float | None:
        """Return TCP relative to a veth with tbf of the same rate, None where there is none in this run."""
        if isinstance(subject, Veth):
            return None
        slowest = min(wire.rate_bps for wire in subject.way)
        for other, samples in self.run.samples.items():
            if isinstance(other, Veth) and other.rate_bps == slowest and samples:
                return ratio(gbps, median(sample.tcp_gbps for sample in samples))
        return None

    def as_json(self) -> dict[str, Any]:
        """Return plain data for --json."""
        return {
            "runs": self.rows(),
            "proven": self.proven,
            "skipped": self.run.skipped,
            "rounds": self.run.rounds,
            "took_s": round(self.run.took_s, 1),
            "machine": machine(),
        }


def _possible_gbps(subject: Subject, beside: Sequence[LinkSample]) -> float:
    """Return what the slowest link leaves for TCP, and no more than the plain case carries beside it."""
    if isinstance(subject, Veth):
        return tcp_limit_gbps(subject.rate_bps, FULL_FRAME)
    limit = tcp_limit_gbps(min(wire.rate_bps for wire in subject.way), packet_bytes(FULL_FRAME))
    return min([limit, *([median(sample.tcp_gbps for sample in beside)] if beside else [])])


def _expected_us(subject: Subject, beside: Sequence[LinkSample]) -> float | None:
    """Return the round trip of the plain case, and what the links of this one add to it."""
    if isinstance(subject, Veth) or not beside:
        return None
    added = round_trip_us(subject.way) - round_trip_us(plain_case().way)
    return median(sample.rtt_us_p50 for sample in beside) + added


def bench_links(
    rounds: int, seconds: int, *, only: Sequence[str] = (), progress: Progress = silent
) -> LinksResult:
    """Measure every case `rounds` times, in turns, and the plain case in between.

    The speed of a machine drifts. So what a case is compared with is measured right before it and right after it.

    Args:  seconds: of each TCP measurement. only: names of cases; empty means all. The plain case is always measured.
    """
    others = [one for one in subjects(only) if one.name != PLAIN]
    plain: list[LinkSample] = []
    _clean_up()
    start = monotonic()
    try:
        with staying(plain_case()) as measure_plain:

            def measure_beside(subject: Subject) -> LinkSample:
                sample = measure(subject, seconds, lambda: plain.append(measure_plain(seconds)))
                return replace(sample, place=len(plain) - 1)

            run = take_turns(
                others, measure_beside, rounds, label=lambda subject: subject.name, progress=progress
            )
            plain.extend(measure_plain(seconds) for _ in range(1 if others else rounds))
    finally:
        _clean_up()
    run.took_s = monotonic() - start
    return LinksResult(run, plain)


def _clean_up() -> None:
    end_labs()
    remove_namespaces()
