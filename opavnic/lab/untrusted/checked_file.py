"""Reads a lab file whose author is not trusted, and bounds what the process of its lab may take.

The file is checked in a process of its own first, with little memory and little time: what a few lines can make of
aliases, ranges and shapes has no end.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import stat
import sys
from pathlib import Path
from typing import Final, NoReturn

from opavnic.lab.file.errors import ConfigError
from opavnic.lab.file.loader import parse_lab
from opavnic.lab.file.model import LabModel
from opavnic.lab.untrusted.rules import MAX_BYTES, too_large, untrusted_problems
from vema.em.desired.problems import path_text

CHECK_MEMORY: Final = 1 << 29
CHECK_S: Final = 5
"""Seconds of processor that the check may take."""
PATIENCE_S: Final = 60.0
LINES: Final = 20
"""Mistakes that are told."""
LAB_MEMORY: Final = 1 << 31
LAB_THREADS: Final = 1024
_LARGEST: Final = 1 << 20
_OUT_OF_MEMORY: Final = 3


def load_untrusted(file: Path) -> LabModel:
    """Read and check a lab file from a stranger.

    Raises:  ConfigError: one line for each mistake, and for each key that such a file may not have.
    """
    text = _read(file)
    if problems := _checked_apart(text, str(file)):
        more = len(problems) - LINES
        raise ConfigError(problems[:LINES] + ([f"{file}: and {more} more mistakes"] if more > 0 else []))
    return _parse(text, str(file))


def bound_lab() -> None:
    """Bound the memory and the threads that this process, which is to run the lab, may have."""
    for what, most in ((resource.RLIMIT_DATA, LAB_MEMORY), (resource.RLIMIT_NPROC, LAB_THREADS)):
        _, hard = resource.getrlimit(what)
        limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (limit, limit))


def _read(file: Path) -> str:
    """Return the text of a regular file: a link may lead to a file whose lines an error would show."""
    try:
        fd = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if file.is_symlink():
            raise ConfigError([f"{file}: refused with --untrusted: it is a symbolic link"]) from error
        raise ConfigError([f"{file}: {error.strerror}"]) from error
    with os.fdopen(fd, "rb") as stream:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise ConfigError([f"{file}: refused with --untrusted: it is not a regular file"])
        data = stream.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ConfigError([f"{file}: refused with --untrusted: more than {MAX_BYTES} bytes"])
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ConfigError([f"{file}: not text in UTF-8: byte {error.start}"]) from error


def _parse(text: str, source: str) -> LabModel:
    model = parse_lab(text, source, environment={}, refuse=untrusted_problems)
    if problems := too_large(model):
        raise ConfigError([f"{source}: {path_text(one.path)}: {one.message}" for one in problems])
    return model


def _checked_apart(text: str, source: str) -> list[str]:
    """Return the problems of a file, found by a process that ends where the file is too much for it."""
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        _check_and_end(text, source, writer)
    os.close(writer)
    said = b""
    try:
        while select.select([reader], [], [], PATIENCE_S)[0] and (part := os.read(reader, _LARGEST)):
            said += part
    finally:
        os.close(reader)
        os.kill(pid, signal.SIGKILL)  # our child, not yet waited for
        _, status = os.waitpid(pid, 0)
    try:
        found: list[str] = json.loads(said)
    except ValueError:
        is_time = os.waitstatus_to_exitcode(status) in (-signal.SIGXCPU, -signal.SIGKILL)
        limit = f"{CHECK_S} s of processor" if is_time else f"{CHECK_MEMORY >> 20} MiB of memory"
        return [f"{source}: refused with --untrusted: to check it takes more than {limit}"]
    return found


def _check_and_end(text: str, source: str, writer: int) -> NoReturn:
    problems: list[str] = []
    try:
        signal.signal(signal.SIGXCPU, signal.SIG_DFL)
        used = int(sum(os.times()[:2])) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (used + CHECK_S, used + CHECK_S))
        resource.setrlimit(resource.RLIMIT_DATA, (CHECK_MEMORY, CHECK_MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        try:
            _parse(text, source)
        except ConfigError as error:
            problems = list(error.problems)
        except MemoryError:
            os._exit(_OUT_OF_MEMORY)
        except Exception as error:
            problems = [f"{source}: cannot be checked: {type(error).__name__}: {error}"]
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(json.dumps(problems).encode())
    finally:
        os._exit(0)
