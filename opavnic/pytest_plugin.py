"""The pytest plugin: fabrics as fixtures, on virtual time, seeded, checked after each test.

Fixtures:  lab (everything in one object), fabric, hosts, em; or mad_simulator instead of em; fabric_engine.
Markers:   topology("clos", leaves=2, spines=2), fabric_seed(7), fabric_options(routing=..., link=LinkConfig(...)),
           fabric_time_limit("5s", real="1min"), kernel("h2"): hosts that are Linux with its own opa_vnic.
Options:   --fabric-engine=python|native, --fabric-seed, --fabric-pcap=failed|always|never, --fabric-real.
Ini file:  fabric_time_limit, fabric_real_time_limit.

The fabric of a coroutine test, or of coroutine fixtures, runs on the event loop of that test, which is on virtual time
(looptime) meanwhile; with --fabric-real on real time, over TAPs. That of a plain function without such fixtures has a
clock that only `lab.advance(ms(5))` moves. With `lab_fixtures("module")` the tests of a module share one fabric.
"""

from __future__ import annotations

import warnings
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import pytest
import pytest_asyncio

from opavnic.testing.pytest_items import (
    LOOP_SCOPES,
    SHARED_BY,
    FabricOrder,
    give_backend,
    has_fixtures_on_the_fabric,
    has_own_loop,
    hide_from_anyio,
    inner_test,
    is_coroutine,
    leave_to_asyncio,
    loop_scope,
    needs_loop,
    shares_with,
    uses_fabric,
)
from opavnic.testing.pytest_labs import (
    OWN_LOOP,
    begin_test,
    fabric_for_each_example,
    make_scenario,
    manager_of,
    refuse_marks_on_shared,
    running_scenario,
    scenario_of,
)
from opavnic.testing.pytest_report import add_sections, forgotten_awaits

if TYPE_CHECKING:
    from hfi_sim.engine.api import EngineFactory
    from hfi_sim.fabric.fabric import Fabric
    from opavnic.scenario import Hosts, Scenario, ScenarioEm, ScenarioSimulator


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("fabric", "simulated fabrics (opavnic)")
    group.addoption(
        "--fabric-engine",
        choices=("python", "native"),
        default="python",
        help="What carries the packets of fabrics: the engine in Python, or the native one where it is built.",
    )
    group.addoption(
        "--fabric-seed", type=int, default=None, help="Seed of every fabric; overrides markers (default: 1)."
    )
    group.addoption(
        "--fabric-pcap",
        choices=("failed", "always", "never"),
        default="failed",
        help="Write the packets of these tests as pcapng files to .fabric/ (default: failed).",
    )
    group.addoption(
        "--fabric-report",
        choices=("failed", "always", "never"),
        default="failed",
        help="Write a page about each of these tests to .fabric/: what happened, packets, drops (default: failed).",
    )
    group.addoption(
        "--fabric-trace",
        type=Path,
        metavar="FILE",
        help="Append a line with the fingerprint and name of each test; runs with the same seed give the same file.",
    )
    group.addoption(
        "--fabric-real",
        action="store_true",
        help="Use TAPs in network namespaces and real time instead of memory and virtual time; needs privilege.",
    )
    parser.addini(
        "fabric_time_limit",
        "Virtual time after which a test with a fabric fails; 0: never (default: 2h).",
        default="2h",
    )
    parser.addini(
        "fabric_real_time_limit",
        "Real time after which a test with a fabric fails, if it is waiting; 0: never (default: 10min).",
        default="10min",
    )


