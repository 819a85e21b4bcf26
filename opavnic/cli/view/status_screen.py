"""The terminal while `opavnic status -w` runs: the status, updated in place.

It asks at intervals and follows nothing: the control API of a lab streams its log and its packets, but no changes of
its status. Most of what is shown are counts, which every packet changes, so that events would not spare the question;
how old the picture may be is what the interval says. `opavnic logs --follow` reports links, guests and uplinks at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from rich.console import Group
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from opavnic.cli.base.full_screen import FullScreen
from opavnic.cli.base.output import Sheet, as_rich
from opavnic.state.lab import LabState


def watch_status(
    ask: Callable[[], LabState], items: Callable[[LabState], Iterable[Sheet | str]], interval_s: float
) -> None:
    """Show what `ask` returns until the key q or a signal; it is asked again after each interval.

    Args:  items: what of the state is shown.
    """
    _StatusScreen(ask, items, interval_s).run_to_end()


class _StatusScreen(FullScreen):
    def __init__(
        self,
        ask: Callable[[], LabState],
        items: Callable[[LabState], Iterable[Sheet | str]],
        interval_s: float,
    ) -> None:
        super().__init__()
        self._ask = ask
        self._interval_s = interval_s
        self._items = items
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
        lines = [line for item in self._items(state) for line in as_rich(item)]
        hint = Text(f"every {self._interval_s:g} s; q: end", "dim", no_wrap=True)
        return Group(hint, *lines)
