"""The way of packets that pass now: hop by hop, with the header bit by bit; and MADs as a sequence diagram."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlencode

from nicegui import ui

from hfi_sim.base.errors import FaultError
from hfi_sim.base.text import counted, visible
from hfi_sim.fabric.faults import parse_match
from opavnic.decode.summary import summarize
from opavnic.lab.file.errors import LabError
from opavnic.observe.journeys import Journey, journeys, messages
from opavnic.observe.pages import journey_html, mad_parts
from opavnic.state.fabric import RoutesState
from opavnic.web.pages.frame import Look, frame
from opavnic.web.pages.watch import Watch
from opavnic.web.scene.fabric_chart import path_of
from opavnic.web.scene.scene import Scene

ANY: Final = "any"
PACKETS_MAX: Final = 200
"""Times that a packet enters a link which a look at packets keeps; a packet enters several."""
PATIENCE_S: Final = 3.0
"""How long packets are waited for."""
MADS_MAX: Final = 3000
MADS_DECODED: Final = 200
SECONDS: Final = (2, 5, 10, 30)
_MACS: Final = re.compile(r"[0-9a-f:]{17} > [0-9a-f:]{17} ")


class PacketsPage:
    """One open page: asks for the next packets between two hosts, and shows the way of the one that is chosen."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._lids: dict[str, int] = {}
        self._found: list[Journey] = []
        self._waits: Mapping[str, str] = {}
        self.look: Look = frame(watch, "Packets", self._show)
        with ui.row().classes("tools"):
            self._from = ui.select([ANY], value=ANY, label="From", with_input=True)
            self._to = ui.select([ANY], value=ANY, label="to", with_input=True)
            self._match = ui.input("Match", placeholder="l4=ethernet vesw=2", value="l4=ethernet")
            self._match.classes("broad").on("keydown.enter", self._ask)
            ui.button("Show the next packets", on_click=self._ask).props("flat")
        self._said = ui.label("Packets that pass after the click are shown, each with its way.")
        self._said.props("role=status")
        with ui.element().classes("beside nicegui-row"):
            self._list = ui.column().classes("side choices none")
            self._way = ui.html(sanitize=False).classes("parts main").props('data-testid="way"')

    def _show(self, seen: Scene) -> None:
        self._lids = {
            node.name: node.lid for node in seen.nodes if node.lid is not None and node.kind != "switch"
        }
        names = [ANY, *self._lids]
        for field in (self._from, self._to):
            if field.options != names:
                field.set_options(names, value=field.value if field.value in names else ANY)

    async def _ask(self) -> None:
        query = {"count": str(PACKETS_MAX), "snap": "2200"}
        for key, field in (("slid", self._from), ("dlid", self._to)):
            if field.value != ANY:
                query[key] = str(self._lids[field.value])
        try:
            words = (self._match.value or "").split()
            parse_match(words)
            query |= dict(word.split("=", 1) for word in words)
            self._said.set_text(f"waiting for packets, up to {PATIENCE_S:.0f} s")
            records = await self._watch.packets(query, PATIENCE_S)
            self._waits = await self._queues()
        except (FaultError, LabError) as error:
            self._said.set_text("")
            ui.notify(str(error), type="negative")
            return
        self._found = journeys(records)
        self._said.set_text(
            counted(len(self._found), "packet") + (" came" if self._found else " came; is anything sent?")
        )
        self._list.clear()
        with self._list:
            for number, journey in enumerate(self._found):
                lost = "✕ " if journey.dropped is not None else ""
                text = f"{lost}{journey.source} → {journey.target}: {visible(_content(journey.packet))}"
                ui.button(text, on_click=lambda _, number=number: self._choose(number)).props(
                    "flat dense no-caps align=left"
                ).classes("tiny mono")
        if self._found:
            self._choose(0)

    async def _queues(self) -> Mapping[str, str]:
        """Return what waits at each direction on the way between the chosen hosts, where both are chosen."""
        if ANY in (self._from.value, self._to.value) or self._from.value == self._to.value:
            return {}
        asked = urlencode({"from": self._from.value, "to": self._to.value})
        return path_of(await self._watch.read(RoutesState, f"/routes?{asked}"))

    def _choose(self, number: int) -> None:
        self._way.set_content(journey_html(self._found[number], self._waits))


def _content(packet: bytes) -> str:
    """Return the summary of a packet without LIDs and MAC addresses, which its way and its fields say."""
    return _MACS.sub("", summarize(packet).partition(" > ")[2].partition(" ")[2])


def mads_page(watch: Watch) -> Look:
    """The MADs of some seconds as a sequence diagram; a click on one leads to its fields."""
    look = frame(watch, "MADs", lambda seen: None)
    found: list[Journey] = []

    def draw() -> None:
        wanted = (only.value or "").casefold()
        shown = [
            message
            for message in messages(found)
            if wanted in f"{message.source} {message.target} {message.text}".casefold()
        ]
        drawing.set_content("\n".join(mad_parts(shown, MADS_DECODED)))

    async def record() -> None:
        said.set_text(f"recording for {seconds.value} s")
        button.disable()
        try:
            records = await watch.packets(
                {"l4": "mad", "count": str(MADS_MAX)}, float(seconds.value or SECONDS[0])
            )
        except LabError as error:
            said.set_text(str(error))
            return
        finally:
            button.enable()
        found[:] = journeys(records)
        said.set_text("")
        draw()

    with ui.row().classes("tools"):
        seconds = ui.select({each: f"{each} s" for each in SECONDS}, value=SECONDS[0], label="Record for")
        button = ui.button("Record MADs", on_click=record).props("flat")
        only = ui.input("Only with", placeholder="h1, Trap, VeswPortInfo", on_change=draw).classes("broad")
    said = ui.label("Of every link: requests, responses and traps of managers and agents.").props(
        "role=status"
    )
    drawing = ui.html(sanitize=False).classes("parts wide").props('data-testid="mads"')
    return look
