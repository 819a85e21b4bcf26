"""Charts on a page, and new options for one."""

from __future__ import annotations

from typing import Any

from nicegui import ui


def chart_place(classes: str = "") -> ui.echart:
    """Return the place of a plot, empty. Its texts take the colours of the page, light or dark: SVG."""
    return ui.echart({"series": []}, renderer="svg").classes(f"plot {classes}")


def redraw(chart: ui.echart, options: dict[str, Any]) -> None:
    """Show `options` in place of what the chart shows; how a person has moved or zoomed it stays."""
    chart.options.clear()
    chart.options.update(options)
    chart.update()
