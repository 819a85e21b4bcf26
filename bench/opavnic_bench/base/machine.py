"""The machine that figures depend on."""

from __future__ import annotations

import os
import platform
from typing import Any


def machine() -> dict[str, Any]:
    """Return what the figures depend on."""
    return {"cpus": os.cpu_count(), "kernel": platform.release(), "load": os.getloadavg()[0]}
