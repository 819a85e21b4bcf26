"""A terminal that a command fills while it runs, on Textual; it is given back however the command ends.

Imported only where such a view is shown: Textual takes longer to import than a short command to run.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from rich.console import Group
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.drivers.linux_driver import LinuxDriver
from textual.widgets import Static
from textual.worker import WorkerFailed

from opavnic.base.signals import call_on_ending_signals
from opavnic.cli.base.output import Sheet, as_rich
from opavnic.state.lab import LabState


class _OnStdout(LinuxDriver):
    """Textual draws on stderr, where the errors of a command belong."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._file = sys.__stdout__


class FullScreen(App[None]):
    """A view that fills the terminal until a person, a signal or an error ends it."""

    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "end", "Quit", priority=True),
        Binding("ctrl+c", "end_now", show=False, priority=True),
        Binding("ctrl+z", "suspend_process", show=False, priority=True),
    ]

    def __init__(self) -> None:
        for name in ("COLUMNS", "LINES"):  # which do not follow when a terminal changes its size
            os.environ.pop(name, None)
        super().__init__(driver_class=_OnStdout, ansi_color=True)
        self.theme = "ansi-dark"  # the terminal's own colours
        self.animation_level = "none"
        self.wrong: Exception | None = None
        """What ended the view, of which `run_to_end` tells its caller."""

    def run_to_end(self) -> None:
        """Show the view until it ends. Raises: what went wrong in it, once the terminal is given back."""
        self.run()
        if self.wrong is not None:
            raise self.wrong

    def on_mount(self) -> None:
        """Let the signals that end a command end the view; draw all of it when the program goes on after Ctrl-Z."""
        if not self.is_headless:
            call_on_ending_signals(self.exit)
        self.app_resume_signal.subscribe(self, lambda _: self.refresh(layout=True))

    def action_end(self) -> None:
        """End the view."""
        self.exit()

    def action_end_now(self) -> None:
        """End the view, also while a line is written."""
        self.exit()

    def _handle_exception(self, error: Exception) -> None:
        """End the view: Textual itself would print a traceback."""
        cause = error.error if isinstance(error, WorkerFailed) else error
        self.wrong = self.wrong or (cause if isinstance(cause, Exception) else error)
        self.exit()


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
