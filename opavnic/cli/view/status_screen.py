"""The terminal while `opavnic status -w` runs: the status, updated in place.

It asks at intervals and follows nothing: the control API of a lab streams its log and its packets, but no changes of
its status. Most of what is shown are counts, which every packet changes, so that events would not spare the question;
how old the picture may be is what the interval says. `opavnic logs --follow` reports links, guests and uplinks at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from rich.console import Group
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from opavnic.cli.base.full_screen import FullScreen
from opavnic.cli.base.output import as_rich
from opavnic.cli.view.status import status_items
from opavnic.state.lab import LabState


def watch_status(ask: Callable[[], LabState], interval_s: float, *, whole: bool = False) -> None:
    """Show what `ask` returns until the key q or a signal; it is asked again after each interval.

    Args:  whole: list everything, as for `status_items`.
    """
    _StatusScreen(ask, interval_s, whole).run_to_end()


class _StatusScreen(FullScreen):
    def __init__(self, ask: Callable[[], LabState], interval_s: float, whole: bool) -> None:
        super().__init__()
        self._ask = ask
        self._interval_s = interval_s
        self._whole = whole
        self._first = ask()

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Static(self._picture(self._first))

    def on_mount(self) -> None:
        super().on_mount()
        self.run_worker(self._look(), exit_on_error=True)

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(self._interval_s)
            state = await asyncio.to_thread(self._ask)
            self.query_one(Static).update(self._picture(state))

    def _picture(self, state: LabState) -> Group:
        lines = [line for item in status_items(state, whole=self._whole) for line in as_rich(item)]
        hint = Text(f"every {self._interval_s:g} s; q: end", "dim", no_wrap=True)
        return Group(hint, *lines)
