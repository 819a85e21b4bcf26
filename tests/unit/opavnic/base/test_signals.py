"""SIGINT, SIGTERM and SIGHUP end a program the same way, also one that began with SIGINT ignored."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading

import pytest

from opavnic.base.signals import interruptible
from processes import SIGHUP_IGNORED, SIGINT_IGNORED, child, ignores_sigint

BLOCKING = """
import os, signal, time
from opavnic.base.signals import interruptible
try:
    with interruptible():
        try:
            print("up", flush=True)
            while True:
                time.sleep(1000)
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):  # these come late: what tidies up is not disturbed
                os.kill(os.getpid(), number)
            print("tidy")
except KeyboardInterrupt:
    print("interrupted")
"""
LOOP = """
import asyncio, os, signal
from opavnic.base.signals import cancelled_by_ending_signals
async def work():
    try:
        print("up", flush=True)
        await asyncio.Event().wait()
    finally:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(0.01)
        print("tidy")
try:
    asyncio.run(cancelled_by_ending_signals(work()))
except asyncio.CancelledError:
    print("interrupted")
"""
LEFT = """
import contextlib, os, sys, time
from opavnic.base.signals import ReadersGoneError, followed
reader, writer = os.pipe()
os.dup2(writer, 1)
os.close(writer)
def leave(frame, event, _):
    if frame.f_code is contextlib._GeneratorContextManager.__exit__.__code__:
        sys.settrace(None)
        os.close(reader)
        time.sleep(60)
try:
    with followed():
        sys.settrace(leave)
        raise BrokenPipeError("what was written as the reader went")
except BaseException as error:
    print(type(error).__name__, file=sys.stderr)
"""
"""The reader goes as the context is about to learn of an exception."""


@pytest.mark.parametrize("program", [BLOCKING, LOOP], ids=["blocking", "loop"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("start", [[], SIGINT_IGNORED], ids=["", "SIGINT ignored"])
def test_first_signal_ends_the_program_and_more_do_not_disturb_its_end(
    start: list[str], number: signal.Signals, program: str
) -> None:
    with child([*start, sys.executable, "-c", program], stdout=-1, stderr=-1) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.send_signal(number)
        said = process.communicate(timeout=60)
    assert (process.returncode, said) == (0, ("tidy\ninterrupted\n", ""))


@pytest.mark.parametrize("program", [BLOCKING, LOOP], ids=["blocking", "loop"])
def test_hangup_that_nohup_ignores_stays_ignored(program: str) -> None:
    with child([*SIGHUP_IGNORED, sys.executable, "-c", program], stdout=-1, stderr=-1) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.send_signal(signal.SIGHUP)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.3)
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=60) == ("tidy\ninterrupted\n", "")


def test_reader_that_goes_at_any_moment_is_no_interruption() -> None:
    done = subprocess.run([sys.executable, "-c", LEFT], stderr=-1, text=True, timeout=60, check=False)
    assert done.stderr == "ReadersGoneError\n"


def test_command_hears_sigint_before_it_begins_to_work() -> None:
    # what takes time is imported before it says that it is up
    program = "import opavnic.cli.main; from opavnic.cli.start import start; print('up', flush=True); start()"
    command = [*SIGINT_IGNORED, sys.executable, "-c", program, "decode", "-"]
    with child(command, stdin=-1, stdout=-1, stderr=-1) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        while ignores_sigint(process.pid):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(60) in (130, -signal.SIGINT)  # it was reading stdin, or on its way there


def test_handlers_are_put_back_and_other_threads_are_left_alone() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    with pytest.raises(KeyboardInterrupt), interruptible():
        signal.raise_signal(signal.SIGTERM)
    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == before
    entered: list[bool] = []

    def enter() -> None:
        with interruptible():
            entered.append(signal.getsignal(signal.SIGTERM) == before[1])

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert entered == [True]
