"""What can happen to the file system of the runtime directory, and its end."""

from __future__ import annotations

import contextlib
import os
import subprocess

from chaos.ground import RUNTIME

_FILL = RUNTIME / "their-fill"


def fill(spare: int = 0) -> None:
    """Fill the disk with a file of somebody else's; `spare` bytes stay free."""
    with _FILL.open("ab", buffering=0) as file, contextlib.suppress(OSError):
        for size in (65536, 4096, 1):
            with contextlib.suppress(OSError):
                while True:
                    file.write(b"\0" * size)
        if spare:
            file.truncate(max(0, file.tell() - spare))


def free() -> None:
    """Take that file away."""
    _FILL.unlink(missing_ok=True)


def close() -> None:
    """Let nothing be written by way of the path any more; files that are open stay open."""
    subprocess.run(["mount", "--bind", str(RUNTIME), str(RUNTIME)], check=True)
    subprocess.run(["mount", "-o", "remount,bind,ro", str(RUNTIME)], check=True)


def open_again() -> None:
    """Undo `close`, where it was done."""
    while sum(f" {RUNTIME} " in line for line in _mounts()) > 1:
        subprocess.run(["umount", "--lazy", str(RUNTIME)], check=True)


def _mounts() -> list[str]:
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        return file.readlines()


def used() -> int:
    """Return how many bytes of it are in use."""
    status = os.statvfs(RUNTIME)
    return (status.f_blocks - status.f_bfree) * status.f_frsize
