"""The limit of open files: raised as far as possible, and checked against what a lab needs before it starts."""

from __future__ import annotations

import resource
from collections.abc import Callable
from functools import partial
from typing import Final

from hfi_sim.base.text import counted
from opavnic.lab.file.errors import LabError
from opavnic.lab.file.model import LabModel

PER_HOST: Final = 2
"""The sockets that watch the interfaces of a host's network namespace."""
PER_VNIC: Final = 5
"""A TAP, the copy of it that the native datapath reads from, and three sysctls until its addresses are usable."""
PER_WAY: Final = 4
"""A guest: its namespace and process, and the watch on both. An uplink: its sockets."""
OWN: Final = 128
"""All other descriptors of a lab's process: loop, log, sockets, apps, connections. A lab of two hosts uses about 20."""

_found: tuple[int, int] | None = None
"""The limits that this process was started with; None until its soft limit is raised."""


def needed(model: LabModel) -> int:
    """Return how many file descriptors the process of a lab with TAPs needs."""
    vnics = sum(len(vesw.members) for vesw in model.vesws)
    ways = len(model.uplinks) + sum(not host.is_own for host in model.hosts.values())
    return OWN + PER_HOST * len(model.hosts) + PER_VNIC * vnics + PER_WAY * ways


def provide(model: LabModel) -> None:
    """Raise the soft limit of open files of this process to the hard limit, for good.

    Raises:  LabError: the hard limit is too low for the lab; nothing was changed.
    """
    wanted = needed(model)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        vnics = counted(sum(len(vesw.members) for vesw in model.vesws), "VNIC")
        raise LabError(
            f"lab {model.name}: {counted(len(model.hosts), 'host')} with {vnics} need {wanted} open files, but the "
            f"limit is {hard}: raise it first, as root with `ulimit -n {wanted}` (in a systemd service with "
            f"LimitNOFILE={wanted})"
        )
    raise_limit()


def raise_limit() -> None:
    """Raise the soft limit of open files of this process to the hard limit."""
    global _found
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        _found = _found or (soft, hard)


def for_programs() -> Callable[[], None] | None:
    """Return a function that a started program must call first; None if there is nothing to do.

    It restores the limit that this process was started with: select() cannot handle descriptors above 1023.
    """
    if _found is None:
        return None
    soft, hard = _found
    _, now = resource.getrlimit(resource.RLIMIT_NOFILE)
    # a C function with prepared arguments: between fork and exec nothing may wait for another thread
    return partial(resource.setrlimit, resource.RLIMIT_NOFILE, (min(soft, now), min(hard, now)))
