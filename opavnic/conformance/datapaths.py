"""The datapaths that frame vectors can be run against, by name. To add one, add it to the registry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from opavnic.base.errors import DatapathUnavailableError
from opavnic.conformance.native_datapath import NativeVectorDatapath
from opavnic.conformance.python_datapath import PythonDatapath
from opavnic.conformance.vector_setup import VectorDatapath

AUTO: Final = "auto"
"""The fastest available datapath."""

DATAPATHS: Final[Mapping[str, Callable[[], VectorDatapath]]] = {
    "native": NativeVectorDatapath,
    "python": PythonDatapath,
}
"""Factories of datapaths, fastest first; each raises DatapathUnavailableError if its datapath is not available."""


def find_datapath(name: str) -> VectorDatapath:
    """Return the datapath of that name, or the fastest for `auto`.

    Raises:  DatapathUnavailableError: no datapath has that name, or it is not installed.
    """
    if name != AUTO:
        if name not in DATAPATHS:
            known = ", ".join([*DATAPATHS, AUTO])
            raise DatapathUnavailableError(f"datapath {name!r} is not installed (here: {known})")
        return DATAPATHS[name]()
    reasons = []
    for make in DATAPATHS.values():
        try:
            return make()
        except DatapathUnavailableError as error:
            reasons.append(str(error))
    raise DatapathUnavailableError("; ".join(reasons))
