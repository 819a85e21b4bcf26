"""What markers and the ini file of a test say about its fabric; a mistake in them is one line that names its place."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any, Final

import pytest

from hfi_sim.base.errors import InputError, QuantityError
from hfi_sim.base.quantities import parse_time
from hfi_sim.base.text import unknown_name
from opavnic.testing.pytest_items import FabricOrder

if TYPE_CHECKING:
    from opavnic.scenario.limits import TimeLimits

OPTIONS: Final = ("routing", "link", "fabric_id")
_DEFAULT_SEED: Final = 1


def seed(order: FabricOrder, chosen: int | None) -> int:
    """Return the seed of a test. Args: chosen: that of the command line, which overrides markers."""
    if chosen is not None:
        return chosen
    marker = order.get_closest_marker("fabric_seed")
    if marker is None:
        return _DEFAULT_SEED
    if len(marker.args) != 1 or type(marker.args[0]) is not int or marker.kwargs:
        raise InputError(f"{_text(marker)}: it takes one whole number, e.g. fabric_seed(7)")
    return int(marker.args[0])


def shape(order: FabricOrder) -> dict[str, Any]:
    """Return the arguments for `generate` from the nearest marker."""
    marker = order.get_closest_marker("topology")
    if marker is None:
        from hfi_sim.fabric.topology import DEFAULT_SHAPE

        return {"kind": DEFAULT_SHAPE}
    if len(marker.args) > 1 or (marker.args and "kind" in marker.kwargs):
        raise InputError(
            f'{_text(marker)}: it takes one kind, and numbers by name, e.g. topology("clos", leaves=2, spines=2)'
        )
    if not marker.args and "kind" not in marker.kwargs:
        from hfi_sim.fabric.topology import SHAPES

        raise InputError(f"{_text(marker)}: the first argument is the kind: {', '.join(SHAPES)}")
    if marker.kwargs.get("hosts") in (0, []):
        raise InputError(f"{_text(marker)}: a scenario needs at least 1 host")
    return {"kind": marker.args[0], **marker.kwargs} if marker.args else dict(marker.kwargs)


def fabric_options(order: FabricOrder) -> dict[str, Any]:
    """Return the options of all markers, the nearest first; values that would fail far from the marker are refused."""
    from hfi_sim.engine.link.config import LinkConfig
    from hfi_sim.engine.link.two_way import TwoWay
    from hfi_sim.subnet_manager import Routing

    options: dict[str, Any] = {}
    for marker in reversed(list(order.iter_markers("fabric_options"))):
        options.update(marker.kwargs)
    kinds: dict[str, tuple[type[Any], ...]] = {
        "routing": (Routing, str),
        "link": (LinkConfig, TwoWay),
        "fabric_id": (int,),
    }
    for name, value in options.items():
        if name not in OPTIONS:
            raise InputError(f"fabric_options: {unknown_name('option', name, OPTIONS)}")
        if not isinstance(value, kinds[name]):
            wanted = " or ".join(kind.__name__ for kind in kinds[name])
            raise InputError(f"fabric_options: {name} is {value!r}; it is {wanted}")
    return options


def kernels(order: FabricOrder) -> tuple[str, ...]:
    """Return the names of the hosts that are to be kernels."""
    marker = order.get_closest_marker("kernel")
    if marker is None:
        return ()
    if not marker.args or marker.kwargs or not all(isinstance(name, str) for name in marker.args):
        raise InputError(f'{_text(marker)}: it takes names of hosts, e.g. kernel("h2")')
    return marker.args


def time_limits(node: pytest.Item | pytest.Collector) -> TimeLimits:
    """Return the limits of a test: of its nearest marker, and of the ini file what that does not say."""
    from opavnic.scenario.limits import TimeLimits

    limits = ini_limits(node.config)
    marker = node.get_closest_marker("fabric_time_limit")
    if marker is None:
        return limits
    if len(marker.args) > 1 or marker.kwargs.keys() - {"real"} or not (marker.args or marker.kwargs):
        raise InputError(f'{_text(marker)}: it takes a time, real=TIME or both: ("5s", real="1min")')
    try:
        virtual_s = _limit(marker.args[0]) if marker.args else limits.virtual_s
        real_s = _limit(marker.kwargs["real"]) if marker.kwargs else limits.real_s
    except QuantityError as error:
        raise InputError(f"{_text(marker)}: {error}") from error
    return TimeLimits(virtual_s, real_s)


def ini_limits(config: pytest.Config) -> TimeLimits:
    """Return the limits of the ini file.

    Raises:  InputError: one is not a time.
    """
    from opavnic.scenario.limits import TimeLimits

    found = []
    for key in ("fabric_time_limit", "fabric_real_time_limit"):
        try:
            found.append(_limit(config.getini(key)))
        except QuantityError as error:
            raise InputError(f"{config.inipath or 'ini file'}: {key}: {error}") from error
    return TimeLimits(*found)


def line_of(node: pytest.Item | pytest.Collector, marker: str) -> str:
    """Return `test_it.py:12`: where a test is given a marker, or else where the test begins; or the name of a scope."""
    if not isinstance(node, pytest.Item):
        return node.nodeid or node.name
    file, first, _ = node.location
    line = 1 + (first or 0)
    function = getattr(node, "function", None)
    if function is not None and marker:
        try:
            source, begin = inspect.getsourcelines(inspect.unwrap(function))
        except (OSError, TypeError):  # made at run time
            source, begin = [], 0
        for number, text in enumerate(source):
            if re.match(rf"\s*@.*\bmark\.{marker}\b", text):
                return f"{file}:{begin + number}"
    return f"{file}:{line}"


def _limit(value: object) -> float | None:
    return parse_time(value) or None


def _text(marker: pytest.Mark) -> str:
    given = [repr(value) for value in marker.args]
    given += [f"{name}={value!r}" for name, value in marker.kwargs.items()]
    return f"{marker.name}({', '.join(given)})"
