"""What this process has set of an interface: sysctls, and which processors take in what a host receives there.

Receive Packet Steering: a write to a TAP goes through TCP/IP of the receiving host before it returns. With a mask of
processors set for the interface, the kernel only looks at the addresses and ports of each frame there, and leaves the
rest to one of those processors, the same for all frames of a flow.

Source: the kernel's Documentation/networking/scaling.rst; get_rps_cpu() and store_rps_map().
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from hfi_sim.base.errors import NetdevError
from hfi_sim.netdev.namespace import Libc, run_in_namespace

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


_FSOPEN: Final = 430  # system calls that have these numbers on every architecture
_FSCONFIG: Final = 431
_FSMOUNT: Final = 432
_CLOEXEC: Final = 1
_CMD_CREATE: Final = 6
_WORD_BITS: Final = 32
_MOST_BYTES: Final = 4096


class ReceiveSteering:
    """The mask of one interface. It is the host's: a mask that the host has set itself is left alone."""

    def __init__(self, namespace: Path | None, name: str, processors: Iterable[int]) -> None:
        """Open the mask, and leave it as it is.

        Args:    namespace: as for `run_in_namespace`. processors: by number, those to set.
        Raises:  NetdevError: no such interface; the kernel has no such mask, or does not let this process have it.
        """
        try:
            self._fd = run_in_namespace(namespace, lambda: _open_mask(name))
        except OSError as error:
            raise NetdevError(
                f"interface {name}: receive packet steering: {error.strerror}", error.errno or 0
            ) from error
        self._mask = mask_text(processors)
        self._ours = 0
        """The mask as the kernel had it after it was last set here, a bit for each processor; 0: never."""

    def set(self, on: bool) -> bool:
        """Set the mask, unless the host has set one, or clear it, unless the host has set another since.

        Return whether it is set now, by this object.
        """
        try:
            found = self._read()
            if on and not found:
                os.pwrite(self._fd, self._mask, 0)
                self._ours = self._read()  # without processors that the kernel keeps for other things
            elif not on and found and found == self._ours:
                os.pwrite(self._fd, b"0", 0)
            return on and self._ours != 0 and self._read() == self._ours
        except OSError:
            return False  # the interface is gone

    def _read(self) -> int:
        return int(os.pread(self._fd, _MOST_BYTES, 0).replace(b",", b""), 16)

    def close(self) -> None:
        """Close it; the mask stays as it is."""
        os.close(self._fd)


def mask_text(processors: Iterable[int]) -> bytes:
    """Return the mask of processors, as the kernel reads it: words of 32 bits in hexadecimal, the last ones first."""
    mask = sum(1 << number for number in set(processors))
    words: list[str] = []
    while mask or not words:
        words.append(f"{mask & (1 << _WORD_BITS) - 1:08x}")
        mask >>= _WORD_BITS
    return ",".join(reversed(words)).encode()


def _open_mask(name: str) -> int:
    """Open the mask of an interface of this thread's network namespace, on a sysfs that is mounted nowhere."""
    call = Libc().syscall
    files = call(_FSOPEN, b"sysfs", _CLOEXEC)
    try:
        call(_FSCONFIG, files, _CMD_CREATE, None, None, 0)
        root = call(_FSMOUNT, files, _CLOEXEC, 0)
    finally:
        os.close(files)
    try:
        path = f"class/net/{name}/queues/rx-0/rps_cpus"
        return os.open(path, os.O_RDWR | os.O_CLOEXEC, dir_fd=root)
    finally:
        os.close(root)
