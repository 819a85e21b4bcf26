"""Sysctls of an interface that this process has made.

They are opened when it is made, by the thread that is in its namespace then, and can be written from anywhere later: to
enter the namespace again takes many times as long. Most are written once.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

from hfi_sim.base.errors import NetdevError
from hfi_sim.netdev.namespace import run_in_namespace

_DETECTION: Final = "ipv6/conf/{}/accept_dad"
_ANNOUNCE: Final = ("ipv4/conf/{}/arp_notify", "ipv6/conf/{}/ndisc_notify")
_OFF: Final = b"0"
_ON: Final = b"1"


class InterfaceSysctls:
    """Some sysctls of one interface. One that the kernel lacks, or that may not be written, is left out."""

    def __init__(self, namespace: Path | None, interface: str) -> None:
        """Open them, in the namespace that this thread is in, which is `namespace`."""
        self._namespace = namespace
        self._files: dict[str, int] = {}
        """A descriptor for each that there is, until it is written: -1 then."""
        self._detection = b""
        for sysctl in (_DETECTION, *_ANNOUNCE):
            with contextlib.suppress(OSError):
                self._files[sysctl] = _open(sysctl, interface)

    def leave_out_detection(self) -> None:
        """Let the kernel check the first IPv6 address, its link-local one, for no duplicates (DAD).

        That takes a second or two, in which no program can bind to the address. Addresses of VNICs come from one
        manager, which gives none twice, so there is nothing to detect. Every later address is checked as the host's own
        settings say: see `detect_again`.
        """
        with contextlib.suppress(KeyError, OSError):
            before = os.pread(self._files[_DETECTION], 16, 0).strip()
            if before != _OFF:
                os.pwrite(self._files[_DETECTION], _OFF, 0)
                self._detection = before

    def detect_again(self, interface: str) -> None:
        """Set detection up again as it was. Args: interface: what it is called now."""
        if self._detection:
            self._write(_DETECTION, interface, self._detection)
            self._detection = b""

    def announce_addresses(self, interface: str) -> None:
        """Make the kernel announce address changes (gratuitous ARP, and the equivalent for IPv6).

        Otherwise neighbours keep sending to the old address until their entry expires.

        Args:  interface: what it is called now.
        """
        for sysctl in _ANNOUNCE:
            self._write(sysctl, interface, _ON)

    def close(self) -> None:
        """Close what was never written. Harmless when done twice."""
        for file in self._files.values():
            if file >= 0:
                os.close(file)
        self._files.clear()

    def _write(self, sysctl: str, interface: str, value: bytes) -> None:
        """Write one. Harmless where the interface is gone."""
        file = self._files.get(sysctl)
        if file is None:
            return
        self._files[sysctl] = -1
        if file < 0 or not _written(file, value):  # it bears another name now
            with contextlib.suppress(OSError, NetdevError, RuntimeError):  # RuntimeError: no thread to be had
                _written(run_in_namespace(self._namespace, lambda: _open(sysctl, interface)), value)


def _open(sysctl: str, interface: str) -> int:
    return os.open("/proc/sys/net/" + sysctl.format(interface), os.O_RDWR | os.O_CLOEXEC)


def _written(file: int, value: bytes) -> bool:
    """Write and close a file; return whether it was there."""
    try:
        os.pwrite(file, value, 0)
    except OSError:
        return False
    finally:
        os.close(file)
    return True
