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
from opavnic.engine.threaded import native_carrier

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
    init = said.pop("__init__", None)
    if init is None:  # another class makes it
        with pytest.raises(TypeError):
            built()
    else:
        assert built_parameters(built) == parameters(init)
    assert public(iter(vars(built))) == said.keys()
    for method, item in said.items():
        if is_property(item):
            assert inspect.isgetsetdescriptor(getattr(built, method)), method
        else:
            assert built_parameters(getattr(built, method)) == parameters(item), method


# --- what goes in: every key that the types name is asked for, and no other ----------------------------------

CONFIG: Final[_native.VportConfig] = {
    "vesw_id": 2,
    "pkey": 0x8002,
    "slid": 1,
    "rc": 0,
    "u_mcast_dlid": 0,
    "hash_shift": 0,
    "flow_dlids": [0] * 32,
    "sc_uc": [0] * 8,
    "sc_mc": [0] * 8,
    "non_vlan_sc_uc": 0,
    "non_vlan_sc_mc": 0,
    "macs": [],
    "sources": None,
    "quiet": None,
    "mtu": 1500,
    "oper_up": True,
}


def test_carrier_asks_for_every_key_of_what_it_is_given() -> None:
    carrier = native_carrier()
    vport, port = carrier.add_vport(), carrier.engine.add_port()
    assert list(CONFIG) == keys("VportConfig")
    carrier.set_vport(vport, CONFIG, port)
    for missing in keys("VportConfig"):
        given: Any = {key: value for key, value in CONFIG.items() if key != missing}
        with pytest.raises((KeyError, TypeError), match=missing):
            carrier.set_vport(vport, given, port)


def test_carrier_refuses_what_is_not_there() -> None:
    carrier = native_carrier()
    vport, port = carrier.add_vport(), carrier.engine.add_port()
    with pytest.raises(ValueError, match="no HFI port with number 7"):
        carrier.set_vport(vport, CONFIG, 7)
    with pytest.raises(ValueError, match="no vport with index 9"):
        carrier.set_vport(9, CONFIG, port)
    with pytest.raises(ValueError, match="no HFI port with number 7"):
        carrier.set_demux(7, 0xFFF, {})
    with pytest.raises(ValueError, match="no vport with index 9"):
        carrier.set_demux(port, 0xFFF, {2: vport, 3: 9})


# --- what comes out ------------------------------------------------------------------------------------------


def test_counts_have_the_keys_that_the_types_name() -> None:
    carrier = native_carrier()
    vport = carrier.add_vport()
    counted = (carrier.collect(0)[vport], carrier.collect_vport(0, vport), carrier.remove_vport(0, vport))
    for vnic in counted:
        assert set(vnic) == set(keys("VportCounts"))
        assert set(vnic["tx"]) == set(vnic["rx"]) == set(keys("TrafficCounts"))
        assert set(vnic["tx_balance"]) == set(keys("ElementCounts"))


def test_ejfat_counts_have_the_keys_that_the_types_name() -> None:
    native = load_native()
    assert native is not None
    counts = native.EjfatPipeline().collect()
    assert set(counts) == set(keys("EjfatCounts"))
