"""Plots of a lab over time as options of ECharts. Sans-IO. Text is drawn on a canvas or as rich text, never as HTML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

_INK: Final = "var(--ink)"
"""The colour of text on the page; drawn as SVG, so that the browser knows it."""
_SPLIT: Final = {"lineStyle": {"color": "var(--rule)"}}
_COLOURS: Final = [f"var(--{name})" for name in ("rate", "second", "good", "fault", "bad", "dim")]
TOOLTIP: Final = {
    "renderMode": "richText",
    "backgroundColor": "#1b2530",
    "borderColor": "#8a97a5",
    "textStyle": {"color": "#ffffff"},
}


_END: Final = {"symbol": "circle", "symbolSize": 7}
_LINES: Final = (
    {"width": 6, "opacity": 0.45},
    {"width": 2},
    {"width": 2, "type": "dashed"},
    {"width": 2.5, "type": "dotted"},
)
"""Of lines in a plot, in turn: each is seen where it lies upon the ones before it."""

Point = tuple[float, float]


def plot(title: str, unit: str, series: Mapping[str, Sequence[Point]], gap_s: float) -> dict[str, Any]:
    """Return a plot over time.

    Args:  series: points (seconds since the Epoch, value), oldest first, by name. gap_s: points further apart are not
           joined; the ends of each piece of a line are marked.
    """
    lines = _LINES if len(series) > 1 else _LINES[1:]
    return {
        "animation": False,
        "color": _COLOURS,
        "aria": {"enabled": True},
        "useUTC": True,
        "title": {
            "text": f"{title}, {unit}" if title else unit,
            "left": 0,
            "textStyle": {"fontSize": 14, "color": _INK},
        },
        "tooltip": {"trigger": "axis", **TOOLTIP},
        "legend": {"top": 0, "right": 10, "textStyle": {"color": _INK}},
        "grid": {"left": 60, "right": 20, "top": 40, "bottom": 25},
        "xAxis": {
            "type": "time",
            "boundaryGap": ["1%", "1%"],
            "axisLabel": {"hideOverlap": True, "color": _INK},
        },
        "yAxis": {"type": "value", "min": 0, "axisLabel": {"color": _INK}, "splitLine": _SPLIT},
        "series": [
            {
                "type": "line",
                "name": name,
                "symbol": "none",
                "lineStyle": dict(lines[number % len(lines)]),
                "data": list(_pieces(points, gap_s)),
            }
            for number, (name, points) in enumerate(series.items())
        ],
    }


def _pieces(points: Sequence[Point], gap_s: float) -> Iterator[object]:
    """Yield points as ECharts reads them, with an empty one in each gap."""
    last = len(points) - 1
    for number, (when, value) in enumerate(points):
        starts = number == 0 or when - points[number - 1][0] > gap_s
        ends = number == last or points[number + 1][0] - when > gap_s
        if starts and number:
            yield [when * 1000, None]
        at = [when * 1000, value]
        yield {"value": at, **_END} if starts or ends else at


def bars(unit: str, names: Sequence[str], pieces: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """Return lying bars, each of stacked pieces. Args: pieces: lengths in each bar, by name of the piece."""
    return {
        "animation": False,
        "color": _COLOURS,
        "aria": {"enabled": True},
        "tooltip": {"trigger": "axis", "axisPointer": {"type": "shadow"}, **TOOLTIP},
        "legend": {"top": 0, "type": "scroll", "textStyle": {"color": _INK}},
        "grid": {"left": 10, "right": 30, "top": 35, "bottom": 25, "containLabel": True},
        "xAxis": {
            "type": "value",
            "name": unit,
            "nameLocation": "middle",
            "nameGap": 24,
            "min": 0,
            "nameTextStyle": {"color": _INK},
            "axisLabel": {"color": _INK},
            "splitLine": _SPLIT,
        },
        "yAxis": {"type": "category", "data": list(names), "inverse": True, "axisLabel": {"color": _INK}},
        "series": [
            {"type": "bar", "stack": "all", "name": name, "data": list(lengths), "barMaxWidth": 24}
            for name, lengths in pieces.items()
        ],
    }


def plain(text: str) -> str:
    """Return text for a formatter of ECharts, which would replace {a} and read {style|text}."""
    return text.replace("{", "(").replace("}", ")")
