"""The terminal while `opavnic top` runs: a full-screen view updated in place, and keys; restored at the end."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import termios
import time
import tty
from types import FrameType, TracebackType
from typing import Any, Final, Self

from rich.console import Console, ConsoleDimensions, RenderableType
from rich.live import Live

from opavnic.cli.top_view import TopView
from opavnic.observe.rates import Order, Rates, in_order

_KEY_BYTES: Final = 64
_WAKING: Final = (signal.SIGWINCH, signal.SIGTSTP)
"""Signals whose handlers do nothing; they wake up `wait`, which then handles them."""


class Screen:
    """The terminal in full-screen mode, inside a `with` in the main thread. Keys are read if stdin is a terminal."""

    def __init__(self) -> None:
        self._console = Console(highlight=False, emoji=False)
        self._live = Live(console=self._console, screen=True, auto_refresh=False, redirect_stderr=False)
        self._stdin = sys.stdin.fileno() if sys.stdin is not None and sys.stdin.isatty() else None
        self._settings: list[Any] | None = None
        self._restore = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            awake, waker = socket.socketpair()
            for end in (awake, waker):
                stack.enter_context(end)
                end.setblocking(False)
            self._awake = awake
            before = signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
            stack.callback(signal.set_wakeup_fd, before)
            for signum in _WAKING:
                stack.callback(signal.signal, signum, signal.signal(signum, _nothing))
            stack.callback(self._give_back)
            self._take()
            self._restore = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore.close()

    def show(self, picture: RenderableType) -> None:
        """Replace what the screen shows."""
        self._live.update(picture, refresh=True)

    def wait(self, seconds: float) -> str:
        """Wait for a key and return it, or "" on timeout. The end of input counts as the key q."""
        end = time.monotonic() + seconds
        sources = [self._awake] if self._stdin is None else [self._awake, self._stdin]
        while (left := end - time.monotonic()) > 0:
            ready = select.select(sources, [], [], left)[0]
            if self._awake in ready:
                self._see_to(self._awake.recv(_KEY_BYTES))
            if self._stdin is not None and self._stdin in ready:
                return os.read(self._stdin, _KEY_BYTES).decode(errors="replace")[:1] or "q"
        return ""

    def _see_to(self, signals: bytes) -> None:
        if signal.SIGTSTP in signals:
            self._give_back()
            os.kill(os.getpid(), signal.SIGSTOP)
            self._take()
        self._measure()
        self._live.refresh()

    def _measure(self) -> None:
        """Take the size from the terminal: rich trusts LINES and COLUMNS, which do not follow a resize."""
        columns, rows = os.get_terminal_size(sys.stdout.fileno())
        if columns and rows:
            self._console.size = ConsoleDimensions(columns, rows)

    def _take(self) -> None:
        if self._stdin is not None:
            self._settings = termios.tcgetattr(self._stdin)
            tty.setcbreak(self._stdin)
        self._measure()
        self._live.start(refresh=True)

    def _give_back(self) -> None:
        self._live.stop()
        if self._stdin is not None and self._settings is not None:
            termios.tcsetattr(self._stdin, termios.TCSADRAIN, self._settings)
            self._settings = None


class Picture:
    """The rates on a screen, in the order chosen with the keys."""

    def __init__(self, screen: Screen, delay_s: float, order: Order, found: Rates) -> None:
        """Prepare; `found` is shown first."""
        self.found = found
        self.order = order
        self.left = False
        """Whether the key q was pressed."""
        self._screen = screen
        self._delay_s = delay_s

    def wait(self) -> bool:
        """Show the rates for one interval and handle keys; return whether to go on."""
        end = time.monotonic() + self._delay_s
        while (left := end - time.monotonic()) > 0 and not self.left:
            other = Order.LOAD if self.order is Order.NAME else Order.NAME
            view = TopView(in_order(self.found, self.order), fit=True, hint=f"q: end, s: by {other}")
            self._screen.show(view)
            key = self._screen.wait(left)
            if key == "s":
                self.order = other
            self.left = key == "q"
        return not self.left


def _nothing(signum: int, frame: FrameType | None) -> None:
    """Handle a signal by doing nothing."""
