"""Errors of this package on the command line: one line on stderr, 2 for bad input, 1 for what failed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ejfat.conformance import VectorError
from ejfat.errors import BadRequestError, EjfatError, PcapError, ScriptError, UriError
from opavnic.cli.output import EXIT_FAILED, EXIT_USAGE, fail

_INPUT = (ScriptError, PcapError, UriError, VectorError, BadRequestError)


@contextmanager
def explained() -> Iterator[None]:
    """Turn this package's errors into a line and an exit code."""
    try:
        yield
    except EjfatError as error:
        fail(str(error), EXIT_USAGE if isinstance(error, _INPUT) else EXIT_FAILED)
