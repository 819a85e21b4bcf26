"""A page about apps or parts, as a `PartPage` describes it; it asks the lab only while it is open and on view."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Final

from nicegui import ui

from hfi_sim.base.text import visible
from opavnic.lab.file.errors import LabError
from opavnic.web.pages.frame import Look, frame
from opavnic.web.pages.watch import GAP_S, HISTORY, Watch
from opavnic.web.scene import charts
from opavnic.web.scene.part_page import (
    Answers,
    BarSection,
    NoteSection,
    PartPage,
    PlotSection,
    Section,
    TableSection,
)
from opavnic.web.scene.scene import Scene, elsewhere_text


def chart_place(classes: str = "") -> ui.echart:
    """Return the place of a plot, empty. Its texts take the colours of the page, light or dark: SVG."""
    return ui.echart({"series": []}, renderer="svg").classes(f"plot {classes}")


def redraw(chart: ui.echart, options: dict[str, Any]) -> None:
    """Show `options` in place of what the chart shows; how a person has moved or zoomed it stays."""
    chart.options.clear()
    chart.options.update(options)
    chart.update()


def table(label: str, columns: dict[str, str]) -> ui.table:
    """Return an empty table. Args: columns: heading by the key of a row."""
    shown = (
        ui.table(
            columns=[
                {"name": key, "label": heading, "field": key, "sortable": True, "align": "left"}
                for key, heading in columns.items()
            ],
            rows=[],
            row_key=next(iter(columns)),
            pagination=50,
        )
        .classes("wide")
        .props(f'dense flat bordered aria-label="{label}"')
    )
    # a table without rows is nothing to warn of: the library would put a triangle before its text
    shown.add_slot("no-data", '<span class="dim">{{ props.message }}</span>')
    return shown


_BAR_PX: Final = 34
_BARS_AROUND_PX: Final = 90


class PartView:
    """One open page."""

    def __init__(self, watch: Watch, page: PartPage) -> None:
        self._watch = watch
        self._page = page
        self._before: tuple[float, Mapping[str, Any]] | None = None
        self._shown: dict[str, Any] = {}
        """What a section was drawn with last, by its title."""
        self._elements: dict[str, Any] = {}
        self._history: dict[str, dict[str, deque[tuple[float, float]]]] = {}
        self.look: Look = frame(watch, page.title, self._show)
        self._elsewhere = ui.label()
        self._wrong = ui.label().classes("wrong")
        self._place = ui.column().classes("wide loose")

    async def _show(self, seen: Scene) -> None:
        now = time.monotonic()
        if self._before is not None and now - self._before[0] < self._page.every_s * 0.9:
            return
        self._elsewhere.set_text(elsewhere_text(seen))
        try:
            answers = {path: await self._watch.get(path) for path in self._page.asks(seen)}
        except LabError as error:
            self._wrong.set_text(str(error))
            return
        self._wrong.set_text("" if answers else "This lab has nothing to show here.")
        if not answers:
            return
        then, before = self._before or (now, answers)
        self._before = now, answers
        sections = list(self._page.sections(Answers(answers, before, now - then)))
        for title in self._elements.keys() - {section.title for section in sections}:
            self._elements.pop(title)[0].delete()
            self._shown.pop(title, None)
        for section in sections:
            self._draw(section)

    def _draw(self, section: Section) -> None:
        if section.title not in self._elements:
            with self._place, ui.column().classes("wide tight") as around:
                if not isinstance(section, NoteSection):
                    ui.label(section.title).classes("section").props("role=heading aria-level=2")
                self._elements[section.title] = around, self._element(section)
        around, element = self._elements[section.title]
        around.set_visibility(_says(section))
        drawn = self._shown.get(section.title)
        if isinstance(section, PlotSection):
            redraw(element, self._over_time(section))
        elif section != drawn:
            self._shown[section.title] = section
            _fill(element, section)

    def _element(self, section: Section) -> Any:
        if isinstance(section, TableSection):
            shown = table(section.title.replace('"', ""), dict(section.columns))
            shown.props["no-data-label"] = section.nothing
            if section.marked:
                shown.add_slot(
                    f"body-cell-{section.marked}",
                    '<q-td :props="props" class="wrong">{{ props.value }}</q-td>',
                )
            return shown
        if isinstance(section, NoteSection):
            return ui.label()
        label = f"{section.title}, {section.unit}; the tables of this page have the same"
        chart = chart_place()
        chart.props["role"], chart.props["aria-label"] = "img", label
        return chart

    def _over_time(self, section: PlotSection) -> dict[str, Any]:
        history = self._history.setdefault(section.title, {})
        now = time.time()
        for name, value in section.values.items():
            history.setdefault(name, deque(maxlen=HISTORY)).append((now, value))
        for name in history.keys() - section.values.keys():
            del history[name]
        return charts.plot("", section.unit, history, max(GAP_S, 3 * self._page.every_s))


def _says(section: Section) -> bool:
    """Return whether there is anything to draw: axes without a line tell nothing."""
    if isinstance(section, PlotSection):
        return bool(section.values)
    return not isinstance(section, BarSection) or any(map(any, section.pieces.values()))


def _fill(element: Any, section: TableSection | BarSection | NoteSection) -> None:
    if isinstance(section, TableSection):
        element.rows = [{key: _said(value) for key, value in row.items()} for row in section.rows]
    elif isinstance(section, NoteSection):
        element.set_text(visible(f"{section.title}: {section.text}"))
        element.classes(replace="wrong" if section.wrong else "small")
    else:
        element.style(f"height: {_BAR_PX * len(section.bars) + _BARS_AROUND_PX}px")
        redraw(element, charts.bars(section.unit, section.bars, section.pieces))


def _said(value: object) -> object:
    """Return a value as a cell of a table: numbers stay, so that they sort as such."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else visible(str(value))


def parts_page(watch: Watch) -> Look:
    """A table for each app and part."""
    tables: dict[str, ui.table] = {}

    def show(seen: Scene) -> None:
        nothing.set_visibility(not seen.apps)
        elsewhere.set_text(elsewhere_text(seen))
        for name, said in seen.apps:
            if name not in tables:
                with place:
                    ui.label(name).classes("section")
                    tables[name] = table(name.replace('"', ""), {"what": "what", "value": "value"})
            rows = [{"what": what, "value": value} for what, value in _flat(said)]
            if rows != tables[name].rows:
                tables[name].rows = rows

    look = frame(watch, "Apps and parts", show)
    elsewhere = ui.label()
    nothing = ui.label("This lab has neither apps nor parts that say something of themselves.")
    place = ui.column().classes("wide")
    return look


def _flat(said: Any, before: str = "") -> Iterator[tuple[str, str]]:
    """Yield the values of nested data, each with its path: `workers.1.state`."""
    if isinstance(said, dict | list):
        items = said.items() if isinstance(said, dict) else enumerate(said)
        for key, value in items:
            yield from _flat(value, f"{before}.{key}" if before else str(key))
    else:
        yield visible(before), visible(str(said))
