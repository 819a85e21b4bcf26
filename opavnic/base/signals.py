"""The signals that end a command: SIGINT (Ctrl-C), SIGTERM and SIGHUP have the same effect, once.

SIGINT is handled even if it was ignored at the start, as in background jobs of a shell script (`opavnic.cli.start`); a
program started by `opavnic exec` inherits it ignored again. A SIGHUP that was ignored stays ignored, for nohup(1).

Exit codes: a command that runs until it is ended (`up`, `capture`, `top`, `logs -f`) returns 0; one that would have
ended by itself but was interrupted (`up -d`, `demo`) returns EXIT_INTERRUPTED.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import stat
import threading
from collections.abc import Awaitable, Callable, Iterator
from types import FrameType
from typing import Final, TypeVar

from opavnic.base.errors import OpavnicError

ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
EXIT_INTERRUPTED: Final = 130
Result = TypeVar("Result")

sigint_was_ignored = False
"""Whether this program inherited SIGINT as ignored; a program that replaces it must inherit the same."""


def heard() -> tuple[signal.Signals, ...]:
    """Return the signals that end a command here."""
    nohup = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return tuple(number for number in ENDING if not (nohup and number is signal.SIGHUP))


class ReadersGoneError(OpavnicError):
    """The pipe on stdout has no reader any more: what BrokenPipeError says, but before anything is written.

    Not an OSError: a caller that waits for a reply would take that for an error of its own connection.
    """


@contextlib.contextmanager
def interruptible(left: threading.Event | None = None) -> Iterator[None]:
    """Make the first of the signals raise KeyboardInterrupt in the context; further ones do not disturb the cleanup.

    Does nothing outside of the main thread, which alone receives signals.

    Args:    left: raise ReadersGoneError instead once this is set.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = heard()
    before = {number: signal.getsignal(number) for number in numbers}

    def end(_number: int, _frame: FrameType | None) -> None:
        for number in numbers:
            signal.signal(number, lambda *_: None)
        raise KeyboardInterrupt if left is None or not left.is_set() else ReadersGoneError

    try:
        for number in numbers:
            signal.signal(number, end)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def followed() -> Iterator[None]:
    """Like `interruptible`, and raise ReadersGoneError once the pipe on stdout has no reader any more.

    So `opavnic logs -f | head -n1` ends with head(1), and not only when the next line is written, perhaps much later.
    A write at that moment may raise BrokenPipeError as well, and ReadersGoneError when the context is left.
    """
    left = threading.Event()
    with interruptible(left), _left_by_readers(left):
        yield


@contextlib.contextmanager
def _left_by_readers(left: threading.Event) -> Iterator[None]:
    """Interrupt the main thread once the pipe on stdout has no reader any more, and set `left` before."""
    try:
        pipe = stat.S_ISFIFO(os.fstat(1).st_mode)
    except OSError:  # closed
        pipe = False
    if not pipe or threading.current_thread() is not threading.main_thread():
        yield
        return
    main, over = threading.get_ident(), os.eventfd(0, os.EFD_CLOEXEC)

    def watch() -> None:
        poll = select.poll()
        poll.register(1, 0)  # POLLERR is always reported
        poll.register(over, select.POLLIN)
        if over not in dict(poll.poll()):
            left.set()
            signal.pthread_kill(main, signal.SIGTERM)  # interrupts its wait

    watcher = threading.Thread(target=watch, name="readers of stdout", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        os.eventfd_write(over, 1)
        try:
            watcher.join()
        finally:
            os.close(over)


def call_on_ending_signals(end: Callable[[], object]) -> None:
    """Make each of the signals call `end` in the running event loop, as long as the loop exists."""
    import asyncio  # late: most commands have no event loop, and `opavnic exec` starts without it

    loop = asyncio.get_running_loop()
    for number in heard():
        loop.add_signal_handler(number, end)


async def cancelled_by_ending_signals(work: Awaitable[Result]) -> Result:
    """Await `work`; the first of the signals cancels it, and further ones do not disturb the cleanup."""
    import asyncio

    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - called in a coroutine

    def end_once() -> None:
        call_on_ending_signals(_no_more)
        task.cancel()

    call_on_ending_signals(end_once)
    return await work


def _no_more() -> None:
    """Ignore a further signal."""
