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

from opavnic.cli.top.keys import is_begun, keys

_KEY_BYTES: Final = 64
_REST_S: Final = 0.05
"""How long the rest of a key is waited for, which ssh may bring in a packet of its own."""
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

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines of the terminal."""
        return self._console.size.width, self._console.size.height

    def wait(self, seconds: float) -> list[str]:
        """Wait for keys and return them; none on timeout, or where the screen is to be drawn anew.

        The end of input counts as the key q.
        """
        end = time.monotonic() + seconds
        sources = [self._awake] if self._stdin is None else [self._awake, self._stdin]
        while (left := end - time.monotonic()) > 0:
            ready = select.select(sources, [], [], left)[0]
            if self._awake in ready:
                self._see_to(self._awake.recv(_KEY_BYTES))
                return []
            if self._stdin is not None and self._stdin in ready:
                return self._read(self._stdin)
        return []

    def _read(self, stdin: int) -> list[str]:
        data = os.read(stdin, _KEY_BYTES)
        if not data:
            return ["q"]
        while is_begun(data.decode(errors="replace")) and select.select([stdin], [], [], _REST_S)[0]:
            more = os.read(stdin, _KEY_BYTES)
            if not more:
                break
            data += more
        return keys(data.decode(errors="ignore"))

    def _see_to(self, signals: bytes) -> None:
        if signal.SIGTSTP in signals:
            self._give_back()
            os.kill(os.getpid(), signal.SIGSTOP)
            self._take()
        self._measure()

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


def _nothing(signum: int, frame: FrameType | None) -> None:
    """Handle a signal by doing nothing."""
