"""Packages beside this one: the extras of this distribution, and the packages that log to the log of a lab."""

from __future__ import annotations

import contextlib
import importlib.util
import logging
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Final

from hfi_sim.base.entry_points import all_entry_points

EXTRAS: Final = {
    "cryptography": "cluster",
    "zenoh": "cluster",
    "grpc": "ejfat",
    "google": "ejfat",
    "nicegui": "web",
    "fastapi": "web",
    "uvicorn": "web",
    "pytest": "testing",
    "pytest_asyncio": "testing",
    "looptime": "testing",
}
"""Top-level module -> the extra that installs it: every one that a package imports beside those of the base."""


def advice(extra: str) -> str:
    """Return how to install an extra, as the end of an error message."""
    return f"pip install 'opavnic[{extra}]'"


def missing_extra(error: ModuleNotFoundError) -> str:
    """Return a line that says which extra brings the module that was not found; empty for any other module."""
    module = (error.name or "").partition(".")[0]
    if module not in EXTRAS:
        return ""
    return f"this needs more packages ({module} is not installed): {advice(EXTRAS[module])}"


def is_installed(extra: str) -> bool:
    """Return whether all modules of an extra are installed; imports none of them."""
    return all(importlib.util.find_spec(module) is not None for module, of in EXTRAS.items() if of == extra)


_OURS: Final = ("hfi_sim", "vema", "opavnic")
_GROUPS: Final = "opavnic."


@cache
def log_packages() -> tuple[str, ...]:
    """Return the names of the packages whose records belong in the log of a lab.

    This includes packages with an entry point in a group "opavnic.*", such as ejfat, lnet and external packages.
    """
    joined = {
        point.module.partition(".")[0]
        for group, points in all_entry_points().items()
        if group.startswith(_GROUPS)
        for point in points
    }
    return tuple(dict.fromkeys((*_OURS, *sorted(joined))))


_listened_to: dict[str, tuple[int, list[int]]] = {}
"""Loggers by name: the level before the first listener, and the levels of the listeners of now."""


@contextlib.contextmanager
def listening(handler: logging.Handler, level: int, more: Iterable[str] = ()) -> Iterator[None]:
    """Pass to `handler` the records from `level` up of those packages and of the loggers in `more`.

    Listeners end in any order; once there are none, the loggers have the levels of before.
    """
    names = dict.fromkeys((*log_packages(), *more))
    # a logger below another one in the list would deliver each record twice
    own = [name for name in names if not any(name.startswith(f"{other}.") for other in names)]
    loggers = [logging.getLogger(name) for name in own]
    for logger in loggers:
        logger.addHandler(handler)
        _listened_to.setdefault(logger.name, (logger.level, []))[1].append(level)
        _set_level(logger)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeHandler(handler)
            _listened_to[logger.name][1].remove(level)
            _set_level(logger)


def _set_level(logger: logging.Logger) -> None:
    """Let a logger pass what one of its listeners wants, as far as it would not by itself."""
    own, levels = _listened_to[logger.name]
    logger.setLevel(own)
    if not levels:
        del _listened_to[logger.name]
    elif not logger.isEnabledFor(min(levels)):
        logger.setLevel(min(levels))
