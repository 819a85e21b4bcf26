"""Which processors take in what a host receives at an interface: Receive Packet Steering.

A write to a TAP goes through TCP/IP of the receiving host before it returns. With a mask of processors set for the
interface, the kernel only looks at the addresses and ports of each frame there, and leaves the rest to one of those
processors, the same for all frames of a flow.

Source: the kernel's Documentation/networking/scaling.rst; get_rps_cpu() and store_rps_map().
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from hfi_sim.base.errors import NetdevError
from hfi_sim.netdev.namespace import Libc, run_in_namespace

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
