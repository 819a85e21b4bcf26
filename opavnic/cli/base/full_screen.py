"""A terminal that a command fills while it runs, on Textual; it is given back however the command ends.

Imported only where such a view is shown: Textual takes longer to import than a short command to run.
"""

from __future__ import annotations

import os
import sys
from typing import Any, ClassVar

from textual.app import App
from textual.binding import Binding, BindingType
from textual.drivers.linux_driver import LinuxDriver
from textual.worker import WorkerFailed

from opavnic.base.signals import call_on_ending_signals


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
        """Let the signals that end a command end the view."""
        if not self.is_headless:
            call_on_ending_signals(self.exit)

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
