"""The fabric: drawn, with what is chosen in it beside the drawing, its faults, paths and captures."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote, urlencode

from nicegui import ui
from nicegui.events import EChartPointClickEventArguments, GenericEventArguments

from hfi_sim.base.quantities import rounded_rate
from hfi_sim.base.text import counted, visible
from opavnic.lab.file.errors import LabError
from opavnic.observe.rate_tables import MANY
from opavnic.state.fabric import FaultStatus, RoutesState
from opavnic.web.pages.frame import Look, frame
from opavnic.web.pages.part import redraw
from opavnic.web.pages.watch import Watch
from opavnic.web.scene.fabric_chart import (
    SIGNS,
    Path,
    busiest,
    described,
    drop_lines,
    fabric_chart,
    link_lines,
    path_of,
    plan_of,
)
from opavnic.web.scene.fold import GROUP, RATES, USES, folded, home_of
from opavnic.web.scene.layout import PRINT, Layout, Plan, Room, layout
from opavnic.web.scene.scene import LinkView, NodeView, Scene

# --- beside the drawing of the fabric: what is chosen, figures, path, faults, drops ------------------------
# What a person has the keyboard on, or types, stays while figures beside it change: only texts are set anew.

CAPTURE_S: Final = 10
_DROPS_SHOWN: Final = 20
_BUSIEST: Final = 8

Chosen = LinkView | NodeView | None


class Lines:
    """Lines of text, of which any may change at any time."""

    def __init__(self, classes: str) -> None:
        self._classes = classes
        self._labels: list[ui.label] = []
        self._place = ui.column().classes("tight")

    def set(self, lines: Sequence[str]) -> None:
        """Show these lines."""
        while len(self._labels) > len(lines):
            self._labels.pop().delete()
        with self._place:
            while len(self._labels) < len(lines):
                self._labels.append(ui.label().classes(self._classes))
        for label, line in zip(self._labels, lines, strict=True):
            label.set_text(line)


class Side:
    """The column of one open page."""

    def __init__(
        self,
        set_fault: Callable[[str], Awaitable[None]],
        remove: Callable[[int], Awaitable[None]],
        unfold: Callable[[str], None],
    ) -> None:
        """Make it, empty.

        Args:  what a person asks for: a fault to be set, the number of one to be removed, a switch whose hosts are to
               be drawn apart.
        """
        self._set = set_fault
        self._remove = remove
        self._unfold = unfold
        self._stands: object = None
        """What the part about the chosen thing was built for."""
        self._figures: list[ui.label] = []
        self._faults: dict[int, tuple[ui.row, ui.label]] = {}
        self._opened: Mapping[str, Mapping[str, int]] | None = None
        """What was dropped before the page was opened; None until the first look."""
        column = ui.column().classes("side tight").props('role=region aria-label="What is chosen"')
        with column:
            self._about = ui.column().classes("wide tight")
            self._busiest_head = ui.label("Busiest").classes("head")
            self._busiest = Lines("small mono")
            self._path_head = ui.label("Path").classes("head")
            self._path = Lines("small mono")
            ui.separator()
            ui.label("Faults").classes("head")
            self._fault_list = ui.column().classes("none")
            self._field()
            self._drops_head = ui.label("Drops since this page was opened").classes("head")
            self._drops = Lines("small mono")

    def _field(self) -> None:
        field = ui.input("Set a fault", placeholder="loss on h1 20% l4=ethernet for=10s").classes("wide")
        field.on("keydown.enter", lambda: self._set(field.value or ""))

    def tell(self, seen: Scene, chosen: Chosen, path: Path) -> None:
        """Show what there is to say now."""
        stands, lines = _standing(seen, chosen), _figures(seen, chosen)
        if stands != self._stands or len(lines) != len(self._figures):
            self._stands = stands
            self._build(chosen, seen, lines)
        for label, line in zip(self._figures, lines, strict=True):
            label.set_text(line)
        flows = busiest(seen, _BUSIEST)
        self._busiest_head.set_visibility(bool(flows))
        self._busiest.set(flows)
        self._path_head.set_visibility(bool(path))
        self._path.set([f"{name}: {text}" for name, text in path.items()])
        self._tell_faults(seen.faults)
        if self._opened is None:
            self._opened = seen.state.drops
        drops = drop_lines(seen.state.drops, self._opened, _DROPS_SHOWN)
        self._drops_head.set_visibility(bool(drops))
        self._drops.set(drops)

    def _build(self, chosen: Chosen, seen: Scene, lines: Sequence[str]) -> None:
        self._about.clear()
        self._figures = []
        if chosen is None:
            return
        with self._about:
            ui.label(chosen.name).classes("section mono")
            if isinstance(chosen, NodeView) and chosen.kind == "host":
                for host, vnic, _ in seen.vnics:
                    if host.name == chosen.host:
                        target = f"/vnic/{quote(host.name, safe='')}/{quote(vnic.interface, safe='')}"
                        ui.link(f"VNIC {vnic.interface} on {visible(vnic.vesw_text)}", target).classes(
                            "small"
                        )
            self._figures = [ui.label(line).classes("small") for line in lines]
            with ui.row():
                self._deeds(chosen)

    def _deeds(self, chosen: LinkView | NodeView) -> None:
        if isinstance(chosen, LinkView):
            if chosen.cables > 1:
                return
            if chosen.up:
                self._button("Cut", f"link-down on {chosen.name}")
            self._button("Lose 10%", f"loss on {chosen.name} 10%")
            self._button("Delay 1 ms", f"delay on {chosen.name} delay=1ms")
        elif chosen.kind == GROUP:
            ui.button("Show its hosts", on_click=lambda: self._unfold(chosen.host)).props("outline dense")
            return
        elif chosen.kind == "switch":
            self._button("Reboot", f"switch-reboot on {chosen.name} for=2s")
        elif chosen.kind == "host":
            self._button("Crash the driver", f"crash on {chosen.host} for=2s")
        query = urlencode({"on": chosen.name, "seconds": CAPTURE_S})
        ui.link(f"Capture {CAPTURE_S} s", f"/capture.pcapng?{query}").props("download")

    def _button(self, text: str, fault: str) -> None:
        ui.button(text, on_click=lambda: self._set(fault)).props("outline dense")

    def _tell_faults(self, faults: Sequence[FaultStatus]) -> None:
        for number in self._faults.keys() - {fault.number for fault in faults}:
            self._faults.pop(number)[0].delete()
        for fault in faults:
            if fault.number not in self._faults:
                with self._fault_list:
                    self._faults[fault.number] = self._fault_row(fault.number)
            # a fault of a link or an HFI sees no packets; its hits are the times that it began
            hits = f"hit {fault.hits} of {fault.seen}" if fault.seen else counted(fault.hits, "hit")
            said = f"{fault.number}: {fault.fault} ({fault.state}, {hits})"
            self._faults[fault.number][1].set_text(said)

    def _fault_row(self, number: int) -> tuple[ui.row, ui.label]:
        with ui.row().classes("items-center no-wrap small wide") as row:
            label = ui.label().classes("grow")
            ui.button("Remove", on_click=lambda: self._remove(number)).props(
                f'flat dense aria-label="Remove fault {number}"'
            )
        return row, label


def _standing(seen: Scene, chosen: Chosen) -> object:
    """Return what of a chosen thing decides which links and buttons it has."""
    if isinstance(chosen, LinkView):
        return chosen.name, chosen.up
    if chosen is None:
        return None
    vnics = [(vnic.interface, vnic.vesw_text) for host, vnic, _ in seen.vnics if host.name == chosen.host]
    return chosen.name, vnics


def _figures(seen: Scene, chosen: Chosen) -> list[str]:
    """Return what is to be said of a chosen thing, a line each."""
    if isinstance(chosen, LinkView):
        return link_lines(chosen)[1:]
    if chosen is None:
        return []
    lines = [chosen.kind if chosen.lid is None else f"{chosen.kind}, LID {chosen.lid:#x}"]
    lines += [chosen.wrong] if chosen.wrong else []
    return lines + [
        f"{vnic.interface}: {vnic.state}, sends {rounded_rate(paces['tx_bytes'])}"
        for host, vnic, paces in seen.vnics
        if host.name == chosen.host and chosen.kind == "host"
    ]


# -----------------------------------------------------------------------------------------------------------

ALL: Final = "all virtual switches"
BY_USE, BY_RATE = "by use of the link", "by bit/s"
_ANSWERED_S: Final = 0.05
"""What is said of a chosen host is on its way to the browser first: drawing its neighbours takes longer."""
_SMALL_PRINT: Final = 11.0
_PHONE: Final = 600
"""Pixels of width below which print is small."""
_MOST_PX: Final = 20_000.0
_ROOM: Final = "fabric-room"
_TELL_ROOM: Final = (
    "const zoom = () => +getComputedStyle(document.documentElement).getPropertyValue('--zoom');"
    "const room = () => { const place = document.querySelector('[data-testid=fabric]').parentElement;"
    "const width = 10 * Math.floor((place.clientWidth - 2) * zoom() / 10);"
    "return [width, Math.round(innerHeight * (width < 600 ? 0.5 : 0.66)), zoom()] };"
    "const tell = () => { const now = room(), before = window.toldRoom;"
    f"if (now.join() != before) {{ window.toldRoom = now.join(); emitEvent('{_ROOM}', now) }} }};"
    "if (!window.tellsRoom) { window.tellsRoom = true; addEventListener('resize', tell) } tell()"
)
"""Has the browser say how much room there is for the drawing, and how large print is to be: this side draws it."""


def _legend(by_use: bool = True) -> None:
    """Say what the lines and signs of the drawing mean."""
    with ui.row().classes("legend").props('role=note aria-label="Legend"'):
        for level in USES if by_use else RATES:
            with ui.row():
                line = f"width:24px;height:{level.width}px;background:{level.colour};opacity:{level.opacity}"
                ui.element("span").style(line)
                ui.label(level.text)
        ui.label("of the link's rate, by direction" if by_use else "bit/s, by direction")
        if by_use:
            ui.label("figures: about, in bit/s")
        for sign, meaning in SIGNS:
            ui.label(f"{sign} {meaning}")


class FabricPage:
    """One open page."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._seen: Scene | None = None
        self._view: Scene | None = None
        """What is drawn of it: all, or the hosts of a switch as one node."""
        self._unfolded: set[str] = set()
        """Switches whose hosts are drawn apart though the others' are folded."""
        self._known: list[str] = []
        """Names of all nodes and links."""
        self._chosen: LinkView | NodeView | None = None
        self._path: Path = {}
        self._route: dict[str, str] = {}
        self.look: Look = frame(watch, "Fabric", self._show)
        ui.add_head_html(
            '<script type="module">import "nicegui-echart"</script>'
        )  # large, else asked for last
        with ui.element().classes("beside nicegui-row"):
            with ui.column().classes("main loose"):
                self._tools()
                self._chart = ui.echart({"series": []}, on_point_click=self._clicked, renderer="svg")
                self._chart.classes("fabric").props(
                    'role=img data-testid="fabric" aria-label="Drawing of the fabric"'
                )
                self._legend = ui.refreshable(_legend)
                self._legend()
            self._side = Side(self._set, self._remove, self._unfold)
        self._drawn: dict[str, Any] = {}
        self._room: Room | None = None
        """Of the browser; None: it has not said yet."""
        self._laid: tuple[Plan, Room, Layout] | None = None
        ui.on(_ROOM, self._tell_room)
        ui.context.client.on_connect(lambda: ui.run_javascript(_TELL_ROOM))

    def _tools(self) -> None:
        with ui.row().classes("tools"):
            self._choose = (
                ui.select([], label="Choose a host, switch or link", with_input=True, on_change=self._picked)
                .classes("broad")
                .props("clearable")
            )
            self._vesw = ui.select([ALL], value=ALL, label="Virtual switch", on_change=self._redraw)
            self._vesw.classes("middle")
            self._colours = ui.select(
                [BY_USE, BY_RATE], value=BY_USE, label="Flows are coloured", on_change=self._recolour
            ).classes("middle")
            self._from = ui.select([], label="Path from", with_input=True)
            self._to = ui.select([], label="to", with_input=True)
            ui.button("Show path", on_click=self._show_path).props("flat")
            self._fold = ui.switch("Fold hosts", on_change=self._refold)
            self._fold.set_visibility(False)

    # --- what is to be seen ------------------------------------------------------------------------------

    async def _show(self, seen: Scene) -> None:
        first, self._seen = self._seen is None, seen
        hosts = [node.name for node in seen.nodes if node.kind == "host"]
        if first:
            self._fold.set_value(len(hosts) > MANY)
        self._fold.set_visibility(len(hosts) > 1)
        self._view = self._folded(seen)
        known = [*(node.name for node in seen.nodes), *(link.name for link in seen.links)]
        if known != self._known:  # they are thousands, and go to the browser only if they have changed
            self._known, groups = known, folded(seen)
            apart = [node.name for node in groups.nodes] + [link.name for link in groups.links]
            self._choose.set_options(list(dict.fromkeys([*apart, *known])))
        if self._from.options != hosts:
            self._from.set_options(hosts)
            self._to.set_options(hosts)
        vesws = [ALL, *seen.vesws]
        if self._vesw.options != vesws:
            self._vesw.set_options(vesws, value=self._vesw.value if self._vesw.value in vesws else ALL)
        if self._route:
            await self._ask_path()
        self._redraw()
        self._tell()

    def _redraw(self) -> None:
        if self._view is None:
            return
        self._chart.props["aria-label"] = described(self._view)
        if self._room is None:
            return
        vesw = None if self._vesw.value in (None, ALL) else self._vesw.value
        placed, by_use = self._layout(self._view, self._room), self._colours.value == BY_USE
        drawn = fabric_chart(self._view, placed, self._room, vesw, self._path, by_use=by_use)
        if drawn != self._drawn:
            self._drawn = drawn
            self._chart.props["data-drawn"] = f"{self._room.width:.0f}"
            redraw(self._chart, drawn)

    def _layout(self, seen: Scene, room: Room) -> Layout:
        """Return where nodes are drawn; thought of anew only where something about it has changed."""
        plan = plan_of(seen)
        if self._laid is None or self._laid[:2] != (plan, room):
            self._laid = plan, room, layout(plan, room)
            self._chart.style(f"height: {self._laid[2].height:.0f}px")
        return self._laid[2]

    def _recolour(self) -> None:
        self._legend.refresh(self._colours.value == BY_USE)
        self._redraw()

    def _tell_room(self, event: GenericEventArguments) -> None:
        width, height, zoom = (min(max(float(number), 1.0), _MOST_PX) for number in event.args)
        size = PRINT if width >= _PHONE * zoom else _SMALL_PRINT
        self._room = Room(max(width, 200.0), height, size * min(zoom, 4.0))
        self._redraw()

    def _tell(self) -> None:
        """Tell beside the drawing of what is chosen."""
        seen = self._seen
        if seen is None:
            return
        self._chosen = self._find(self._chosen.name if self._chosen is not None else "")
        self._side.tell(seen, self._chosen, self._path)

    # --- what a person does ------------------------------------------------------------------------------

    def _clicked(self, event: EChartPointClickEventArguments) -> None:
        if self._seen is None:
            return
        if event.data_type == "edge":
            data: Any = event.data  # declared as a number or text; of an edge it is the row of the chart
            self._choose.set_value(str(data.get("value", "")))
        else:
            self._choose.set_value(str(event.name))

    async def _picked(self) -> None:
        name = self._choose.value or ""
        if self._seen is None:
            return
        self._chosen = self._find(name)
        self._tell()
        if isinstance(self._chosen, NodeView) and self._fold.value and self._chosen.kind == "host":
            await asyncio.sleep(_ANSWERED_S)
            self._unfold(home_of(self._seen, name))

    def _find(self, name: str) -> LinkView | NodeView | None:
        """Return what has that name, of what there is or of what is drawn."""
        seen = [scene for scene in (self._seen, self._view) if scene is not None]
        return next((found for scene in seen if (found := scene.link(name) or scene.node(name))), None)

    def _folded(self, seen: Scene) -> Scene:
        return folded(seen, self._unfolded) if self._fold.value else seen

    def _refold(self) -> None:
        self._unfolded.clear()
        if self._seen is not None:
            self._view = self._folded(self._seen)
            self._redraw()

    def _unfold(self, switch: str) -> None:
        if switch not in self._unfolded and self._seen is not None:
            self._unfolded.add(switch)
            self._view = self._folded(self._seen)
            self._redraw()

    async def _show_path(self) -> None:
        if not self._from.value or not self._to.value or self._from.value == self._to.value:
            ui.notify("choose two hosts", type="warning")
            return
        self._route = {"from": self._from.value, "to": self._to.value}
        if wrong := await self._ask_path():
            ui.notify(wrong, type="negative")
        self._redraw()
        self._tell()

    async def _ask_path(self) -> str:
        """Ask where the packets of the chosen flow go, and what waits there; return what was wrong, or nothing."""
        try:
            found = await self._watch.read(RoutesState, "/routes?" + urlencode(self._route))
        except LabError as error:
            self._path, self._route = {}, {}
            return str(error)
        self._path = path_of(found)
        return ""

    async def _set(self, fault: str) -> None:
        await self._change("/faults", {"fault": fault})

    async def _remove(self, number: int) -> None:
        await self._change("/faults/remove", {"number": number})

    async def _change(self, path: str, body: dict[str, object]) -> None:
        if wrong := await self._watch.change(path, body):
            ui.notify(wrong, type="negative")
        await self.look(fresh=True)
