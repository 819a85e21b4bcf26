"""The types of the native module, opavnic/_native.pyi, are those of the module that was built."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

import opavnic
from native_module import needs_native
from opavnic.datapath.selection import load_native

if TYPE_CHECKING:
    from opavnic import _native

pytestmark = needs_native

STUB: Final = ast.parse((Path(opavnic.__file__).parent / "_native.pyi").read_text())
CLASSES: Final = {item.name: item for item in STUB.body if isinstance(item, ast.ClassDef)}


def keys(name: str) -> list[str]:
    """Return the keys of a TypedDict, those of its bases first."""
    item = CLASSES[name]
    own = [
        line.target.id
        for line in item.body
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)
    ]
    bases = [base.id for base in item.bases if isinstance(base, ast.Name) and base.id != "TypedDict"]
    return [key for base in bases for key in keys(base)] + own


def is_typed_dict(item: ast.ClassDef) -> bool:
    return any(
        isinstance(base, ast.Name) and (base.id == "TypedDict" or base.id in CLASSES) for base in item.bases
    )


def is_property(item: ast.FunctionDef) -> bool:
    return any(
        isinstance(decorator, ast.Name) and decorator.id == "property" for decorator in item.decorator_list
    )


def parameters(item: ast.FunctionDef) -> list[tuple[str, bool, object]]:
    """Return name, whether it is given by name alone, and default of each parameter but self."""
    arguments = item.args
    places = [argument.arg for argument in arguments.args]
    defaults = [ast.literal_eval(value) for value in arguments.defaults]
    missing: list[object] = [inspect.Parameter.empty] * (len(places) - len(defaults))
    named = [
        (argument.arg, True, inspect.Parameter.empty if value is None else ast.literal_eval(value))
        for argument, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    ]
    by_place = [(name, False, value) for name, value in zip(places, missing + defaults, strict=True)]
    return [known for known in by_place + named if known[0] != "self"]


def built_parameters(function: Callable[..., Any]) -> list[tuple[str, bool, object]]:
    return [
        (parameter.name, parameter.kind is parameter.KEYWORD_ONLY, parameter.default)
        for parameter in inspect.signature(function).parameters.values()
        if parameter.name != "self"
    ]


def public(names: Iterator[str]) -> set[str]:
    return {name for name in names if not name.startswith("_")}


def test_module_has_the_functions_classes_and_constants_that_the_types_name() -> None:
    functions = {item.name: item for item in STUB.body if isinstance(item, ast.FunctionDef)}
    classes = {name for name, item in CLASSES.items() if not is_typed_dict(item)}
    constants = {
        item.target.id
        for item in STUB.body
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
    }
    native = load_native()
    assert public(iter(vars(native))) == functions.keys() | classes | constants
    for name, item in functions.items():
        assert built_parameters(getattr(native, name)) == parameters(item), name


@pytest.mark.parametrize("name", [name for name, item in CLASSES.items() if not is_typed_dict(item)])
def test_class_has_the_methods_and_properties_that_the_types_name(name: str) -> None:
    built = getattr(load_native(), name)
    said = {item.name: item for item in CLASSES[name].body if isinstance(item, ast.FunctionDef)}
    assert built_parameters(built) == parameters(said.pop("__init__"))
    assert public(iter(vars(built))) == said.keys()
    for method, item in said.items():
        if is_property(item):
            assert inspect.isgetsetdescriptor(getattr(built, method)), method
        else:
            assert built_parameters(getattr(built, method)) == parameters(item), method


# --- what goes in: every key that the types name is asked for, and no other ----------------------------------

PORT: Final[_native.Port] = {
    "active": True,
    "lid": 1,
    "lmc": 0,
    "sendable": [0x8002],
    "admitted": [0x8002],
    "groups": [],
    "direction": (0, 0),
    "vesw_mask": 0,
    "vesws": {},
    "nohandler": None,
}
SWITCH: Final[_native.Switch] = {"up": True, "ports": [(True, (0, 1))], "lft": {1: 0}, "mft": {}}
LINK: Final[_native.Link] = {
    "ends": ((0, None), (0, 0)),
    "up": True,
    "slow": False,
    "faults": [[], []],
    "streams": (1, 2),
}
CONFIG: Final[_native.VportConfig] = {
    "vesw_id": 2,
    "pkey": 0x8002,
    "slid": 1,
    "rc": 0,
    "u_mcast_dlid": 0,
    "flow_dlids": [0] * 32,
    "sc_uc": [0] * 8,
    "sc_mc": [0] * 8,
    "non_vlan_sc_uc": 0,
    "non_vlan_sc_mc": 0,
    "macs": [],
    "sources": None,
    "mtu": 1500,
    "oper_up": True,
}
GIVEN: Final = {"Port": PORT, "Switch": SWITCH, "Link": LINK, "VportConfig": CONFIG}


def give(given: dict[str, Any]) -> None:
    """Give an engine a fabric and the configuration of a vport."""
    native = load_native()
    assert native is not None
    engine = native.Engine()
    engine.set_fabric([given["Port"]], [given["Switch"]], [given["Link"]])
    engine.set_vport(engine.add_vport(), given["VportConfig"], 0)


@pytest.mark.parametrize("name", GIVEN)
def test_engine_asks_for_every_key_of_what_it_is_given(name: str) -> None:
    assert list(GIVEN[name]) == keys(name)
    give(dict(GIVEN))
    for missing in keys(name):
        given = {key: value for key, value in GIVEN[name].items() if key != missing}
        with pytest.raises((KeyError, TypeError), match=missing):
            give({**GIVEN, name: given})


# --- what comes out ------------------------------------------------------------------------------------------


def test_counts_have_the_keys_that_the_types_name() -> None:
    native = load_native()
    assert native is not None
    engine = native.Engine()
    vport = engine.add_vport()
    engine.set_fabric([PORT], [SWITCH], [LINK])
    counts = engine.collect()
    assert set(counts) == set(keys("Counts"))
    for element in (counts["port_tx"][0], counts["switches"][0], counts["directions"][0][0]):
        assert set(element) == set(keys("ElementCounts"))
    for vnic in (counts["vports"][vport], engine.collect_vport(vport), engine.remove_vport(vport)):
        assert set(vnic) == set(keys("VportCounts"))
        assert set(vnic["tx"]) == set(vnic["rx"]) == set(keys("TrafficCounts"))


def test_ejfat_counts_have_the_keys_that_the_types_name() -> None:
    native = load_native()
    assert native is not None
    counts = native.EjfatPipeline().collect()
    assert set(counts) == set(keys("EjfatCounts"))
