"""The pytest plugin: fabrics as fixtures, on virtual time, seeded, checked after each test.

Fixtures:  lab (everything in one object), fabric, hosts, em; or mad_simulator instead of em; fabric_engine.
Markers:   topology("clos", leaves=2, spines=2), fabric_seed(7), fabric_options(routing=..., flow=..., jitter_s=...),
           fabric_time_limit("5s", real="1min").
Options:   --fabric-engine=python|native, --fabric-seed, --fabric-pcap=failed|always|never, --fabric-real.
Ini file:  fabric_time_limit, fabric_real_time_limit.

A coroutine test that uses one of the fixtures runs on a virtual-time loop (looptime); with --fabric-real it runs on
the real one, over TAPs. A plain function gets a clock that only `lab.advance(ms(5))` moves.
"""

from __future__ import annotations

import functools
import inspect
import re
import warnings
from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from hfi_sim.engine.api import EngineFactory
    from hfi_sim.fabric import Fabric
    from opavnic.scenario import Hosts, Scenario, ScenarioEm, ScenarioSimulator
    from opavnic.scenario.limits import TimeLimits

_FIXTURES: Final = frozenset({"lab", "fabric", "hosts", "em", "mad_simulator"})
_SHOWN: Final = 16
_SCENARIO: Final = pytest.StashKey["Scenario"]()


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
        action="store_true",
        help="Write a page about each failed test to .fabric/: its fabric, packets by time and place, events, drops.",
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
    have a loop each whatever it is, so a project that has no coroutine fixtures of its own need not know it.
    """
    from opavnic.pytest_markers import OPTIONS, MarkerError, ini_limits

    warnings.filterwarnings(
        "ignore", r'The configuration option "asyncio_default_fixture_loop_scope" is unset'
    )
    _engine(config)
    try:
        ini_limits(config)
    except MarkerError as error:
        raise pytest.UsageError(str(error)) from error
    config.addinivalue_line(
        "markers", 'topology(kind, **numbers): the shape of the fabric, e.g. ("clos", spines=2)'
    )
    config.addinivalue_line("markers", "fabric_seed(n): the seed of this test's fabric")
    config.addinivalue_line("markers", f"fabric_options(**options): any of {', '.join(OPTIONS)}")
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
    from opavnic.engine import engine_factory
    from opavnic.errors import DatapathUnavailableError

    try:
        return engine_factory(name)
    except DatapathUnavailableError as error:
        raise pytest.UsageError(f"--fabric-engine={name}: {error}") from error


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_pycollect_makeitem(collector: pytest.Collector) -> Generator[None, Any, Any]:
    """Mark coroutine tests with a fabric to run in an event loop on virtual time.

    This is the innermost wrapper, so that pytest-asyncio sees the mark in every mode.
    """
    collected = yield
    for item in collected if isinstance(collected, list) else [collected]:
        if isinstance(item, pytest.Function) and _uses_fabric(item) and _is_coroutine(item):
            if item.get_closest_marker("asyncio") is None:
                item.add_marker(pytest.mark.asyncio)
            if not collector.config.getoption("--fabric-real"):
                item.add_marker(pytest.mark.looptime(**_loop_options()))
    return collected


def _loop_options() -> dict[str, Any]:
    from opavnic.scenario.virtual import LOOP_OPTIONS

    return LOOP_OPTIONS


def _uses_fabric(item: pytest.Function) -> bool:
    found = item._fixtureinfo.name2fixturedefs
    return any(_is_ours(name, found.get(name, ())) for name in _FIXTURES.intersection(item.fixturenames))


def _is_ours(name: str, definitions: Sequence[pytest.FixtureDef[Any]]) -> bool:
    """Return whether the fixture `name` of a test is that of this plugin, or an override that uses it."""
    for definition in reversed(definitions):
        if definition.func.__module__ == __name__:
            return True
        if name not in definition.argnames:
            return False
    return False


def _is_coroutine(item: pytest.Function) -> bool:
    return inspect.iscoroutinefunction(getattr(item.obj, "hypothesis", item.obj))


# --- fixtures ----------------------------------------------------------------------------------------------


@pytest.fixture
def fabric_engine(pytestconfig: pytest.Config) -> EngineFactory:
    """What makes the engine of a fabric, for `World(topology, engine=fabric_engine)`; `lab` uses it as well."""
    from hfi_sim.engine.python import PythonEngine

    return _engine(pytestconfig) or PythonEngine


@pytest.fixture
def lab(request: pytest.FixtureRequest, fabric_engine: EngineFactory) -> Iterator[Scenario]:
    """A whole scenario: topology, hosts, faults, trace; `lab.em` once the test runs."""
    __tracebackhide__ = True
    limits = _limits(request.node)
    scenario = _make(request, fabric_engine)
    request.node.stash[_SCENARIO] = scenario
    if _is_coroutine(request.node):
        request.node.obj = _inside(scenario, limits, request.node.obj)
        yield scenario
    else:
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
    return _LateEm(lab)  # type: ignore[return-value]


@pytest.fixture
def mad_simulator(lab: Scenario) -> ScenarioSimulator:
    """A scripted Ethernet Manager instead of the real one: `await mad_simulator.configure(h1, vesw_id=2)`."""
    return lab.mad_simulator


class _LateEm:
    """A proxy of `lab.em`, which exists only once the event loop runs."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario

    def __getattr__(self, name: str) -> Any:
        return getattr(self._scenario.em, name)


