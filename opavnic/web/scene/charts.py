"""Plots of a lab over time as options of ECharts. Sans-IO. Text is drawn on a canvas or as rich text, never as HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opavnic.observe.event_timeline import clock_text, event_text
from opavnic.state.em import EmEvent


def plot(title: str, unit: str, series: Mapping[str, Sequence[tuple[float, float]]]) -> dict[str, Any]:
    """Return a plot over time.

    Args:  series: points (seconds since the Epoch, value), oldest first, by name.
    """
    return {
        "animation": False,
        "aria": {"enabled": True},
        "useUTC": True,
        "title": {"text": f"{title}, {unit}" if title else unit, "left": 0, "textStyle": {"fontSize": 13}},
        "tooltip": {"trigger": "axis", "renderMode": "richText"},
        "legend": {"top": 0, "right": 10},
        "grid": {"left": 60, "right": 20, "top": 40, "bottom": 25},
        "xAxis": {"type": "time", "axisLabel": {"hideOverlap": True}},
        "yAxis": {"type": "value", "min": 0},
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
        "tooltip": {"trigger": "axis", "axisPointer": {"type": "shadow"}, "renderMode": "richText"},
        "legend": {"top": 0, "type": "scroll"},
        "grid": {"left": 10, "right": 30, "top": 35, "bottom": 25, "containLabel": True},
        "xAxis": {"type": "value", "name": unit, "nameLocation": "middle", "nameGap": 24, "min": 0},
        "yAxis": {"type": "category", "data": list(names), "inverse": True},
        "series": [
            {"type": "bar", "stack": "all", "name": name, "data": list(lengths), "barMaxWidth": 24}
            for name, lengths in pieces.items()
        ],
    }


def timeline(events: Sequence[EmEvent]) -> dict[str, Any]:
    """Return events of the Ethernet Manager over time, a row for each kind."""
    kinds = list(dict.fromkeys(event.kind for event in events))
    return {
        "animation": False,
        "aria": {"enabled": True},
        "useUTC": True,
        "tooltip": {"renderMode": "richText"},
        "grid": {"left": 140, "right": 20, "top": 20, "bottom": 25},
        "xAxis": {"type": "time", "axisLabel": {"hideOverlap": True}},
        "yAxis": {"type": "category", "data": kinds, "inverse": True},
        "series": [
            {
                "type": "scatter",
                "symbolSize": 9,
                "data": [
                    {
                        "value": [event.time * 1000, event.kind],
                        "tooltip": {"formatter": plain(f"{clock_text(event.time)}  {event_text(event)}")},
                    }
                    for event in events
                ],
            }
        ],
    }


def plain(text: str) -> str:
    """Return text for a formatter of ECharts, which would replace {a} and read {style|text}."""
    return text.replace("{", "(").replace("}", ")")