@pytest.hookimpl(tryfirst=True)  # before pytest-asyncio, which warns
def pytest_configure(config: pytest.Config) -> None:
    """Register the markers; refuse an engine that cannot be had, and limits that are no times.

    pytest-asyncio warns every project that does not set `asyncio_default_fixture_loop_scope`. The tests of this plugin
    have a loop each with any value, so a project that has no coroutine fixtures of its own need not know it.
    """
    from hfi_sim.base.errors import InputError
    from opavnic.testing.pytest_markers import OPTIONS, ini_limits

    warnings.filterwarnings(
        "ignore", r'The configuration option "asyncio_default_fixture_loop_scope" is unset'
    )
    _engine(config)
    try:
        ini_limits(config)
    except InputError as error:
        raise pytest.UsageError(str(error)) from error
    config.addinivalue_line(
        "markers", 'topology(kind, **numbers): the shape of the fabric, e.g. ("clos", spines=2)'
    )
    config.addinivalue_line("markers", "fabric_seed(n): the seed of this test's fabric")
    config.addinivalue_line("markers", f"fabric_options(**options): any of {', '.join(OPTIONS)}")
    config.addinivalue_line(
        "markers", 'kernel(*hosts): these hosts are Linux with its own opa_vnic, e.g. ("h2")'
    )
    config.addinivalue_line(
        "markers", 'fabric_time_limit(time, real=time): how long this test may run, e.g. ("5s", real="1min")'
    )


def pytest_report_header(config: pytest.Config) -> str:
    """Say which engine carries the fabrics."""
    return f"fabric engine: {config.getoption('--fabric-engine')}"


