"""What every page has: the head with the lab's name and the ways to the other pages, and the look once a second."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from nicegui import ui
from nicegui.events import GenericEventArguments

from opavnic.lab.file.errors import LabError
from opavnic.web.pages.watch import LOOK_S, Watch
from opavnic.web.scene.scene import Scene

_PAGES: Final = (
    ("Fabric", "/"),
    ("VNICs", "/vnics"),
    ("Packets", "/packets"),
    ("MADs", "/mads"),
    ("Timeline", "/timeline"),
    ("Apps and parts", "/parts"),
)
"""Pages of every lab; those of its parts follow."""

_ON_VIEW: Final = "page-on-view"
_TELL_VIEW: Final = (
    f"const tell = () => emitEvent('{_ON_VIEW}', !document.hidden); if (document.hidden) tell();"
    "if (!window.tellsView) { window.tellsView = true; document.addEventListener('visibilitychange', tell) }"
)
"""Has the browser say when the page is no longer on view, and when it is again."""

PRIMARY: Final = "#1f5fa8"
"""Colour of buttons: 4.5 to 1 against white, for low vision (WCAG 1.4.3)."""

Show = Callable[[Scene], Awaitable[None] | None]


def frame(watch: Watch, title: str, show: Show) -> Callable[[], Awaitable[None]]:
    """Draw the head of a page, and call `show` with what is to be seen, now and once a second while the page is open.

    Returns: a function that looks at once, as after a change.
    """
    ui.colors(primary=PRIMARY)
    ui.page_title(f"{title} - opavnic")
    with ui.header().classes("items-center gap-6 py-2 bg-slate-800"):
        ui.label("opavnic").classes("font-bold text-lg")
        ways = ui.row().classes("gap-4").props('role=navigation aria-label="Pages"')
        with ways:
            for name, target in _PAGES:
                _way(name, target, here=name == title)
        ui.space()
        lab = ui.label().classes("font-mono").props('data-testid="lab"')
    summary = ui.label().classes("text-sm text-slate-600")
    wrong = (
        ui.label()
        .classes("w-full bg-red-100 text-red-900 p-2 rounded font-bold")
        .props('role=alert data-testid="alert"')
    )
    wrong.set_visibility(False)

    known: set[str] = set()

    def lead_to_parts(seen: Scene) -> None:
        for page in watch.part_pages:
            if page.name not in known and page.asks(seen):
                known.add(page.name)
                with ways:
                    _way(page.title, f"/part/{page.name}", here=page.title == title)

    async def look(*, fresh: bool = False) -> None:
        try:
            seen = await watch.look(fresh=fresh)
        except LabError as error:
            wrong.set_text(str(error))
            wrong.set_visibility(True)
            return
        lost = ", ".join(f"{name} {count:+}" for name, count in seen.state.balance.items())
        wrong.set_text(f"packets not accounted for (a bug): {lost}" if lost else "")
        wrong.set_visibility(bool(lost))
        lab.set_text(seen.state.lab)
        lead_to_parts(seen)
        summary.set_text(f"{seen.summary}; {seen.mads:,.0f} MADs/s")
        done = show(seen)
        if done is not None:
            await done

    timer = ui.timer(LOOK_S, look)

    async def seen_or_not(event: GenericEventArguments) -> None:
        """Ask for nothing while the page is on a tab behind another, or its window is minimised."""
        timer.active = bool(event.args)
        if timer.active:
            await look()

    ui.on(_ON_VIEW, seen_or_not)
    ui.context.client.on_connect(lambda: ui.run_javascript(_TELL_VIEW))

    async def again() -> None:
        await look(fresh=True)

    return again


def _way(name: str, target: str, *, here: bool) -> None:
    ui.link(name, target).classes(f"text-white {'underline' if here else 'no-underline'}")
