"""The process in which tests are tried in a copy of the tree: it has imported what mutants leave as it is.

A trial of a few tests takes a second, of which two were imports. So one process imports what the tests need but the
modules that decide, and all that imports one of those. It forks one for each module, which imports the rest but that
module and what imports it, and forks one for each trial: that one imports the mutant, and what depends on it, as a new
interpreter would. It is started in the copy, and reads commands, a line of JSON each:

- {"learn": [files of tests], "modules": [names]}: import what these tests need but these modules
- {"module": name}: what follows is about this module, up to {}
- {"tests": [...], "options": [...], "cpu_s": ..., "wall_s": ...}: try tests; the answer has the fields of `Trial`
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import re
import resource
import select
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, Any, Final

import pytest

OPTIONS: Final = ("-q", "-x", "--timeout=0", "-m", "not long", "-p", "no:cacheprovider", "--assert=plain")
_PACKAGES: Final = ("hfi_sim", "vema", "opavnic", "ejfat", "lnet")
_FAILURE: Final = re.compile(r"(FAILED|ERROR) \S+\.py")
_GRACE_S: Final = 10.0
"""What tests that are interrupted may take to clean up."""
_MOST_DATA: Final = 4 << 30
"""Bytes that a process of the tests may have: a mutant may hoard without end."""


def main() -> None:
    """Do what standard input asks for, until it ends."""
    commands = os.fdopen(os.dup(0), "rb", buffering=0)  # without a buffer: a forked process reads on
    answers = os.fdopen(os.dup(1), "w")
    _become_quiet()
    sys.path[:0] = ["", "tests"]
    learnt: list[str] = []
    while command := _next(commands):
        if "learn" in command:
            learnt = _names_of(command["learn"])
            sys.dont_write_bytecode = True  # what is compiled now may be of a mutant
            os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
            _import_but(command["modules"], learnt)
            continue
        if (pid := os.fork()) == 0:
            _import_but([command["module"]], learnt)
            while trial := _next(commands):
                answers.write(json.dumps(_try(trial)) + "\n")
                answers.flush()
            os._exit(0)
        os.waitpid(pid, 0)


def _next(commands: IO[bytes]) -> dict[str, Any]:
    line = commands.readline()
    return dict(json.loads(line)) if line else {}


def _become_quiet() -> None:
    with open(os.devnull, "r+b") as null:
        os.dup2(null.fileno(), 0)
        os.dup2(null.fileno(), 1)


def _names_of(tests: Sequence[str]) -> list[str]:
    """Return the modules that tests import, without their own, in that order."""
    with tempfile.TemporaryFile("w+") as out:
        if (pid := os.fork()) == 0:
            pytest.main([*OPTIONS, "--collect-only", "-q", *tests])
            here = str(Path.cwd())
            for name, module in list(sys.modules.items()):
                file = str(getattr(module, "__file__", None) or "")
                if name.split(".")[0] in _PACKAGES or not file.startswith(f"{here}/"):
                    out.write(f"{name}\n")
            out.flush()
            os._exit(0)
        os.waitpid(pid, 0)
        out.seek(0)
        return [name for name in out.read().split() if name != "__main__"]


def _import_but(modules: Iterable[str], names: Iterable[str]) -> None:
    """Import modules but some, and but those that import one of them."""
    for module in modules:
        sys.modules[module] = None  # type: ignore[assignment]  # it cannot be imported
    for name in names:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    for module in modules:
        del sys.modules[module]
    gc.collect()
    gc.freeze()


def _try(trial: dict[str, Any]) -> dict[str, Any]:
    """Run tests in a process of their own, and say how they ended."""
    began = time.monotonic()
    with tempfile.TemporaryFile("w+") as out:
        if (pid := os.fork()) == 0:
            os.setsid()
            os.dup2(out.fileno(), 1)
            os.dup2(out.fileno(), 2)
            resource.setrlimit(resource.RLIMIT_CPU, (int(trial["cpu_s"]) + 1, resource.RLIM_INFINITY))
            resource.setrlimit(resource.RLIMIT_DATA, (_MOST_DATA, _MOST_DATA))
            code = pytest.main([*OPTIONS, *trial["options"], *trial["tests"]])
            sys.stdout.flush()
            os._exit(code)
        late = not _ends_within(pid, trial["wall_s"])
        if late:
            os.kill(pid, signal.SIGINT)
            _ends_within(pid, _GRACE_S)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        _, status, used = os.wait4(pid, 0)
        out.seek(0)
        lines = out.read().splitlines() or [""]
    code = os.waitstatus_to_exitcode(status)
    return {
        "passed": code == 0 and not late,
        "line": next(
            (line for line in lines if _FAILURE.match(line)),
            lines[-1] or f"exit status {code}",
        ),
        "cpu_s": used.ru_utime + used.ru_stime,
        "wall_s": time.monotonic() - began,
        "late": late,
        "looped": code == -signal.SIGXCPU,
    }


def _ends_within(pid: int, seconds: float) -> bool:
    descriptor = os.pidfd_open(pid)
    try:
        return bool(select.select([descriptor], [], [], seconds)[0])
    finally:
        os.close(descriptor)


if __name__ == "__main__":
    main()
