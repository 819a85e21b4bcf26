"""What is known of a test before it runs: whether it needs a fabric, whether it needs an event loop, and which."""

from __future__ import annotations

import inspect
import unittest
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pytest
import pytest_asyncio

FIXTURES: Final = ("lab", "fabric", "hosts", "em", "mad_simulator")
LOOP_SCOPES: Final = ("function", "class", "module", "package", "session")
SHARED_BY: Final = "_fabric_shared_by"
"""Attribute of a shared `lab` fixture that holds its scope."""
ANYIO_BACKEND: Final = "anyio_backend"
"""The fixture by which anyio knows the tests and fixtures that it runs."""
_PLUGIN: Final = "opavnic.pytest_plugin"


def uses_fabric(item: pytest.Function) -> bool:
    """Return whether a test uses one of our fixtures, directly or through others."""
    return any(_is_ours(item, name) for name in FIXTURES if name in item.fixturenames)


def needs_loop(item: pytest.Function) -> bool:
    """Return whether the fabric of a test runs on an event loop: the test or a fixture that uses it is a coroutine."""
    return is_coroutine(item) or any(_uses_fabric_in_a_coroutine(item, name) for name in item.fixturenames)


def is_coroutine(item: pytest.Function) -> bool:
    """Return whether a test is a coroutine, also one in `@given`."""
    return inspect.iscoroutinefunction(inner_test(item) or item.obj)


def leave_to_asyncio(item: pytest.Function) -> None:
    """Let pytest-asyncio run a coroutine test that anyio would run, with its fixtures: a fabric has its event loop.

    What anyio offers works on that loop too. The variant of a test for another kind of loop is skipped.
    """
    names = item._fixtureinfo.names_closure
    if ANYIO_BACKEND not in names:
        return
    names.remove(ANYIO_BACKEND)
    params: dict[str, Any] = item.callspec.params if hasattr(item, "callspec") else {}
    backend = params.get(ANYIO_BACKEND, "asyncio")
    if (backend if isinstance(backend, str) else backend[0]) != "asyncio":
        item.add_marker(pytest.mark.skip(reason="a fabric runs on asyncio"))
    for definitions in item._fixtureinfo.name2fixturedefs.values():
        for definition in definitions:
            function = definition.func
            is_async = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
            if is_async and function.__module__ != _PLUGIN:
                pytest_asyncio.fixture(function)  # marks it as one of its own


def hide_from_anyio(item: pytest.Item) -> None:
    """Hide the mark of anyio of a collected test that pytest-asyncio runs: anyio would take it over once more."""
    if isinstance(item, pytest.Function) and uses_fabric(item) and is_coroutine(item):
        find = item.get_closest_marker
        item.get_closest_marker = partial(_marker_but_anyio, find)  # type: ignore[method-assign]


def _marker_but_anyio(find: Any, name: str, default: Any = None) -> Any:
    """Return a mark of a test as `find` does, but not the one by which anyio takes the test over once more."""
    return default if name == "anyio" else find(name, default)


class _Backend(str):
    """The value of the fixture `anyio_backend` for a test that takes it: false, so that anyio lets the test alone."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return False


def give_backend(item: pytest.Function) -> None:
    """Give a test that takes `anyio_backend` the one on which it runs."""
    if ANYIO_BACKEND in item._fixtureinfo.argnames and uses_fabric(item):
        item.funcargs[ANYIO_BACKEND] = _Backend("asyncio")


def inner_test(item: pytest.Function) -> Any:
    """Return the function that `@given` calls for each example; None: not a Hypothesis test."""
    handle = getattr(item.obj, "hypothesis", None)
    return getattr(handle, "inner_test", None)


def has_own_loop(item: pytest.Item) -> bool:
    """Return whether a test runs on an event loop that unittest makes."""
    instance = getattr(item, "instance", None)
    return isinstance(instance, unittest.IsolatedAsyncioTestCase) and inspect.iscoroutinefunction(
        getattr(item, "obj", None)
    )


def shares_with(item: pytest.Function) -> str | None:
    """Return the scope in which a test shares its fabric with others; None: it has its own."""
    definitions = _definitions(item, "lab")
    return getattr(definitions[-1].func, SHARED_BY, None) if definitions else None


def has_fixtures_on_the_fabric(item: pytest.Function) -> bool:
    """Return whether fixtures of the tested project use ours. They are made once, and so are bound to one fabric."""
    return any(not _is_ours(item, name) and _reaches(item, name) for name in item.fixturenames)


def loop_scope(item: pytest.Function) -> str:
    """Return the scope of the event loop that runs a test, or for a plain function its coroutine fixtures."""
    marker = item.get_closest_marker("asyncio")
    if marker is not None and is_coroutine(item):
        chosen = marker.kwargs.get("loop_scope", marker.kwargs.get("scope"))
        return str(chosen or item.config.getini("asyncio_default_test_loop_scope"))
    chosen = item.config.getini("asyncio_default_fixture_loop_scope")
    return str(chosen) if chosen in LOOP_SCOPES else "function"


def _definitions(item: pytest.Function, name: str) -> tuple[pytest.FixtureDef[Any], ...]:
    return tuple(item._fixtureinfo.name2fixturedefs.get(name, ()))


def _is_ours(item: pytest.Function, name: str) -> bool:
    """Return whether a fixture is that of this plugin, or an override that uses it."""
    if name not in FIXTURES:
        return False
    for definition in reversed(_definitions(item, name)):
        if definition.func.__module__ == _PLUGIN:
            return True
        if name not in definition.argnames:
            return False
    return False


def _uses_fabric_in_a_coroutine(item: pytest.Function, name: str) -> bool:
    return any(
        inspect.iscoroutinefunction(definition.func) or inspect.isasyncgenfunction(definition.func)
        for definition in _definitions(item, name)[-1:]
    ) and _reaches(item, name)


def _reaches(item: pytest.Function, name: str) -> bool:
    """Return whether a fixture uses one of ours, directly or through others."""
    return any(_is_ours(item, other) for other in _closure(item, name))


def _closure(item: pytest.Function, name: str) -> Iterator[str]:
    """Yield a fixture and those that it uses."""
    waiting, seen = [name], {name}
    while waiting:
        found = waiting.pop()
        yield found
        for definition in _definitions(item, found):
            for other in definition.argnames:
                if other not in seen:
                    seen.add(other)
                    waiting.append(other)


@dataclass(frozen=True, slots=True)
class FabricOrder:
    """What a test, or a scope of tests, asks of its fabric."""

    node: pytest.Item | pytest.Collector
    marks: tuple[pytest.Mark, ...] = ()
    """In place of those of the node."""

    @classmethod
    def of(cls, node: Any, marks: tuple[pytest.MarkDecorator, ...] = ()) -> FabricOrder:
        """Return what the markers of a node ask for, or these `marks`."""
        return cls(node, tuple(mark.mark for mark in marks))

    def iter_markers(self, name: str) -> Iterator[pytest.Mark]:
        """Yield the markers of a name, the nearest first."""
        yield from (mark for mark in self.marks if mark.name == name)
        yield from self.node.iter_markers(name)

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        """Return the nearest marker of a name."""
        return next(self.iter_markers(name), None)
