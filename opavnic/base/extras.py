"""What the extras of this distribution bring: modules that only some commands need.

The base installation has none of them. A command imports them where it uses them, and lets the error pass.
"""

from __future__ import annotations

import importlib.util
from typing import Final

EXTRAS: Final = {
    "cryptography": "cluster",
    "zenoh": "cluster",
    "grpc": "ejfat",
    "google": "ejfat",
    "nicegui": "web",
    "fastapi": "web",
    "uvicorn": "web",
    "pytest": "testing",
    "pytest_asyncio": "testing",
    "looptime": "testing",
}
"""Top-level module -> the extra that installs it: every one that a package imports beside those of the base."""


def advice(extra: str) -> str:
    """Return how to install an extra, as the end of an error message."""
    return f"pip install 'opavnic[{extra}]'"


def missing_extra(error: ModuleNotFoundError) -> str:
    """Return a line that says which extra brings the module that was not found; empty for any other module."""
    module = (error.name or "").partition(".")[0]
    if module not in EXTRAS:
        return ""
    return f"this needs more packages ({module} is not installed): {advice(EXTRAS[module])}"


def is_installed(extra: str) -> bool:
    """Return whether all modules of an extra are installed; imports none of them."""
    return all(importlib.util.find_spec(module) is not None for module, of in EXTRAS.items() if of == extra)
