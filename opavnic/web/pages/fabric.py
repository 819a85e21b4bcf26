"""The fabric: drawn, with what is chosen in it beside the drawing, its faults, paths and captures."""

from __future__ import annotations

import asyncio
from typing import Any, Final
from urllib.parse import urlencode

from nicegui import ui
from nicegui.events import EChartPointClickEventArguments, GenericEventArguments

from opavnic.lab.file.errors import LabError
from opavnic.observe.rate_tables import MANY
from opavnic.state.fabric import RoutesState
from opavnic.web.pages.frame import Look, frame
from opavnic.web.pages.part import redraw
from opavnic.web.pages.side import Side
from opavnic.web.pages.watch import Watch
from opavnic.web.scene.fabric_chart import SIGNS, HopView, fabric_chart, hops_of
from opavnic.web.scene.fold import RATES, USES, folded, home_of
from opavnic.web.scene.scene import LinkView, NodeView, Scene

ALL: Final = "all virtual switches"
BY_USE, BY_RATE = "by use of the link", "by bit/s"
_ANSWERED_S: Final = 0.05
"""What is said of a chosen host is on its way to the browser first: drawing its neighbours takes longer."""
_SMALLEST, _LARGEST = 0.25, 4.0
_WIDTH: Final = 950
"""Pixels of the drawing's place at scale 1."""
_SCALE: Final = "fabric-scale"
_TELL_SCALE: Final = (
    "const scale = () => { const zoom = +getComputedStyle(document.documentElement).getPropertyValue('--zoom');"
    f"const width = document.querySelector('[data-testid=fabric]')?.clientWidth || {_WIDTH};"
    f"return Math.round(20 * Math.min(zoom, width / {_WIDTH})) / 20 }};"
    f"const tell = () => {{ if (scale() != window.toldScale) emitEvent('{_SCALE}', window.toldScale = scale()) }};"
    "if (!window.toldScale) { window.toldScale = 1; addEventListener('resize', tell) } tell()"
)
"""Has the browser say how much larger or smaller than on a laptop nodes and print are to be: this side draws them."""


def _legend(by_use: bool = True) -> None:
    """Say what the lines and signs of the drawing mean."""
    with ui.row().classes("legend").props('role=note aria-label="Legend"'):
        for level in USES if by_use else RATES:
            with ui.row():
                ui.element("span").style(f"width:24px;height:{level.width}px;background:{level.colour}")
                ui.label(level.text)
        ui.label("of the link's rate, by direction" if by_use else "bit/s, by direction")
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
        self._path: list[HopView] = []
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
        self._scale = 1.0
        ui.on(_SCALE, self._rescale)
        ui.context.client.on_connect(lambda: ui.run_javascript(_TELL_SCALE))

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
            )
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
        vesw = None if self._vesw.value in (None, ALL) else self._vesw.value
        drawn = fabric_chart(self._view, vesw, self._path, self._scale, by_use=self._colours.value == BY_USE)
        if drawn != self._drawn:
            self._drawn = drawn
            self._chart.props["aria-label"] = drawn["aria"]["label"]["description"]
            redraw(self._chart, drawn)

    def _recolour(self) -> None:
        self._legend.refresh(self._colours.value == BY_USE)
        self._redraw()

    def _rescale(self, event: GenericEventArguments) -> None:
        self._scale = min(max(float(event.args), _SMALLEST), _LARGEST)
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
            self._pick(str(data.get("value", "")))
        else:
            self._pick(str(event.name))

    def _pick(self, name: str) -> None:
        self._choose.set_value(name)

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
            self._path, self._route = [], {}
            return str(error)
        self._path = hops_of(found)
        return ""

    async def _set(self, fault: str) -> None:
        await self._change("/faults", {"fault": fault})

    async def _remove(self, number: int) -> None:
        await self._change("/faults/remove", {"number": number})

    async def _change(self, path: str, body: dict[str, object]) -> None:
        if wrong := await self._watch.change(path, body):
            ui.notify(wrong, type="negative")
        await self.look(fresh=True)
