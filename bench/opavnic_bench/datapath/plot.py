"""The figures of `opavnic bench datapath` as bars, in SVG. A dozen kinds of lines need no library."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any, Final

_PANELS: Final = (
    ("tcp_gbps", "TCP, one flow, Gbit/s"),
    ("tcp4_gbps", "TCP, four flows, Gbit/s"),
    ("udp64_kpps", "UDP of 64 bytes, received kpps"),
    ("rtt_us_p50", "round trip, median, us"),
)
_WIDTH: Final = 760
_LABEL: Final = 210
_BAR: Final = 16
_STEP: Final = 22
_TITLE: Final = 34
_OURS: Final = "#2a7f62"
_PEER: Final = "#9aa5b1"


def plot(rows: Sequence[dict[str, Any]]) -> str:
    """Return an SVG document with one panel of bars per measure."""
    height = len(_PANELS) * (_TITLE + _STEP * len(rows)) + 10
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
    ]
    top = 0
    for name, title in _PANELS:
        parts.append(f'<text x="8" y="{top + 22}" font-size="14" font-weight="bold">{escape(title)}</text>')
        top += _TITLE
        largest = max((row[name] or 0.0 for row in rows), default=0.0) or 1.0
        for row in rows:
            parts += _bar(row, row[name] or 0.0, largest, top)
            top += _STEP
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def _bar(row: dict[str, Any], value: float, largest: float, top: int) -> list[str]:
    label = f"{row['variant']} {row['mtu']}" + (f" icrc {row['icrc']}" if row["icrc"] else "")
    width = (_WIDTH - _LABEL - 80) * value / largest
    colour = _OURS if row["variant"] in ("native", "python") else _PEER
    return [
        f'<text x="{_LABEL - 8}" y="{top + 12}" text-anchor="end">{escape(label)}</text>',
        f'<rect x="{_LABEL}" y="{top}" width="{width:.1f}" height="{_BAR}" fill="{colour}"/>',
        f'<text x="{_LABEL + width + 6:.1f}" y="{top + 12}">{value:,.4g}</text>',
    ]
