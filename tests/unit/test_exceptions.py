"""Each package has one root of exceptions, so that its errors can be told from a bug by one name."""

from __future__ import annotations

import ast
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


def _classes() -> Iterator[tuple[str, str, list[str]]]:
    """Yield the package, the name and the names of the bases of each class that has an exception among these."""
    for path in modules(ROOT):
        source = path.read_text(encoding="utf-8")
        if "Error" not in source and "Exception" not in source:
            continue
        package = str(path.relative_to(ROOT)).removeprefix("bench/").partition("/")[0]
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ClassDef):
                bases = [ast.unparse(base).rpartition(".")[2] for base in node.bases]
                if any(base.endswith(("Error", "Exception")) for base in bases):
                    yield package, node.name, bases


def test_exceptions_descend_from_the_root_of_their_package() -> None:
    found = list(_classes())
    assert {package for package, _, _ in found} == ROOTS.keys()
    bases = {(package, name): above for package, name, above in found}
    by_name = {name: above for _, name, above in found}

    def ancestors(package: str, name: str) -> set[str]:
        above = bases.get((package, name), by_name.get(name, []))
        return {name}.union(*(ancestors(package, base) for base in above if base != name))

    assert [each for each in bases if ROOTS[each[0]].__name__ not in ancestors(*each)] == []


def test_roots_of_exceptions_descend_from_the_floor_below() -> None:
    """Code that handles the errors of a floor handles those of the floors above it, without their names."""
    floors = [HfiSimError, VemaError, OpavnicError]
    assert all(issubclass(upper, lower) for lower, upper in itertools.pairwise(floors))
    assert issubclass(EjfatError, OpavnicError)
    assert issubclass(LnetError, OpavnicError)
