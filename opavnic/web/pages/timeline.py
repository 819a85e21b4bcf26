"""What happened: states, events and rates on one time axis, and the events of the Ethernet Manager as a table."""

from __future__ import annotations

import time
from typing import Final

from nicegui import ui

from hfi_sim.fabric.topology.model import Topology
from opavnic.lab.file.errors import LabError
from opavnic.observe.rate_tables import MANY
from opavnic.observe.timeline import (
    ELEMENT,
    KEPT,
    Mark,
    Rate,
    clock_text,
    event_text,
    marks_of_changes,
    marks_of_events,
    timeline_data,
)
from opavnic.state.em import EmEvent, EmEvents, EmVports
from opavnic.state.fabric import ChangesState
from opavnic.web.pages.frame import Look, frame
from opavnic.web.pages.part import table
from opavnic.web.pages.watch import GAP_S, TOTALS, Watch
from opavnic.web.scene.run_page import fabric_drawing, run_page
from opavnic.web.scene.scene import EM_NODE, Scene

LISTED: Final = 1000
"""Events in the table; a lab keeps 10,000, which are all on the time axis."""
CONFIGURED: Final = "ok"
"""What GET /em/vports says of a vport that is as the manager wants it."""


async def saved_run(watch: Watch) -> str:
    """Return the run of a lab as a page. Raises LabError."""
    seen = await watch.look(fresh=True)  # one of a second ago would not know the last change that is below
    changes = (await watch.read(ChangesState, "/changes?after=0")).changes
    try:
        events = (await watch.read(EmEvents, f"/em/events?after=0&limit={KEPT}")).events
    except LabError:  # another manager has none
        events = []
    rates = {
        name: Rate(unit, [(when, values[name]) for when, values in watch.totals], GAP_S)
        for name, unit in TOTALS.items()
    }
    return run_page(seen, watch.topology, changes, events, rates, time.time())


class TimelinePage:
    """One open page: what the lab remembers, and what comes."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._pid = 0
        """Of the lab that was asked; one that was started anew counts anew."""
        self._event = self._change = 0
        """The numbers of the last event and change that have been read."""
        self._rated = 0.0
        """The time of the last rates that were sent."""
        self._listed: list[EmEvent] = []
        self._open = 1
        """Vports that were not configured when the manager was asked last."""
        self.look: Look = frame(watch, "Timeline", self._show)
        self._converged = ui.label()
        self._said = ui.label()
        ui.link("Save this run as a page", "/run.html").props("download")
        self._topology: Topology | None = None
        self._fabric = ui.html(sanitize=False).classes("parts wide")
        self._drawing = ui.element(ELEMENT).classes("wide").props('data-testid="timeline"')
        self._table = table("Events", {"number": "number", "time": "time, UTC", "text": "event"}).classes(
            "events"
        )

    async def _show(self, seen: Scene) -> None:
        reset = self._pid != seen.state.pid
        if reset:
            self._pid, self._event, self._change, self._rated = seen.state.pid, 0, 0, 0.0
            self._listed.clear()
        self._draw_fabric()
        marks = await self._marks()
        rates = {name: Rate(unit, self._since(name), GAP_S) for name, unit in TOTALS.items()}
        self._rated = self._watch.totals[-1][0] if self._watch.totals else 0.0
        data = timeline_data(marks, rates, time.time(), reset=reset)
        self._drawing.run_method("extend", data)

    def _draw_fabric(self) -> None:
        """Draw the fabric in which the cursor shows what was so; one of hundreds of hosts would be too small."""
        topology = self._watch.topology
        if topology is not self._topology:
            self._topology = topology
            self._fabric.set_content(fabric_drawing(topology) if len(topology.hosts()) <= MANY else "")

    def _since(self, name: str) -> list[tuple[float, float]]:
        return [(when, values[name]) for when, values in self._watch.totals if when > self._rated]

    async def _marks(self) -> list[Mark]:
        """Return what has happened since it was asked last."""
        try:
            changes = (await self._watch.read(ChangesState, f"/changes?after={self._change}")).changes
        except LabError as error:
            self._said.set_text(str(error))
            return []
        self._change = changes[-1].number if changes else self._change
        marks = list(marks_of_changes(changes, EM_NODE))
        try:
            path = f"/em/events?after={self._event}&limit={KEPT}"
            events = list((await self._watch.read(EmEvents, path)).events)
        except LabError as error:
            self._said.set_text(str(error))
            return marks
        if events or self._open:
            await self._tell_vports()
        if events:
            self._event = events[-1].number
            self._list(events)
        return marks + list(marks_of_events(events))

    def _list(self, events: list[EmEvent]) -> None:
        self._listed = [*self._listed, *events][-LISTED:]
        self._said.set_text(f"{self._event} events of the Ethernet Manager")
        self._table.rows = [
            {"number": event.number, "time": clock_text(event.time), "text": event_text(event)}
            for event in reversed(self._listed)
        ]

    async def _tell_vports(self) -> None:
        """Tell how far the manager has come; asked while something is open, and when something has happened."""
        try:
            vports = (await self._watch.read(EmVports, "/em/vports")).vports
        except LabError as error:
            self._converged.set_text(str(error))
            return
        done = sum(vport.state == CONFIGURED for vport in vports)
        self._open = len(vports) - done
        self._converged.set_text(f"{done} of {len(vports)} vports are configured")
