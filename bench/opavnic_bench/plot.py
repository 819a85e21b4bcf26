"""Figures of a benchmark as bars, in SVG. A dozen kinds of lines need no library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final

KERNEL: Final = "kernel"
"""The engine of a link that is none of ours."""
_DATAPATH: Final = (
    ("tcp_gbps", "TCP, one flow, Gbit/s"),
    ("tcp4_gbps", "TCP, four flows, Gbit/s"),
    ("udp64_kpps", "UDP of 64 bytes, received kpps"),
    ("rtt_us_p50", "round trip, median, us"),
)
_LINKS: Final = (
    ("tcp_gbps", "TCP, Gbit/s"),
    ("share", "TCP, share of what is possible"),
    ("rtt_us_p50", "round trip, median, us"),
)
_WIDTH: Final = 760
_LABEL: Final = 210
_BAR: Final = 16
_STEP: Final = 22
_TITLE: Final = 34
_OURS: Final = "#2a7f62"
_PEER: Final = "#9aa5b1"


@dataclass(frozen=True, slots=True)
class Bar:
    """One figure."""

    label: str
    value: float
    ours: bool


@dataclass(frozen=True, slots=True)
class Panel:
    """One measure of everything that was measured."""

    title: str
    bars: Sequence[Bar]


def datapath_panels(rows: Sequence[dict[str, Any]]) -> list[Panel]:
    """Return the panels of `opavnic bench datapath`."""

    def bar(row: dict[str, Any], name: str) -> Bar:
        label = f"{row['variant']} {row['mtu']}" + (f" icrc {row['icrc']}" if row["icrc"] else "")
        return Bar(label, row[name] or 0.0, row["variant"] in ("native", "python"))

    return [Panel(title, [bar(row, name) for row in rows]) for name, title in _DATAPATH]


def links_panels(rows: Sequence[dict[str, Any]]) -> list[Panel]:
    """Return the panels of `opavnic bench links`."""
    return [
        Panel(title, [Bar(row["case"], row[name] or 0.0, row["engine"] != KERNEL) for row in rows])
        for name, title in _LINKS
    ]


def draw(panels: Sequence[Panel]) -> str:
    """Return an SVG document with the panels below one another."""
    height = sum(_TITLE + _STEP * len(panel.bars) for panel in panels) + 10
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
    ]
    top = 0
    for panel in panels:
        title = escape(panel.title)
        parts.append(f'<text x="8" y="{top + 22}" font-size="14" font-weight="bold">{title}</text>')
        top += _TITLE
        largest = max((bar.value for bar in panel.bars), default=0.0) or 1.0
        for bar in panel.bars:
            parts += _bar(bar, largest, top)
            top += _STEP
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def _bar(bar: Bar, largest: float, top: int) -> list[str]:
    width = (_WIDTH - _LABEL - 80) * bar.value / largest
    colour = _OURS if bar.ours else _PEER
    return [
        f'<text x="{_LABEL - 8}" y="{top + 12}" text-anchor="end">{escape(bar.label)}</text>',
        f'<rect x="{_LABEL}" y="{top}" width="{width:.1f}" height="{_BAR}" fill="{colour}"/>',
        f'<text x="{_LABEL + width + 6:.1f}" y="{top + 12}">{bar.value:,.4g}</text>',
    ]
