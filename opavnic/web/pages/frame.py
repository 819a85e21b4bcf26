"""What every page has: the head with the lab's name, the ways to other pages and the colours; a look once a second."""

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

COLOURS: Final = {"system": None, "light": False, "dark": True}
"""Which colours a person wants, in the order of the button; whether they are dark, None: as the browser prefers."""
_COLOURS_COOKIE: Final = "opavnic-colours"
_KEEP_S: Final = 365 * 86400

Show = Callable[[Scene], Awaitable[None] | None]
Look = Callable[..., Awaitable[None]]
"""Looks at the lab and shows it; `fresh=True` looks now, as after a change, however young the last look is."""


def frame(watch: Watch, title: str, show: Show) -> Look:
    """Draw the head of a page, and call `show` with what is to be seen once a second while the page is open.

    Returns: what looks now: awaited before the page is sent, so that it comes filled, and after a change.
    """
    ui.page_title(f"{title} - opavnic")
    with ui.header().classes("pages"):
        ui.label("opavnic").classes("product")
        ways = ui.row().props('role=navigation aria-label="Pages"')
        with ways:
            for name, target in _PAGES:
                _way(name, target, here=name == title)
        ui.space()
        _colours()
        lab = ui.label().classes("mono").props('data-testid="lab"')
    with ui.row().classes("about"):
        ui.label(title).classes("section").props("role=heading aria-level=1")
        summary = ui.label().classes("small dim")
    wrong = ui.label().classes("wide alert").props('role=alert data-testid="alert"')
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

    timers: list[ui.timer] = []

    async def seen_or_not(event: GenericEventArguments) -> None:
        """Ask for nothing while the page is on a tab behind another, or its window is minimised."""
        timers[0].active = bool(event.args)
        if timers[0].active:
            await look()

    def begin() -> None:
        """Look again and again once the browser has the page: a timer that is made before has it sent unfilled."""
        if not timers:
            timers.append(ui.timer(LOOK_S, look, immediate=False))
        ui.run_javascript(_TELL_VIEW)

    ui.on(_ON_VIEW, seen_or_not)
    ui.context.client.on_connect(begin)

    return look


def _way(name: str, target: str, *, here: bool) -> None:
    way = ui.link(name, target)
    if here:
        way.classes("here").props("aria-current=page")


def _colours() -> None:
    """Let a person choose the colours; the browser keeps the choice, for all pages."""
    request = ui.context.client.request
    chosen = request.cookies.get(_COLOURS_COOKIE, "") if request is not None else ""
    chosen = chosen if chosen in COLOURS else next(iter(COLOURS))
    dark = ui.dark_mode(COLOURS[chosen])
    button = ui.button(f"Colours: {chosen}", color=None).props("flat dense no-caps color=white")

    def change() -> None:
        names = list(COLOURS)
        now = names[(names.index(button.text.removeprefix("Colours: ")) + 1) % len(names)]
        dark.value = COLOURS[now]
        button.set_text(f"Colours: {now}")
        ui.run_javascript(
            f"document.cookie = '{_COLOURS_COOKIE}={now}; Path=/; SameSite=Strict; Max-Age={_KEEP_S}'"
        )

    button.on_click(change)
