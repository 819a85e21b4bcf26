"""The table of metrics in docs/."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from opavnic.observe import metrics
from tools.generate.origins import module_file
from tools.generate.sections import Section, fill


def pages(root: Path) -> Iterator[tuple[str, str]]:
    """Yield the page that lists the metrics of labs."""
    path = "docs/reference/metrics.md"
    rows = ["| metric | type | labels beside `lab` | what it says |", "|---|---|---|---|"]
    for family in metrics.FAMILIES:
        kind = "counter" if family.counter else "gauge"
        labels = ", ".join(f"`{label}`" for label in family.labels)
        rows.append(f"| `{family.full_name}` | {kind} | {labels} | {family.help.removesuffix('.')} |")
    section = Section("\n".join(rows) + "\n", module_file(metrics.__name__))
    yield path, fill(root / path, {"metrics": section})