def _make(request: pytest.FixtureRequest, engine: EngineFactory) -> Scenario:
    """Build the scenario that the markers of a test ask for; a mistake in them fails the test with one line."""
    from hfi_sim.clock import ManualClock
    from hfi_sim.errors import HfiSimError
    from hfi_sim.topology import generate
    from opavnic.pytest_markers import MarkerError, fabric_options, line_of, seed, shape
    from opavnic.scenario import Scenario

    __tracebackhide__ = True
    node = request.node
    marker = "topology"
    is_coroutine = _is_coroutine(node)
    try:
        topology = generate(**shape(node))
        marker = "fabric_seed"
        number = seed(node, request.config.getoption("--fabric-seed"))
        marker = "fabric_options"
        options = fabric_options(node)
        by_hand = "mad_simulator" in request.fixturenames
        if by_hand and "em" in request.fixturenames:
            marker = ""
            raise MarkerError(
                "em and mad_simulator: a fabric has one manager; use em, or mad_simulator instead "
                "(lab.stand_in(host) simulates an agent together with em)"
            )
        return Scenario(
            topology,
            seed=number,
            clock=None if is_coroutine else ManualClock(),
            engine=engine,
            real=bool(request.config.getoption("--fabric-real")) and is_coroutine,
            manager="simulator" if by_hand else "em",
            **options,
        )
    except HfiSimError as error:
        problem = f"{line_of(node, marker)}: {error}"
    pytest.fail(problem, pytrace=False)  # behind `except`, or pytest would show the error as well


def _limits(node: pytest.Item) -> TimeLimits:
    """Return the limits of a test: of its nearest marker, else of the ini file."""
    from opavnic.pytest_markers import MarkerError, line_of, time_limits

    try:
        return time_limits(node)
    except MarkerError as error:
        problem = f"{line_of(node, 'fabric_time_limit')}: {error}"
    pytest.fail(problem, pytrace=False)


def _inside(
    scenario: Scenario, limits: TimeLimits, function: Callable[..., Awaitable[None]]
) -> Callable[..., Awaitable[None]]:
    """Wrap a test so that the scenario starts before and is checked after it, in the test's own event loop.

    Fixtures run outside of virtual time, but timers must be started inside.
    """
    from opavnic.scenario.limits import Watch

    @functools.wraps(function)
    async def run(*args: Any, **kwargs: Any) -> None:
        __tracebackhide__ = True
        async with scenario, Watch(scenario, limits):
            await function(*args, **kwargs)

    return run


# --- reports -----------------------------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the seed, the timeline and the path of the packet file to the report of a failed test."""
    report = yield
    scenario = item.stash.get(_SCENARIO, None)
    if scenario is None or call.when == "setup":
        return report
    wanted = item.config.getoption("--fabric-pcap")
    if call.when == "call":
        failed = report.failed
        path = None
        if wanted == "always" or (wanted == "failed" and failed):
            path = _write_packets(item, scenario)
        trace_file = item.config.getoption("--fabric-trace")
        if trace_file is not None:
            with trace_file.open("a", encoding="utf-8") as file:
                file.write(f"{scenario.trace.fingerprint} {scenario.trace.packets} {item.nodeid}\n")
        if failed:
            engine = item.config.getoption("--fabric-engine")
            again = f"pytest {item.nodeid!r} --fabric-seed={scenario.seed}"
            again += "" if engine == "python" else f" --fabric-engine={engine}"
            lines = [f"seed {scenario.seed}; to repeat: {again}"]
            lines += [f"packets: {path}"] if path is not None else []
            if item.config.getoption("--fabric-report"):
                lines.append(f"report: {_write_report(item, scenario, report, again)}")
            lines += [
                f"faults: {row['fault']} ({row['state']}, {row['hits']} hits)" for row in scenario.fault_log
            ]
            lines += _drop_lines(scenario)
            report.sections.append(("fabric", "\n".join(lines)))
            report.sections.append(("fabric timeline", scenario.timeline.text()))
    return report


def _drop_lines(scenario: Scenario) -> list[str]:
    drops = scenario.fabric.drops()
    worst = sorted(drops, key=lambda name: -sum(drops[name].values()))
    lines = [f"drops: {name}: {drops[name]}" for name in worst[:_SHOWN]]
    return lines if len(worst) <= _SHOWN else [*lines, f"drops: and at {len(worst) - _SHOWN} more elements"]


def _write_packets(item: pytest.Item, scenario: Scenario) -> Path:
    path = _artefact(item, ".pcapng")
    scenario.write_pcapng(path)
    return path


def _write_report(item: pytest.Item, scenario: Scenario, report: pytest.TestReport, again: str) -> Path:
    from opavnic.scenario.report import html_report

    path = _artefact(item, ".html")
    path.write_text(
        html_report(scenario, item.nodeid, report.outcome, report.longreprtext, again), encoding="utf-8"
    )
    return path


def _artefact(item: pytest.Item, suffix: str) -> Path:
    """Return the path of a file about a test; its directory exists."""
    directory = Path(item.config.rootpath, ".fabric")
    directory.mkdir(exist_ok=True)
    return directory / (re.sub(r"[^\w.-]+", "_", item.nodeid) + suffix)
