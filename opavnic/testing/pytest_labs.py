"""The scenarios of tests: made as their markers ask, run on their event loop, ended at their limits."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any, Final, cast

import pytest

from opavnic.testing.pytest_items import FIXTURES, FabricOrder, inner_test, is_coroutine, shares_with

if TYPE_CHECKING:
    from hfi_sim.engine.api import EngineFactory
    from opavnic.scenario import Scenario, ScenarioEm
    from opavnic.scenario.limits import LimitWatch, TimeLimits

OWN_LOOP: Final = (
    "unittest.IsolatedAsyncioTestCase runs its tests on an event loop of its own, which fixtures do not have; make the "
    "fabric there: self.lab = await self.enterAsyncContext(Scenario(single_switch(2))) in asyncSetUp"
)
_SETTINGS: Final = "_hypothesis_internal_use_settings"
"""Where Hypothesis keeps the settings of a test; it has no other way to them. Without it, it warns as before."""
_SCENARIO: Final = pytest.StashKey["Scenario"]()
_WATCH: Final = pytest.StashKey[Any]()


def make_scenario(order: FabricOrder, engine: EngineFactory | None, *, on_loop: bool = False) -> Scenario:
    """Build the scenario that the markers of a test ask for; a mistake in them fails the test with one line.

    Args:    engine: None: the one in Python. on_loop: on the running event loop, else on a clock moved by hand.
    """
    from hfi_sim.base.clock import ManualClock
    from hfi_sim.base.errors import HfiSimError, InputError
    from hfi_sim.engine.python import PythonEngine
    from hfi_sim.fabric.topology import generate
    from opavnic.scenario import Scenario
    from opavnic.testing.pytest_markers import fabric_options, kernels, line_of, seed, shape

    __tracebackhide__ = True
    node = order.node
    config = node.config
    names = node.fixturenames if isinstance(node, pytest.Function) else ()
    marker = "topology"
    try:
        topology = generate(**shape(order))
        marker = "fabric_seed"
        number = seed(order, config.getoption("--fabric-seed"))
        marker = "fabric_options"
        options = fabric_options(order)
        marker = "kernel"
        if linux := kernels(order):
            _skip_without_kernel()
        by_hand = "mad_simulator" in names
        if by_hand and "em" in names:
            marker = ""
            raise InputError(
                "em and mad_simulator: a fabric has one manager; use em, or mad_simulator instead "
                "(lab.stand_in(host) simulates an agent together with em)"
            )
        scenario = Scenario(
            topology,
            seed=number,
            clock=None if on_loop else ManualClock(),
            engine=engine or PythonEngine,
            real=bool(config.getoption("--fabric-real")) and on_loop,
            manager="simulator" if by_hand else "em",
            kernels=linux,
            **options,
        )
    except HfiSimError as error:
        problem = f"{line_of(node, marker)}: {error}"
    else:
        node.stash[_SCENARIO] = scenario
        return scenario
    pytest.fail(problem, pytrace=False)  # behind `except`, or pytest would show the error as well


def _skip_without_kernel() -> None:
    from opavnic.kernel.cache import KernelError, find_kernel

    try:
        find_kernel()
    except KernelError as error:
        reason = str(error)
    else:
        return
    pytest.skip(reason)


@contextlib.asynccontextmanager
async def running_scenario(order: FabricOrder, engine: EngineFactory | None) -> AsyncIterator[Scenario]:
    """Run a scenario on this event loop, on virtual time, within the limits of the test; check it at the end."""
    from opavnic.scenario.limits import LimitWatch

    __tracebackhide__ = True
    node = order.node
    limits = _limits(node)
    with _time_of(node):
        scenario = make_scenario(order, engine, on_loop=True)
        with LimitWatch(scenario, limits) as watch:
            node.stash[_WATCH] = watch
            async with scenario:
                yield scenario


def _time_of(node: pytest.Item | pytest.Collector) -> contextlib.AbstractContextManager[None]:
    from opavnic.scenario.virtual import virtual_time

    if node.config.getoption("--fabric-real") or node.config.getoption("looptime", None) is False:
        return contextlib.nullcontext()
    options: dict[str, Any] = {}
    for mark in reversed(list(node.iter_markers("looptime"))):
        options.update(mark.kwargs)
    return virtual_time(asyncio.get_running_loop(), **options)


def _limits(node: pytest.Item | pytest.Collector) -> TimeLimits:
    """Return the limits of a test: of its nearest marker, else of the ini file."""
    from hfi_sim.base.errors import InputError
    from opavnic.testing.pytest_markers import line_of, time_limits

    __tracebackhide__ = True
    try:
        return time_limits(node)
    except InputError as error:
        problem = f"{line_of(node, 'fabric_time_limit')}: {error}"
    pytest.fail(problem, pytrace=False)


# --- examples of Hypothesis --------------------------------------------------------------------------------


class _EachExample:
    """Stands for the scenario of a test with `@given` outside of its examples, of which each has its own."""

    def __getattr__(self, name: str) -> _EachExample:
        return self

    def __repr__(self) -> str:
        return "that of the example"


@contextlib.contextmanager
def fabric_for_each_example(item: pytest.Function, engine: EngineFactory) -> Iterator[Scenario]:
    """Let each example of a test with `@given` have a fabric of its own while the context lasts.

    The test then has nothing that examples share, so Hypothesis need not warn of it.
    """
    order = FabricOrder.of(item)
    test: Any = inner_test(item)

    def filled(scenario: Scenario, values: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {
            name: getattr(scenario, name, scenario) for name in FIXTURES if name in values
        }
        return values | found

    @functools.wraps(test)
    async def run_coroutine(*args: Any, **values: Any) -> None:
        __tracebackhide__ = True
        async with running_scenario(order, engine) as scenario:
            await test(*args, **filled(scenario, values))

    @functools.wraps(test)
    def run_function(*args: Any, **values: Any) -> None:
        __tracebackhide__ = True
        scenario = make_scenario(order, engine)
        test(*args, **filled(scenario, values))
        scenario.check()

    handle: Any = item.obj.hypothesis
    handle.inner_test = run_coroutine if is_coroutine(item) else run_function
    try:
        with _no_warning_of_ours(item):
            yield cast("Scenario", _EachExample())
    finally:
        handle.inner_test = test


@contextlib.contextmanager
def _no_warning_of_ours(item: pytest.Function) -> Iterator[None]:
    """Keep Hypothesis from refusing fixtures that are not reset for each example, where all of them are: ours."""
    from hypothesis import HealthCheck, settings

    function: Any = getattr(item.obj, "__func__", item.obj)
    asked = {name for name in item.fixturenames if name in inspect.signature(function).parameters}
    used = getattr(function, _SETTINGS, None)
    if used is None or asked - set(FIXTURES):
        yield
        return
    spared = {*used.suppress_health_check, HealthCheck.function_scoped_fixture}
    setattr(function, _SETTINGS, settings(parent=used, suppress_health_check=spared))
    try:
        yield
    finally:
        setattr(function, _SETTINGS, used)


# --- while a test runs -------------------------------------------------------------------------------------


def scenario_of(item: pytest.Item) -> Scenario | None:
    """Return the scenario of a test, its own or the one that it shares; None: it has none."""
    if not isinstance(item, pytest.Function) or "lab" not in item.fixturenames:
        return None
    scenario: Scenario | None = _stashed(item, _SCENARIO)
    return scenario


def manager_of(scenario: Scenario) -> ScenarioEm:
    """Return the Ethernet Manager of a scenario; without one, fail the test with one line."""
    from opavnic.scenario import ScenarioError

    try:
        return scenario.em
    except ScenarioError as error:
        problem = str(error)
    pytest.fail(problem, pytrace=False)


def refuse_marks_on_shared(item: pytest.Function, scope: str) -> None:
    """Fail a test whose own marks ask for another fabric than the one that it shares."""
    for mark in item.own_markers:
        if mark.name in ("topology", "fabric_seed", "fabric_options"):
            pytest.fail(
                f"{mark.name}: the tests of this {scope} share one fabric (lab_fixtures); give the mark to the {scope}",
                pytrace=False,
            )


def begin_test(item: pytest.Function) -> None:
    """Let the limits of a test count for a fabric that it shares."""
    watch: LimitWatch | None = _stashed(item, _WATCH)
    if watch is not None and shares_with(item) is not None:
        watch.limits = _limits(item)


def _stashed(item: pytest.Item, key: pytest.StashKey[Any]) -> Any:
    found = [node.stash[key] for node in item.listchain() if key in node.stash]
    return found[-1] if found else None
