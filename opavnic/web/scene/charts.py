"""Plots of a lab over time as options of ECharts. Sans-IO. Text is drawn on a canvas or as rich text, never as HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

_INK: Final = "var(--ink)"
"""The colour of text on the page; drawn as SVG, so that the browser knows it."""
_SPLIT: Final = {"lineStyle": {"color": "var(--rule)"}}
TOOLTIP: Final = {
    "renderMode": "richText",
    "backgroundColor": "#1b2530",
    "borderColor": "#8a97a5",
    "textStyle": {"color": "#ffffff"},
}


def plot(title: str, unit: str, series: Mapping[str, Sequence[tuple[float, float]]]) -> dict[str, Any]:
    """Return a plot over time.

    Args:  series: points (seconds since the Epoch, value), oldest first, by name.
    """
    return {
        "animation": False,
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
        "xAxis": {"type": "time", "axisLabel": {"hideOverlap": True, "color": _INK}},
        "yAxis": {"type": "value", "min": 0, "axisLabel": {"color": _INK}, "splitLine": _SPLIT},
        "series": [
            {
                "type": "line",
                "name": name,
                "showSymbol": False,
                "data": [[when * 1000, value] for when, value in points],
            }
            for name, points in series.items()
        ],
    }


def bars(unit: str, names: Sequence[str], pieces: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """Return lying bars, each of stacked pieces. Args: pieces: lengths in each bar, by name of the piece."""
    return {
        "animation": False,
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
