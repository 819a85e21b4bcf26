"""Where declarations stand, as generated files name it."""

from __future__ import annotations

from hfi_sim.wire.header import Header


def origin(*headers: Header) -> str:
    """Return the files that declare the headers: `hfi_sim/wire/lrh16b.py, hfi_sim/wire/lrh16b.py`."""
    return ", ".join(sorted({module_file(header.module) for header in headers}))


def module_file(module: str) -> str:
    """Return the path of a module below the root of the repository."""
    return module.replace(".", "/") + ".py"
