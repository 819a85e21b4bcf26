"""The signals that end a command: SIGINT (Ctrl-C), SIGTERM and SIGHUP all do the same, once.

SIGINT is heard also where it was ignored at the start, as shells have it for jobs in the background of a script: from
the first moment on (`opavnic.cli.start`), and only a program that `opavnic exec` becomes ignores it again. A SIGHUP
that was ignored stays ignored: that is what nohup(1) asks for.

Exit codes: a command that runs until it is ended (`up`, `capture`, `top`, `logs -f`) ends with 0, one that was
interrupted on its way to an end of its own (`up -d`, `demo`) with EXIT_INTERRUPTED.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import stat
import threading
from collections.abc import Awaitable, Callable, Iterator
from types import FrameType
from typing import Final, TypeVar

ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
EXIT_INTERRUPTED: Final = 130
Result = TypeVar("Result")

sigint_was_ignored = False
"""Whether this program inherited SIGINT ignored; a program that takes its place is to find it so."""


def heard() -> tuple[signal.Signals, ...]:
    """Return the signals that end a command here."""
    nohup = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return tuple(number for number in ENDING if not (nohup and number is signal.SIGHUP))


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Have the first of the signals raise KeyboardInterrupt in here; more of them do not disturb what tidies up.

    In any thread but the main one, which alone gets signals, this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = heard()
    before = {number: signal.getsignal(number) for number in numbers}

    def end(_number: int, _frame: FrameType | None) -> None:
        for number in numbers:
            signal.signal(number, _nothing)
        raise KeyboardInterrupt

    try:
        for number in numbers:
            signal.signal(number, end)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def followed() -> Iterator[None]:
    """Be `interruptible`, and raise BrokenPipeError once nobody reads the pipe on stdout any more.

    So `opavnic logs -f | head -n1` ends with head(1): a write would fail only with the next line, which may be long in
    coming.
    """
    with interruptible(), _left_by_readers():
        yield


@contextlib.contextmanager
def _left_by_readers() -> Iterator[None]:
    try:
        pipe = stat.S_ISFIFO(os.fstat(1).st_mode)
    except OSError:  # closed
        pipe = False
    if not pipe or threading.current_thread() is not threading.main_thread():
        yield
        return
    main, over, left = threading.get_ident(), os.eventfd(0, os.EFD_CLOEXEC), threading.Event()

    def watch() -> None:
        poll = select.poll()
        poll.register(1, 0)  # the kernel tells POLLERR unasked
        poll.register(over, select.POLLIN)
        if over not in dict(poll.poll()):
            left.set()
            signal.pthread_kill(main, signal.SIGTERM)  # out of whatever it waits for

    watcher = threading.Thread(target=watch, name="readers of stdout", daemon=True)
    watcher.start()
    try:
        try:
            yield
        finally:
            os.eventfd_write(over, 1)
            try:
                watcher.join()
            finally:
                os.close(over)
    except KeyboardInterrupt:
        if left.is_set():
            raise BrokenPipeError from None
        raise


def call_on_ending_signals(end: Callable[[], object]) -> None:
    """Have each of the signals call `end` in the running event loop, for as long as the loop is there."""
    loop = asyncio.get_running_loop()
    for number in heard():
        loop.add_signal_handler(number, end)


async def cancelled_by_ending_signals(work: Awaitable[Result]) -> Result:
    """Await `work`, which the first of the signals cancels; more of them do not disturb what tidies up."""
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - called in a coroutine

    def end_once() -> None:
        call_on_ending_signals(_no_more)
        task.cancel()

    call_on_ending_signals(end_once)
    return await work


def _no_more() -> None:
    """Be called instead of an end that has begun."""


def _nothing(_number: int, _frame: FrameType | None) -> None:
    """Be called instead of what the signal does by itself."""
