"""Run a lab in a process of its own, while the parent waits until it is ready or has failed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable, Generator
from typing import Any, NoReturn

from hfi_sim.base.errors import HfiSimError
from opavnic.base.null_device_file import open_null
from opavnic.base.signals import ENDING, heard
from opavnic.lab.file.errors import LabError

Tell = Callable[[str, Any], None]
"""Sends the waiting parent a word (progress, ready or error) and its value."""


def spawn(body: Callable[[Tell], None]) -> Generator[tuple[str, Any], None, None]:
    """Run `body` in a new session without a terminal; yield what it reports until it is ready or has failed.

    Once it is ready, the signals that end a command are blocked here, so that an interrupted command never leaves a
    lab running.

    Raises:  LabError: the process ended without reporting either. KeyboardInterrupt: a signal came; the process has
             been ended.
    """
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)  # until the process to end is known
    pid = os.fork()
    if pid == 0:
        for number in heard():
            signal.signal(number, signal.SIG_DFL)  # not the handlers of the parent
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(reader)
        _child(body, writer)
    word, value = "", None
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(writer)
        with os.fdopen(reader, encoding="utf-8") as lines:
            for line in lines:
                word, value = json.loads(line)
                if word in ("ready", "error"):
                    signal.pthread_sigmask(
                        signal.SIG_BLOCK, ENDING
                    )  # a pending signal raises here at the latest
                    break
                yield word, value
    except (KeyboardInterrupt, GeneratorExit):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)  # our child, not yet waited for: its pid cannot have been reused
        os.waitpid(pid, 0)
        raise
    if word in ("ready", "error"):
        yield word, value
        return
    _, status = os.waitpid(pid, 0)
    raise LabError(
        f"the process of the lab ended before it was ready (status {os.waitstatus_to_exitcode(status)})"
    )


def _child(body: Callable[[Tell], None], writer: int) -> NoReturn:
    code = 1
    pipe = os.fdopen(writer, "w", encoding="utf-8", buffering=1)

    def tell(word: str, value: Any) -> None:
        try:
            pipe.write(json.dumps([word, value], default=str) + "\n")
            if word in ("ready", "error"):
                pipe.close()
        except (OSError, ValueError):
            pass  # the parent has gone: the lab goes on without it

    try:
        os.setsid()
        os.chdir("/")
        nothing = open_null()
        for fd in (0, 1, 2):
            os.dup2(nothing, fd)
        body(tell)
        code = 0
    except Exception as error:
        tell(
            "error",
            f"{error}"
            if isinstance(error, HfiSimError)
            else f"internal error, {type(error).__name__}: {error}",
        )
    finally:
        os._exit(code)
