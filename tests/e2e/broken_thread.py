"""The program `opavnic`, of whose native threads one finds its epoll descriptor replaced once a line has come in.

Usage: broken_thread.py up FILE. Any bug that closes a descriptor which is not its own does the same.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from pathlib import Path

from opavnic.cli.main import main


def is_tun(descriptor: str) -> bool:
    with contextlib.suppress(OSError):
        return os.readlink(f"/proc/self/fd/{descriptor}") == "/dev/net/tun"
    return False


def waits_for_taps(fd: str) -> bool:
    """Whether a descriptor is the epoll of the native thread: the event loop's knows no TAP any more."""
    with contextlib.suppress(OSError):
        if os.readlink(f"/proc/self/fd/{fd}") == "anon_inode:[eventpoll]":
            lines = Path(f"/proc/self/fdinfo/{fd}").read_text().splitlines()
            return any(is_tun(line.split()[1]) for line in lines if line.startswith("tfd:"))
    return False


def replace_epoll() -> None:
    sys.stdin.readline()
    fd = next(int(fd) for fd in os.listdir("/proc/self/fd") if waits_for_taps(fd))
    os.dup2(os.open(os.devnull, os.O_RDONLY), fd)
    print("replaced", flush=True)


if __name__ == "__main__":
    threading.Thread(target=replace_epoll, daemon=True).start()
    sys.exit(main())
