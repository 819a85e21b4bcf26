"""The seed of the fabric."""

from __future__ import annotations

from nicegui import ui

from opavnic.lab.file.errors import LabError
from opavnic.state.fabric import SeedState
from opavnic.web.pages.frame import frame
from opavnic.web.pages.watch import Watch
from opavnic.web.scene.scene import Scene


def seed_page(watch: Watch) -> None:
    """The number that the random streams come from."""

    async def show(_: Scene) -> None:
        try:
            said.set_text(f"seed {(await watch.read(SeedState, '/seed')).seed}")
        except LabError as error:
            said.set_text(str(error))

    frame(watch, "Seed", show)
    said = ui.label()
