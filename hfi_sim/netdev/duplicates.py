"""Duplicate address detection (DAD) of IPv6 is left out for the first address of an interface, its link-local one.

It takes a second or two, in which no program can bind to that address. Addresses of VNICs come from one manager, which
gives none twice, so there is nothing to detect. Every later address is checked as the host's own settings say.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final

from hfi_sim.base.errors import NetdevError
from hfi_sim.netdev.namespace import run_in_namespace

_SYSCTL: Final = "/proc/sys/net/ipv6/conf/{}/accept_dad"
_OFF: Final = "0"


def leave_out_detection(interface: str) -> str:
    """Switch detection off for an interface that this process has made, in the namespace that this thread is in.

    Returns: how it was set up; "" where nothing was changed: there is no IPv6, detection is off, or sysctls cannot be
             written. Then addresses are usable a little later.
    """
    sysctl = Path(_SYSCTL.format(interface))
    with contextlib.suppress(OSError):
        before = sysctl.read_text(encoding="ascii").strip()
        if before != _OFF:
            sysctl.write_text(_OFF, encoding="ascii")
            return before
    return ""


def detect_again(namespace: Path | None, interface: str, before: str) -> None:
    """Set detection up again as it was. Harmless where the interface is gone or renamed, or the namespace is gone."""

    def write() -> None:
        with contextlib.suppress(OSError):
            Path(_SYSCTL.format(interface)).write_text(before, encoding="ascii")

    with contextlib.suppress(NetdevError, RuntimeError):  # RuntimeError: no thread to be had
        run_in_namespace(namespace, write)
