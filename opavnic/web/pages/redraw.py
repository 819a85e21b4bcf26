"""New options for a chart that is already on a page."""

from __future__ import annotations

from typing import Any

from nicegui import ui


def redraw(chart: ui.echart, options: dict[str, Any]) -> None:
    """Show `options` in place of what the chart shows; how a person has moved or zoomed it stays."""
    chart.options.clear()
    chart.options.update(options)
    chart.update()
