"""What the apps and parts of a lab say of themselves: LNet, the EJFAT load balancer, parts of other packages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nicegui import ui

from hfi_sim.base.text import visible
from opavnic.web.pages.frame import Look, frame
from opavnic.web.pages.table import table
from opavnic.web.pages.watch import Watch
from opavnic.web.scene.scene import Scene, elsewhere_text


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
