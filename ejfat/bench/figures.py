"""What a measurement comes to, and what the benchmark says about all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from ejfat.segmentation import Segmenter

PIPELINE, MEMORY_LAB, TAP_LAB, ALONE, RELAY = (
    "pipeline",
    "live in a lab in memory",
    "live in a lab on TAPs",
    "stand-alone on a TAP",
    "UDP relay",
)
_HEADERS = 14 + 28 + Segmenter(version=2).headers


@dataclass(frozen=True, slots=True)
class Figure:
    """One measurement: the median of its rounds."""

    what: str
    by: str
    """python or native."""
    version: int | None
    payload: int
    packets_per_second: float
    gbit_per_second: float
    """Of Ethernet frames as they come in (of UDP payloads for the relay)."""
    lost: int | None = 0
    """Packets that did not come through; None where more is sent on purpose than can be taken."""


def figure(
    what: str,
    by: str,
    payload: int,
    rates: Sequence[float],
    *,
    version: int | None = 2,
    size: int | None = None,
    lost: int | None = 0,
) -> Figure:
    """Return the figure of some rounds.

    Args:    rates: packets per second, one for each round. size: bytes of a packet; None: of a version 2 frame.
    """
    rate = median(rates)
    bits = 8 * (_HEADERS + payload if size is None else size)
    return Figure(what, by, version, payload, round(rate), round(rate * bits / 1e9, 4), lost)


def ratios(figures: Sequence[Figure]) -> list[dict[str, Any]]:
    """Return how figures of the same run compare, packets against packets."""
    found = {(f.what, f.by, f.payload): f for f in figures if f.version in (2, None)}
    rows = []
    pairs = [((what, "native"), (what, "python")) for what in (PIPELINE, MEMORY_LAB, TAP_LAB, ALONE)]
    pairs += [((what, by), (RELAY, "python")) for what in (TAP_LAB, ALONE) for by in ("native", "python")]
    for payload in sorted({f.payload for f in figures}):
        for (what, by), (other, other_by) in pairs:
            one, two = found.get((what, by, payload)), found.get((other, other_by, payload))
            if one is not None and two is not None and two.packets_per_second:
                ratio = round(one.packets_per_second / two.packets_per_second, 2)
                rows.append(
                    {"of": f"{what}, {by}", "to": f"{other}, {other_by}", "payload": payload, "ratio": ratio}
                )
    return rows


def as_plain(figures: Sequence[Figure]) -> list[dict[str, Any]]:
    """Return figures as JSON has them."""
    return [asdict(item) for item in figures]


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
            "" if row["lost"] is None else row["lost"],
        )
