"""What all tests share."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import threading
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from engine_twins import comparison_line
from native_module import BUILT, REQUIRED
from opavnic.datapath.selection import why_not_native
from opavnic.scenario.virtual import LOOP_OPTIONS

E2E = Path(__file__).with_name("e2e")

# A busy machine is not a failure: no example has a deadline. Examples are new each time, so that many runs see more of
# them, and a failure prints how to play it again. CI plays the same ones each time: what it says is about the change.
# A run of all tests takes a sample of each property; `make test-long` takes as many as hypothesis thinks right.
settings.register_profile(
    "opavnic",
    max_examples=25,
    deadline=None,
    derandomize="CI" in os.environ,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("hundred", settings.get_profile("opavnic"), max_examples=100)
settings.register_profile("many", settings.get_profile("opavnic"), max_examples=20_000)
settings.load_profile("opavnic")


def pytest_configure(config: pytest.Config) -> None:
    """End at once where the native module is required and missing: its tests would only be skipped."""
    if REQUIRED and not BUILT:
        raise pytest.UsageError(f"OPAVNIC_REQUIRE_NATIVE=1: {why_not_native()}")
    _begin_apart(config)
    # Suites that tests start would each parse all modules for constants that hypothesis may try.
    os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", str(config.rootpath / ".hypothesis"))
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGHUP):
            # In the background of a script, or under nohup, the tests go on as that asks. The programs that they start
            # are to hear these signals unless a test says otherwise (SIGINT_IGNORED in processes.py).
            if signal.getsignal(number) is signal.SIG_IGN:
                signal.signal(number, lambda *_: None)


def _begin_apart(config: pytest.Config) -> None:
    """Let each worker begin to collect at another place: what one has compiled and rewritten, the others find."""
    here = Path(__file__).parent
    if not hasattr(config, "workerinput") or [config.rootpath / place for place in config.args] != [here]:
        return
    folders = [at for at in here.iterdir() if at.name != "unit"] + list((here / "unit").iterdir())
    places = sorted(str(at) for at in folders if at.is_dir() or at.name.startswith("test_"))
    first = int(config.workerinput["workerid"][2:]) * len(places) // config.workerinput["workercount"]
    config.args = places[first:] + places[:first]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how much of what the engines did was compared."""
    line = comparison_line(terminalreporter.getreports(""))
    if line is not None:
        terminalreporter.write_line(line)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Keep what collection makes out of all searches for garbage: it is 660,000 objects, and it stays.

    What tests import and cache after that stays, too, and each full search goes through it: as often as Python does it
    by itself, that is a sixth of all that the tests compute. What counts objects searches for garbage itself.
    """
    gc.disable()  # collecting makes little of it
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(1400, 20, 20)
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what lies in e2e/ as such, and give parallel workers files of both kinds at any time.

    Before each step of virtual time looptime lets the loop run 42 times, for what other threads and processes may send.
    No test on virtual time waits for these, other than in an executor, which looptime waits for.
    """
    for item in items:
        if E2E in item.path.parents:
            item.add_marker(pytest.mark.e2e)
        if item.get_closest_marker("looptime") is not None:
            item.add_marker(pytest.mark.looptime(noop_cycles=LOOP_OPTIONS["noop_cycles"]))
    if hasattr(config, "workerinput"):
        items[:] = _spread(items)


def _spread(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the tests with the files of e2e/ spread evenly among the others, those with many tests first.

    The tests of e2e/ wait more than they compute, the others compute: beside each other they fill the processors. Short
    files at the end keep the workers even.
    """
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    order: list[tuple[float, Path]] = []
    for waits in (True, False):
        kind = [path for path in files if (E2E in path.parents) is waits]
        kind.sort(key=lambda path: (-len(files[path]), path))  # workers collect them in any order
        order += [(place / len(kind), path) for place, path in enumerate(kind)]
    return [item for _, path in sorted(order) for item in files[path]]


@pytest.fixture(scope="session", autouse=True)
def _no_implicit_event_loop() -> None:
    """Keep the virtual-time plugin from making a loop that nobody closes when it looks at synchronous tests."""
    asyncio.set_event_loop(None)


class _Heard(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@pytest.fixture(autouse=True)
def _no_core_fails(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test in which a core raised: its runner logs that, and everything else goes on without the core."""
    heard, logger = _Heard(), logging.getLogger("hfi_sim.base.core_runner")
    logger.addHandler(heard)
    yield
    logger.removeHandler(heard)
    if heard.lines and request.node.get_closest_marker("breaks_core") is None:
        pytest.fail("\n".join(heard.lines), pytrace=False)
