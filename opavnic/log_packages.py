"""Whose log is a lab's log: this program's packages, and those that bring parts of their own."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import distributions
from typing import Final

_OURS: Final = ("hfi_sim", "vema", "opavnic")
_GROUPS: Final = "opavnic."


@cache
def log_packages() -> tuple[str, ...]:
    """Return the packages under whose names a lab logs, each once.

    What joins by an entry point of a group "opavnic.*" (ejfat, lnet, packages from outside) logs under its own name.
    """
    points = (point for installed in distributions() for point in installed.entry_points)
    joined = {point.module.partition(".")[0] for point in points if point.group.startswith(_GROUPS)}
    return tuple(dict.fromkeys((*_OURS, *sorted(joined))))


@contextlib.contextmanager
def listening(handler: logging.Handler, level: int, more: Iterable[str] = ()) -> Iterator[None]:
    """Give `handler` what those packages, and loggers under the names in `more`, log from `level` up.

    Afterwards their loggers are as they were.
    """
    names = dict.fromkeys((*log_packages(), *more))
    # a logger under another of them would give each record twice
    own = [name for name in names if not any(name.startswith(f"{other}.") for other in names)]
    before = [(logger, logger.level) for logger in map(logging.getLogger, own)]
    for logger, _ in before:
        logger.addHandler(handler)
        if not logger.isEnabledFor(level):
            logger.setLevel(level)
    try:
        yield
    finally:
        for logger, old in before:
            logger.removeHandler(handler)
            logger.setLevel(old)
