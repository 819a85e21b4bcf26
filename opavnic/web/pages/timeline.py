"""What happened: the events of the Ethernet Manager, over time and as a table."""

from __future__ import annotations

from typing import Any, Final

from nicegui import ui

from opavnic.event_timeline import clock_text, event_text
from opavnic.lab.errors import LabError
from opavnic.web import charts
from opavnic.web.pages.frame import frame
from opavnic.web.pages.redraw import redraw
from opavnic.web.pages.table import table
from opavnic.web.scene import Scene
from opavnic.web.watch import Watch

EVENTS_MAX: Final = 1000
"""Events that a page keeps; a lab keeps them all."""


def timeline_page(watch: Watch) -> None:
    """The events so far and as they come."""
    events: list[dict[str, Any]] = []

    async def show(_: Scene) -> None:
        after = events[-1]["number"] if events else 0
        try:
            found = (await watch.get(f"/em/events?after={after}&limit={EVENTS_MAX}"))["events"]
        except LabError as error:
            said.set_text(str(error))
            return
        if not found:
            return
        events.extend(found)
        del events[:-EVENTS_MAX]
        said.set_text(f"{events[-1]['number']} events of the Ethernet Manager")
        redraw(chart, charts.timeline(events))
        shown.rows = [
            {
                "number": event["number"],
                "time": clock_text(event["time"]),
                "text": event_text(event),
            }
            for event in reversed(events)
        ]

    frame(watch, "Timeline", show)
    said = ui.label()
    chart = (
        ui.echart({"series": []})
        .classes("w-full h-96")
        .props('role=img aria-label="Events over time; the table has the same"')
    )
    shown = table("Events", {"number": "number", "time": "time, UTC", "text": "event"})
