"""Which engine carries a fabric: the Python one, which runs everywhere, or the native one, where it was built."""

from __future__ import annotations

from typing import Final

from hfi_sim.engine.api import EngineFactory
from hfi_sim.engine.python import PythonEngine
from opavnic.base.errors import DatapathUnavailableError, UnknownEngineError
from opavnic.datapath.selection import load_native, why_not_native
from opavnic.engine.native import NativeEngine

ENGINES: Final = ("python", "native")


def engine_factory(name: str) -> EngineFactory:
    """Return what makes the engine of that name, `python` or `native`, for `Fabric` and `World`.

    Raises:  UnknownEngineError: there is no such engine. DatapathUnavailableError: the native module was not built.
    """
    if name == "python":
        return PythonEngine
    if name != "native":
        raise UnknownEngineError(f'no engine is named "{name}"; there are {" and ".join(ENGINES)}')
    if load_native() is None:
        raise DatapathUnavailableError(why_not_native())
    return NativeEngine
