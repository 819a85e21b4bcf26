"""The pytest plugin: fabrics as fixtures, on virtual time, seeded, checked after each test.

Fixtures:  lab (everything in one object), fabric, hosts, em; or mad_simulator instead of em; fabric_engine.
Markers:   topology("clos", leaves=2, spines=2), fabric_seed(7), fabric_options(routing=..., flow=..., jitter_s=...).
Options:   --fabric-engine=python|native, --fabric-seed, --fabric-pcap=failed|always|never, --fabric-real.

A coroutine test that uses one of the fixtures runs on a virtual-time loop (looptime); with --fabric-real it runs on
the real one, over TAPs. A plain function gets a clock that only `lab.advance(ms(5))` moves.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from hfi_sim.engine.api import EngineFactory
    from hfi_sim.fabric import Fabric
    from opavnic.scenario import Hosts, Scenario, ScenarioEm, ScenarioSimulator

_FIXTURES: Final = frozenset({"lab", "fabric", "hosts", "em", "mad_simulator"})
_OPTIONS: Final = ("routing", "flow", "jitter_s", "fabric_id")
_DEFAULT_SEED: Final = 1
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


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers, and refuse an engine that cannot be had."""
    _engine(config)
    config.addinivalue_line(
        "markers", 'topology(kind, **numbers): the shape of the fabric, e.g. ("clos", spines=2)'
    )
    config.addinivalue_line("markers", "fabric_seed(n): the seed of this test's fabric")
    config.addinivalue_line("markers", f"fabric_options(**options): any of {', '.join(_OPTIONS)}")


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
    scenario = _make(request, fabric_engine)
    request.node.stash[_SCENARIO] = scenario
    if _is_coroutine(request.node):
        request.node.obj = _inside(scenario, request.node.obj)
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
    from hfi_sim.clock import ManualClock
    from hfi_sim.topology import generate
    from opavnic.scenario import Scenario

    node = request.node
    topology = generate(**_shape(node))
    options: dict[str, Any] = {}
    for options_marker in reversed(list(node.iter_markers("fabric_options"))):
        options.update(options_marker.kwargs)
    _check_options(options)
    by_hand = "mad_simulator" in request.fixturenames
    if by_hand and "em" in request.fixturenames:
        raise pytest.UsageError(
            "em and mad_simulator: a fabric has one manager; use em, or mad_simulator instead "
            "(lab.stand_in(host) simulates an agent together with em)"
        )
    is_coroutine = _is_coroutine(node)
    real = bool(request.config.getoption("--fabric-real")) and is_coroutine
    clock = None if is_coroutine else ManualClock()
    return Scenario(
        topology,
        seed=_seed(node, request.config),
        clock=clock,
        engine=engine,
        real=real,
        manager="simulator" if by_hand else "em",
        **options,
    )


def _seed(node: pytest.Item, config: pytest.Config) -> int:
    chosen = config.getoption("--fabric-seed")
    if chosen is not None:
        return int(chosen)
    marker = node.get_closest_marker("fabric_seed")
    if marker is None:
        return _DEFAULT_SEED
    if len(marker.args) != 1 or type(marker.args[0]) is not int or marker.kwargs:
        raise pytest.UsageError(f"{_text(marker)}: it takes one whole number, e.g. fabric_seed(7)")
    return int(marker.args[0])


def _shape(node: pytest.Item) -> dict[str, Any]:
    """Return the arguments for `generate` from the nearest marker."""
    marker = node.get_closest_marker("topology")
    if marker is None:
        return {"kind": "single-switch"}
    if len(marker.args) > 1 or (marker.args and "kind" in marker.kwargs):
        raise pytest.UsageError(
            f'{_text(marker)}: it takes one kind, and numbers by name, e.g. topology("clos", leaves=2, spines=2)'
        )
    if not marker.args and "kind" not in marker.kwargs:
        from hfi_sim.topology import GENERATORS

        raise pytest.UsageError(f"{_text(marker)}: the first argument is the kind: {', '.join(GENERATORS)}")
    if marker.kwargs.get("hosts") in (0, []):
        raise pytest.UsageError(f"{_text(marker)}: a scenario needs at least 1 host")
    return {"kind": marker.args[0], **marker.kwargs} if marker.args else dict(marker.kwargs)


def _check_options(options: dict[str, Any]) -> None:
    """Reject unknown options, and values that would fail far from the marker."""
    from hfi_sim.link.config import FlowControl
    from hfi_sim.subnet_manager import Routing

    kinds: dict[str, tuple[type[Any], ...]] = {
        "routing": (Routing, str),
        "flow": (FlowControl,),
        "jitter_s": (int, float),
        "fabric_id": (int,),
    }
    for name, value in options.items():
        if name not in _OPTIONS:
            raise pytest.UsageError(f"fabric_options: unknown option {name!r} (known: {', '.join(_OPTIONS)})")
        if not isinstance(value, kinds[name]):
            wanted = " or ".join(kind.__name__ for kind in kinds[name])
            raise pytest.UsageError(f"fabric_options: {name} is {value!r}; it is {wanted}")


def _text(marker: pytest.Mark) -> str:
    given = [repr(value) for value in marker.args]
    given += [f"{name}={value!r}" for name, value in marker.kwargs.items()]
    return f"{marker.name}({', '.join(given)})"


def _inside(scenario: Scenario, function: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    """Wrap a test so that the scenario starts before and is checked after it, in the test's own event loop.

    Fixtures run outside of virtual time, but timers must be started inside.
    """

    @functools.wraps(function)
    async def run(*args: Any, **kwargs: Any) -> None:
        async with scenario:
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
    directory = Path(item.config.rootpath, ".fabric")
    directory.mkdir(exist_ok=True)
    path = directory / (re.sub(r"[^\w.-]+", "_", item.nodeid) + ".pcapng")
    scenario.write_pcapng(path)
    return path
