"""The figures of the measurements, and their ratios."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from ejfat.events.event import Segmenter
from opavnic_bench.base.turns import ratio

PIPELINE, MEMORY_LAB, TAP_LAB, ALONE, INTERFACE, FORWARDER, INTERFACE_CALM, FORWARDER_CALM, RELAY, MOCK = (
    "pipeline alone, in memory",
    "live in a lab, in memory",
    "live in a lab on TAPs",
    "stand-alone on a TAP",
    "stand-alone on a veth (--interface)",
    "plain forwarder on a veth",
    "stand-alone on a veth, at 0.8 of what the forwarder takes without loss",
    "plain forwarder on a veth, at 0.8 of what it takes without loss",
    "UDP relay",
    "udplbd2's mock data plane",
)
_HEADERS = 14 + 28 + Segmenter(version=2).headers


@dataclass(frozen=True, slots=True)
class LbCase:
    """The subject of a measurement, and the packets used."""

    what: str
    by: str
    """python or native."""
    version: int | None
    payload: int


@dataclass(frozen=True, slots=True)
class LbSample:
    """One round of a case."""

    packets_per_second: float
    lost: int
    """Packets that were sent and did not arrive. On TAPs and veths the sender offers more than can be taken."""
    size: int | None = None
    """Bytes of a packet; None: those of a version 2 frame."""
    sent: int | None = None
    processor_ns: float | None = None
    """Processor time of the program for each packet that arrived, what the kernel did for it included."""


@dataclass(frozen=True, slots=True)
class Figure:
    """The result of a case: the median of its rounds."""

    what: str
    by: str
    version: int | None
    payload: int
    packets_per_second: float
    gbit_per_second: float
    """Counting Ethernet frames as received (for the relay, UDP payloads)."""
    lost: int
    sent: int | None
    """Packets of all rounds together; None: not counted."""
    processor_ns: int | None
    """Processor time of the program for each packet; None: not measured."""


def figure(case: LbCase, samples: Sequence[LbSample]) -> Figure:
    """Return the figure of a case; its losses are those of all rounds together."""
    rate = median(sample.packets_per_second for sample in samples)
    size = samples[0].size
    bits = 8 * (_HEADERS + case.payload if size is None else size)
    lost = sum(sample.lost for sample in samples)
    sent = [sample.sent for sample in samples if sample.sent is not None]
    used = [sample.processor_ns for sample in samples if sample.processor_ns is not None]
    return Figure(
        **asdict(case),
        packets_per_second=round(rate),
        gbit_per_second=round(rate * bits / 1e9, 4),
        lost=lost,
        sent=sum(sent) if sent else None,
        processor_ns=round(median(used)) if used else None,
    )


def ratios(figures: Sequence[Figure]) -> list[dict[str, Any]]:
    """Return the ratios of packets per second between figures of the same run."""
    found = {(f.what, f.by, f.payload): f for f in figures if f.version in (2, None)}
    rows = []
    pairs = [
        ((what, "native"), (what, "python")) for what in (PIPELINE, MEMORY_LAB, TAP_LAB, ALONE, INTERFACE)
    ]
    pairs += [
        ((what, by), (RELAY, "python")) for what in (TAP_LAB, ALONE, INTERFACE) for by in ("native", "python")
    ]
    pairs += [((INTERFACE, by), (FORWARDER, by)) for by in ("native", "python")]
    pairs += [((what, "native"), (MOCK, "udplbd2")) for what in (TAP_LAB, ALONE)]
    pairs.append(((MOCK, "udplbd2"), (RELAY, "python")))
    for payload in sorted({f.payload for f in figures}):
        for (what, by), (other, other_by) in pairs:
            one, two = found.get((what, by, payload)), found.get((other, other_by, payload))
            if one is None or two is None:
                continue
            factor = ratio(one.packets_per_second, two.packets_per_second)
            if factor is not None:
                pair = {"of": f"{what}, {by}", "to": f"{other}, {other_by}"}
                rows.append(pair | {"payload": payload, "ratio": factor})
    return rows


def rows_for_table(result: dict[str, Any]) -> Iterator[tuple[object, ...]]:
    """Yield a result's figures as a table shows them."""
    for row in result["figures"]:
        yield (
            row["what"],
            row["by"],
            "" if row["version"] is None else f"v{row['version']}",
            row["payload"],
            f"{row['packets_per_second']:,}",
            f"{row['gbit_per_second']:.3f}",
            row["lost"],
            "" if row["processor_ns"] is None else row["processor_ns"],
        )
