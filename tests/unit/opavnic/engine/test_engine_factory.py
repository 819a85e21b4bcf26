"""An engine is chosen by its name."""

from __future__ import annotations

import pytest

from hfi_sim.engine.python import PythonEngine
from hfi_sim.wire.icrc import Icrc
from opavnic.base.errors import UnknownEngineError
from opavnic.engine import engine_factory


def test_python_engine_is_always_there() -> None:
    assert isinstance(engine_factory("python")(Icrc()), PythonEngine)


def test_name_of_no_engine_is_refused_with_those_that_are() -> None:
    with pytest.raises(UnknownEngineError, match='no engine is named "fast"; there are python and native'):
        engine_factory("fast")
