"""Each package has one root of exceptions, so that its errors can be told from a bug by one name."""

from __future__ import annotations

import ast
import importlib
import itertools
from collections.abc import Iterator

from ejfat.base.errors import EjfatError
from hfi_sim.base.errors import HfiSimError
from lnet.base.errors import LnetError
from opavnic.base.errors import OpavnicError
from opavnic_bench.base.turns import BenchError
from tools.floors import ROOT
from tools.layout import modules
from vema.base.errors import VemaError

ROOTS: dict[str, type[Exception]] = {
    "hfi_sim": HfiSimError,
    "vema": VemaError,
    "opavnic": OpavnicError,
    "ejfat": EjfatError,
    "lnet": LnetError,
    "opavnic_bench": BenchError,
}


def _exceptions() -> Iterator[type]:
    """Yield the classes that have an exception among their bases; only their modules are imported."""
    for path in modules(ROOT):
        source = path.read_text(encoding="utf-8")
        if "Error" not in source and "Exception" not in source:
            continue
        name = str(path.relative_to(ROOT)).removeprefix("bench/").removesuffix(".py").replace("/", ".")
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ClassDef) and any(
                ast.unparse(base).endswith(("Error", "Exception")) for base in node.bases
            ):
                yield getattr(importlib.import_module(name), node.name)


def test_exceptions_descend_from_the_root_of_their_package() -> None:
    found = list(_exceptions())
    assert {each.__module__.partition(".")[0] for each in found} == ROOTS.keys()
    assert [each for each in found if not issubclass(each, ROOTS[each.__module__.partition(".")[0]])] == []


def test_roots_of_exceptions_descend_from_the_floor_below() -> None:
    """Code that handles the errors of a floor handles those of the floors above it, without their names."""
    floors = [HfiSimError, VemaError, OpavnicError]
    assert all(issubclass(upper, lower) for lower, upper in itertools.pairwise(floors))
    assert issubclass(EjfatError, OpavnicError)
    assert issubclass(LnetError, OpavnicError)
