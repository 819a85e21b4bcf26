"""The program as a user without privilege has it."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from program import Forked, run_program, started

USER: Final = 65534
OPEN_TUN: Final = {"net/tun": "666"}
_MINORS: Final = {"net/tun": 200, "fuse": 229}


class Nobody:
    """A user without privilege, with a runtime directory of its own."""

    def __init__(self, root: Path, mounts: str) -> None:
        self.root = root
        self._options = {
            "env": {**os.environ, "OPAVNIC_RUNTIME_DIR": str(root)},
            "user": USER,
            "mounts": mounts,
        }

    def __call__(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Run the program."""
        return run_program(arguments, **self._options)

    def started(self, *arguments: str | Path, **options: Any) -> contextlib.AbstractContextManager[Forked]:
        """Run the program for as long as the context lasts."""
        return started(arguments, **self._options, **options)


@contextlib.contextmanager
def nobody(name: str, directory: Path, devices: Mapping[str, str]) -> Iterator[Nobody]:
    """Have such a user; what it leaves running is ended and removed.

    Args:  directory: where there may be a directory "mount". devices: in /dev, those that have another mode for this
           user: nodes on a file system of their own, above the machine's.
    """
    mount = directory / "mount"
    mount.mkdir()
    script = [f"mount -t tmpfs none {mount}"]
    for number, (device, mode) in enumerate(devices.items()):
        node = mount / str(number)
        script += [f"mknod -m {mode} {node} c 10 {_MINORS[device]}", f"mount --bind {node} /dev/{device}"]
    user = Nobody(Path("/tmp") / f"opavnic-{name}", "; ".join(script))  # noqa: S108 - pytest's own is closed to others
    try:
        yield user
    finally:
        for lab in json.loads(user("ps", "--json").stdout or "[]"):
            user("down", lab["lab"])
        user("prune")
        if user.root.exists():
            user.root.rmdir()
