"""Whose log is a lab's log: this program's packages, and those that bring parts of their own."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
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
def listening(handler: logging.Handler, level: int) -> Iterator[None]:
    """Give `handler` what those packages log from `level` up; afterwards their loggers are as they were."""
    before = [(logger, logger.level) for logger in map(logging.getLogger, log_packages())]
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