def _engine(config: pytest.Config) -> EngineFactory | None:
    """Return what makes the engines of fabrics; None: the Python one, not imported yet."""
    name = config.getoption("--fabric-engine")
    if name == "python":
        return None
    from opavnic.base.errors import DatapathUnavailableError
    from opavnic.engine import engine_factory

    try:
        return engine_factory(name)
    except DatapathUnavailableError as error:
        raise pytest.UsageError(f"--fabric-engine={name}: {error}") from error


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_pycollect_makeitem(collector: pytest.Collector) -> Generator[None, Any, Any]:
    """Mark coroutine tests with a fabric for pytest-asyncio.

    This is the innermost wrapper, so that pytest-asyncio sees the mark in every mode.
    """
    collected = yield
    for item in collected if isinstance(collected, list) else [collected]:
        if isinstance(item, pytest.Function) and uses_fabric(item) and is_coroutine(item):
            leave_to_asyncio(item)
            if item.get_closest_marker("asyncio") is None:
                scope = shares_with(item)
                item.add_marker(pytest.mark.asyncio(loop_scope=scope) if scope else pytest.mark.asyncio)
            # the fabric turns virtual time on, from the first fixture that uses it to the last; looptime need not
            item.add_marker(pytest.mark.looptime(False), append=False)
    return collected


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep anyio from running tests with a fabric."""
    for item in items:
        hide_from_anyio(item)


# --- fixtures ----------------------------------------------------------------------------------------------


@pytest.fixture
def fabric_engine(pytestconfig: pytest.Config) -> EngineFactory:
    """What makes the engine of a fabric, for `World(topology, engine=fabric_engine)`; `lab` uses it as well."""
    from hfi_sim.engine.python import PythonEngine

    return _engine(pytestconfig) or PythonEngine


def _on_loop_of(loop_scope: Any) -> Any:
    """Return a fixture: a running scenario on the event loop of a scope."""

    @pytest_asyncio.fixture(loop_scope=loop_scope, name=f"_lab_on_{loop_scope}_loop")
    async def running(
        request: pytest.FixtureRequest, fabric_engine: EngineFactory
    ) -> AsyncIterator[Scenario]:
        __tracebackhide__ = True
        async with running_scenario(FabricOrder.of(request.node), fabric_engine) as scenario:
            yield scenario

    return running


for _scope in LOOP_SCOPES:
    globals()[f"_lab_on_{_scope}_loop"] = _on_loop_of(_scope)


@pytest.fixture
def lab(request: pytest.FixtureRequest, fabric_engine: EngineFactory) -> Iterator[Scenario]:
    """A whole scenario: topology, hosts, faults, trace, `lab.em`."""
    __tracebackhide__ = True
    item = request.node
    if has_own_loop(item):
        pytest.fail(OWN_LOOP, pytrace=False)
    if inner_test(item) is not None and not has_fixtures_on_the_fabric(item):
        with fabric_for_each_example(item, fabric_engine) as stand_in:
            yield stand_in
    elif needs_loop(item):
        yield request.getfixturevalue(f"_lab_on_{loop_scope(item)}_loop")
    else:
        scenario = make_scenario(FabricOrder.of(item), fabric_engine)
        yield scenario
        scenario.check()


@pytest.fixture
def fabric(lab: Scenario) -> Fabric:
    """The fabric: nodes, links, counters."""
    return lab.fabric


@pytest.fixture
def hosts(lab: Scenario) -> Hosts:
    """The hosts, by name or in order: `h1, h2 = hosts`."""
    return lab.hosts


@pytest.fixture
def em(lab: Scenario) -> ScenarioEm:
    """The Ethernet Manager: `await em.vesw("blue", members=hosts)`."""
    return manager_of(lab)


@pytest.fixture
def mad_simulator(lab: Scenario) -> ScenarioSimulator:
    """A scripted Ethernet Manager instead of the real one: `await mad_simulator.configure(h1, vesw_id=2)`."""
    return lab.mad_simulator


class LabFixtures(NamedTuple):
    """Fixtures to assign to the names `lab, fabric, hosts, em` in a test module or conftest.py."""

    lab: Any
    fabric: Any
    hosts: Any
    em: Any


def lab_fixtures(scope: Literal["class", "module", "package", "session"], *marks: Any) -> LabFixtures:
    """Return the fixtures `lab, fabric, hosts, em` of one fabric that all tests of a scope share.

    It is assigned in a test module or in conftest.py: `lab, fabric, hosts, em = lab_fixtures("module")`. The fabric is
    made for the first test that uses it. It runs on the event loop of that scope, and so do the coroutine tests that
    use it, unless a mark of theirs names another; coroutine fixtures take `loop_scope="module"`. Time goes on from test
    to test.

    Args:    marks: `pytest.mark.topology(...)`, `fabric_seed`, `fabric_options`; else those of module or class count.
    Raises:  pytest.UsageError: no such scope.
    """
    if scope not in LOOP_SCOPES[1:]:
        raise pytest.UsageError(f"lab_fixtures({scope!r}): the scope is one of {', '.join(LOOP_SCOPES[1:])}")

    async def shared_lab(request: pytest.FixtureRequest) -> AsyncIterator[Scenario]:
        """The scenario that the tests of this scope share."""
        __tracebackhide__ = True
        order = FabricOrder.of(request.node, marks)
        engine = _engine(request.config)
        async with running_scenario(order, engine) as scenario:
            yield scenario

    def shared_em(lab: Scenario) -> ScenarioEm:
        return manager_of(lab)

    setattr(shared_lab, SHARED_BY, scope)
    return LabFixtures(
        pytest_asyncio.fixture(shared_lab, scope=scope, loop_scope=scope),
        pytest.fixture(lambda lab: lab.fabric, scope=scope),
        pytest.fixture(lambda lab: lab.hosts, scope=scope),
        pytest.fixture(shared_em, scope=scope),
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Refuse what a test asks of a fabric that it shares: it is as the first test found it."""
    if isinstance(item, pytest.Function) and (scope := shares_with(item)) is not None and uses_fabric(item):
        refuse_marks_on_shared(item, scope)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, Any, Any]:
    """Check the fabric of a test that has returned; what its fixtures have still to end is checked after them."""
    __tracebackhide__ = True
    scenario = scenario_of(pyfuncitem)
    begin_test(pyfuncitem)
    give_backend(pyfuncitem)
    if scenario is None:
        return (yield)
    with forgotten_awaits(pyfuncitem.path) as forgotten:
        result = yield
    if forgotten:
        pytest.fail("\n".join(forgotten), pytrace=False)
    if scenario.is_running:
        scenario.check_packets()
        if shares_with(pyfuncitem) is None and not has_fixtures_on_the_fabric(pyfuncitem):
            scenario.check()
    return result


# --- reports -----------------------------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add seed, timeline and the path of the packet file to the report of a test that failed."""
    report = yield
    scenario = scenario_of(item)
    if scenario is not None and (call.when == "call" or report.failed):
        scenario.has_failed |= report.failed
        add_sections(item, scenario, report, call.when)
    return report
