"""What happened: MADs, and the events of the Ethernet Manager, over time and as a table; how far it has come."""

from __future__ import annotations

from typing import Final

from nicegui import ui

from opavnic.lab.file.errors import LabError
from opavnic.observe.event_timeline import clock_text, event_text
from opavnic.state.em import EmEvent, EmEvents, EmVports
from opavnic.web.pages.frame import frame
from opavnic.web.pages.redraw import redraw
from opavnic.web.pages.table import table
from opavnic.web.pages.watch import Watch
from opavnic.web.scene import charts
from opavnic.web.scene.scene import Scene

EVENTS_MAX: Final = 1000
"""Events that a page keeps; a lab keeps them all."""
CONFIGURED: Final = "ok"
"""What GET /em/vports says of a vport that is as the manager wants it."""


def timeline_page(watch: Watch) -> None:
    """The events so far and as they come."""
    events: list[EmEvent] = []

    of: dict[str, int] = {}

    async def show(seen: Scene) -> None:
        if (
            of.setdefault("pid", seen.state.pid) != seen.state.pid
        ):  # a lab that was started anew counts its events anew
            of["pid"] = seen.state.pid
            events.clear()
        redraw(mads, charts.plot("MADs of all ports", "1/s", {"MADs": list(watch.mads)}))
        after = events[-1].number if events else 0
        try:
            found = (await watch.read(EmEvents, f"/em/events?after={after}&limit={EVENTS_MAX}")).events
        except LabError as error:
            said.set_text(str(error))
            return
        if found or of.get("open", 1):
            await tell_vports()
        if not found:
            return
        events.extend(found)
        del events[:-EVENTS_MAX]
        said.set_text(f"{events[-1].number} events of the Ethernet Manager")
        redraw(chart, charts.timeline(events))
        shown.rows = [
            {
                "number": event.number,
                "time": clock_text(event.time),
                "text": event_text(event),
            }
            for event in reversed(events)
        ]

    async def tell_vports() -> None:
        """Tell how far the manager has come; asked while something is open, and when something has happened."""
        try:
            vports = (await watch.read(EmVports, "/em/vports")).vports
        except LabError as error:
            converged.set_text(str(error))
            return
        done = sum(vport.state == CONFIGURED for vport in vports)
        of["open"] = len(vports) - done
        converged.set_text(f"{done} of {len(vports)} vports are configured")

    frame(watch, "Timeline", show)
    converged = ui.label()
    said = ui.label()
    chart = (
        ui.echart({"series": []})
        .classes("w-full h-96")
        .props('role=img aria-label="Events over time; the table has the same"')
    )
    mads = (
        ui.echart({"series": []})
        .classes("w-full h-40")
        .props('role=img aria-label="MADs a second over time"')
    )
    shown = table("Events", {"number": "number", "time": "time, UTC", "text": "event"})
