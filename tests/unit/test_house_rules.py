"""Rules of the house that no linter knows: modules stay short, public names are explained."""

from __future__ import annotations

import ast
import functools
import importlib
import itertools
import re
import tomllib
from pathlib import Path

import pytest

from ejfat.base.errors import EjfatError
from hfi_sim.base.errors import HfiSimError
from lnet.base.errors import LnetError
from opavnic.base.errors import OpavnicError
from opavnic_bench.base.turns import BenchError
from vema.base.errors import VemaError

ROOT = Path(__file__).parents[2]
PACKAGES = ["hfi_sim", "vema", "opavnic", "ejfat", "lnet", "bench/opavnic_bench"]
MODULES = sorted(itertools.chain.from_iterable((ROOT / name).rglob("*.py") for name in PACKAGES))
HAND_WRITTEN = [path for path in MODULES if not path.name.endswith(("_pb2.py", "_pb2_grpc.py"))]

MAX_LINES = 600
GENERATED = re.compile(r"^ *# generated: .*?^ *# end of generated$", re.DOTALL | re.MULTILINE)


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", HAND_WRITTEN, ids=_name)
def test_module_is_short_and_explained(path: Path) -> None:
    source = path.read_text()
    by_hand = GENERATED.sub("", source).splitlines()
    assert len(by_hand) <= MAX_LINES, f"{_name(path)}: split it by duty"
    assert path.name != "utils.py"
    tree = ast.parse(source)
    missing = [] if ast.get_docstring(tree) else ["module"]
    for node in tree.body:
        if isinstance(
            node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        ) and not node.name.startswith("_"):
            if not ast.get_docstring(node):
                missing.append(node.name)
            if isinstance(node, ast.ClassDef):
                missing += [
                    f"{node.name}.{member.name}"
                    for member in node.body
                    if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef)
                    and not member.name.startswith("_")
                    and not ast.get_docstring(member)
                    and not _is_override_or_ndo(node, member)
                ]
    assert missing == []


def _is_override_or_ndo(owner: ast.ClassDef, member: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """An implementation of a method that its Protocol or base class explains needs no second explanation."""
    decorators = {
        getattr(decorator, "id", getattr(decorator, "attr", "")) for decorator in member.decorator_list
    }
    return (
        bool(owner.bases)
        or "overload" in decorators
        or "setter" in decorators
        or member.name.startswith("ndo_")
    )


ROOTS: dict[str, type[Exception]] = {
    "hfi_sim": HfiSimError,
    "vema": VemaError,
    "opavnic": OpavnicError,
    "ejfat": EjfatError,
    "lnet": LnetError,
    "opavnic_bench": BenchError,
}
"""Each package has one root of exceptions, so that its errors can be told from a bug by one name."""


@functools.cache
def _exceptions(path: Path) -> list[str]:
    """Return the classes of a module that have an exception among their bases; only those modules are imported."""
    return [
        node.name
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
        and any(ast.unparse(base).endswith(("Error", "Exception")) for base in node.bases)
    ]


@pytest.mark.parametrize("path", [path for path in HAND_WRITTEN if _exceptions(path)], ids=_name)
def test_exceptions_descend_from_the_root_of_their_package(path: Path) -> None:
    name = _name(path).removeprefix("bench/").removesuffix(".py").replace("/", ".")
    module, root = importlib.import_module(name), ROOTS[name.partition(".")[0]]
    strays = [name for name in _exceptions(path) if not issubclass(getattr(module, name), root)]
    assert strays == [], f"derive them from {root.__name__}"


def test_roots_of_exceptions_descend_from_the_floor_below() -> None:
    """Whoever handles the errors of a floor handles those of what stands on it, without knowing its name."""
    floors = [HfiSimError, VemaError, OpavnicError]
    assert all(issubclass(upper, lower) for lower, upper in itertools.pairwise(floors))
    assert issubclass(EjfatError, OpavnicError)
    assert issubclass(LnetError, OpavnicError)


def test_programs_of_tests_are_killed_on_the_way_out() -> None:
    """`with subprocess.Popen` waits for a program without end; `processes.child` ends it first."""
    tests = ROOT / "tests"
    found = [
        path for path in tests.rglob("*.py") if re.search(r"with (subprocess\.)?Popen\(", path.read_text())
    ]
    assert found == [tests / "processes.py"]


def test_fuzz_targets_are_locked_to_what_their_crates_need() -> None:
    """`make fuzz` builds with --locked: a dependency that a crate gets must not be the end of it, unseen."""
    lock = tomllib.loads((ROOT / "native/fuzz/Cargo.lock").read_text())
    locked = {package["name"]: package.get("dependencies", []) for package in lock["package"]}
    missing = {}
    for crate in (ROOT / "native").glob("*/Cargo.toml"):
        wanted = tomllib.loads(crate.read_text())
        if (name := wanted["package"]["name"]) in locked:
            has = {dependency.partition(" ")[0] for dependency in locked[name]}
            missing[name] = wanted.get("dependencies", {}).keys() - has
    assert len(missing) > 3
    assert {name: gone for name, gone in missing.items() if gone} == {}
