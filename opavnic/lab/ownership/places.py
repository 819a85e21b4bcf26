"""Where the runtime directories of this user's labs are."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

ROOT_VARIABLE: Final = "OPAVNIC_RUNTIME_DIR"


def runtime_root() -> Path:
    """Return the directory that holds one directory for each lab.

    $OPAVNIC_RUNTIME_DIR, else /run/opavnic for root, $XDG_RUNTIME_DIR/opavnic, /tmp/opavnic-UID.
    """
    if chosen := os.environ.get(ROOT_VARIABLE):
        return Path(chosen).absolute()
    if os.getuid() == 0:
        return Path("/run/opavnic")
    if base := os.environ.get("XDG_RUNTIME_DIR"):
        return Path(base) / "opavnic"
    return Path(f"/tmp/opavnic-{os.getuid()}")  # noqa: S108 - checked below: ours, and closed to others
