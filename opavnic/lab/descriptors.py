"""File descriptors: a lab says at once whether the limit of its process lets it have what it needs."""

from __future__ import annotations

import resource
from collections.abc import Callable
from functools import partial
from typing import Final

from hfi_sim.text import counted
from opavnic.lab.errors import LabError
from opavnic.lab.model import LabModel

PER_HOST: Final = 2
"""The sockets that follow the interfaces of a host's network namespace."""
PER_VNIC: Final = 2
"""A TAP, and the copy of it that the native datapath reads from."""
OWN: Final = 128
"""What else a lab's process opens: loop, log, sockets, an app, those who ask it. A lab of two hosts has some 20."""

_found: tuple[int, int] | None = None
"""The limits that this process was started with, once its own was raised."""


def needed(model: LabModel) -> int:
    """Return how many file descriptors the process of a lab with TAPs has to be able to open."""
    vnics = sum(len(vesw.members) for vesw in model.vesws)
    return OWN + PER_HOST * len(model.hosts) + PER_VNIC * vnics


def provide(model: LabModel) -> None:
    """Let this process open as many files as a lab needs: the soft limit becomes the hard one, and stays so.

    Raises:  LabError: also the hard limit is too low; nothing is changed then.
    """
    wanted = needed(model)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        vnics = counted(sum(len(vesw.members) for vesw in model.vesws), "VNIC")
        raise LabError(
            f"lab {model.name}: {counted(len(model.hosts), 'host')} with {vnics} need {wanted} open files, and the "
            f"limit is {hard}: raise it first, as root with `ulimit -n {wanted}` (a systemd service has "
            f"LimitNOFILE={wanted})"
        )
    raise_limit()


def raise_limit() -> None:
    """Make the soft limit of open files of this process the hard one."""
    global _found
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        _found = _found or (soft, hard)


def for_programs() -> Callable[[], None] | None:
    """Return what a program that is started has to do first; None: nothing.

    It gets the limit that this process had: one that uses select() takes no descriptor above 1023.
    """
    if _found is None:
        return None
    soft, hard = _found
    _, now = resource.getrlimit(resource.RLIMIT_NOFILE)
    # a C function with arguments that are there: nothing between fork and exec waits for another thread
    return partial(resource.setrlimit, resource.RLIMIT_NOFILE, (min(soft, now), min(hard, now)))
