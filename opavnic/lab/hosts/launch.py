"""Starts a program on a host of another process's lab, with its devices: `python -m opavnic.lab.hosts.launch`.

A lab that is run from Python starts programs while its own loop is busy with that, so another process must ask it
for the devices: this one, which then becomes the program.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from opavnic.devices.kernel.entry import EntryError
from opavnic.lab.hosts.device_entry import enter_devices
from opavnic.lab.hosts.enter import heed_signals, name_host, own_mounts
from opavnic.lab.ownership.runtime import LabDir

_FAILED: Final = 126
_OWN, _MACHINE = "own", "machine"
_REQUIRED, _WHERE_POSSIBLE = "required", "where-possible"


def command_with_devices(
    socket: Path, host: str, *, own_sysfs: bool, command: Sequence[str], required: bool = True
) -> list[str]:
    """Return what starts `command` on a host, in whose network namespace the caller is already.

    Args:  socket: where the lab lets programs have devices. own_sysfs: the host has a network namespace of its own.
           required: fail without them.
    """
    kind = _OWN if own_sysfs else _MACHINE
    need = _REQUIRED if required else _WHERE_POSSIBLE
    return [sys.executable, "-P", "-m", __name__, str(socket), host, kind, need, *command]


def main() -> int:
    """Become the program; return the exit status if that fails."""
    socket, host, kind, need, *command = sys.argv[1:]
    try:
        if not own_mounts(own_sysfs=kind == _OWN):
            raise EntryError("a mount namespace of its own is not permitted")
        name_host(LabDir(Path(socket).parent), host, is_private=True)
        enter_devices(Path(socket), host)
    except EntryError as error:
        if need == _REQUIRED:
            sys.stderr.write(f"opavnic: no umad devices on host {host}: {error}\n")
            return _FAILED
    heed_signals()
    try:
        os.execvp(command[0], command)  # noqa: S606 - the very purpose: an argument list, no shell
    except OSError as error:
        sys.stderr.write(f"opavnic: {command[0]}: cannot be run: {error.strerror}\n")
        return _FAILED


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(main())
