"""What the report of a test says about its fabric: seed, faults, drops, timeline, the files with its packets."""

from __future__ import annotations

import contextlib
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

import pytest

if TYPE_CHECKING:
    from opavnic.scenario import Scenario


_SHOWN: Final = 16


def add_sections(item: pytest.Item, scenario: Scenario, report: pytest.TestReport, when: str) -> None:
    """Write the files that are wanted of a test, and add to its report what helps where it failed.

    Args:    when: setup, call or teardown.
    """
    failed = report.failed
    files = []
    if _wants(item, "--fabric-pcap", when, failed=failed):
        files.append(_made("packets", lambda: _write_packets(item, scenario)))
    trace_file = item.config.getoption("--fabric-trace")
    if trace_file is not None and when == "call":
        with trace_file.open("a", encoding="utf-8") as file:
            file.write(f"{scenario.trace.fingerprint} {scenario.trace.packets} {item.nodeid}\n")
    engine = item.config.getoption("--fabric-engine")
    again = f"pytest {item.nodeid!r} --fabric-seed={scenario.seed}"
    again += "" if engine == "python" else f" --fabric-engine={engine}"
    if _wants(item, "--fabric-report", when, failed=failed):
        files.append(_made("report", lambda: _write_report(item, scenario, report, again)))
    if not failed:
        if files:
            report.sections.append(("fabric", "\n".join(files)))
        return
    lines = [f"seed {scenario.seed}; to repeat: {again}", *files]
    lines += [f"faults: {row['fault']} ({row['state']}, {row['hits']} hits)" for row in scenario.fault_log]
    lines += _drop_lines(scenario)
    report.sections.append(("fabric", "\n".join(lines)))
    report.sections.append(("fabric timeline", scenario.timeline.text()))


def _wants(item: pytest.Item, option: str, when: str, *, failed: bool) -> bool:
    """Return whether a file is wanted of a test that has come so far. Args: option: failed, always or never."""
    wanted = item.config.getoption(option)
    return bool((wanted == "always" and when == "call") or (wanted != "never" and failed))


def _made(what: str, write: Callable[[], Path]) -> str:
    """Write a file about a test; return the line that names it, or says why there is none: pytest's report goes on."""
    try:
        return f"{what}: {write()}"
    except Exception as error:  # drawing code may raise any
        last = traceback.extract_tb(error.__traceback__)[-1]
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        return f"{what}: none, making it failed: {reason} ({Path(last.filename).name}:{last.lineno})"


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


_NEVER: Final = re.compile(r"coroutine '([\w.]+)' was never awaited")
_OURS: Final = "opavnic.scenario"


@contextlib.contextmanager
def forgotten_awaits(test: Path) -> Iterator[list[str]]:
    """Collect, a line each, the coroutines of scenarios that are never awaited in this context. Python only warns.

    Args:  test: the file of the test: only of that is the line known, where the coroutine was dropped at once.
    """
    found: list[str] = []
    with warnings.catch_warnings():
        warnings.filterwarnings("always", _NEVER.pattern, RuntimeWarning)
        show = warnings.showwarning

        def shown(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            match = _NEVER.match(str(message))
            if match is not None and _is_of_a_scenario(match[1]):
                call = match[1].rpartition(".")[2]
                place = f"{test.name}:{lineno}: " if Path(filename) == test else ""
                found.append(f"{place}{call}(...) was called and never awaited: write await {call}(...)")
            else:
                show(message, category, filename, lineno, file, line)

        warnings.showwarning = shown
        yield found


def _is_of_a_scenario(name: str) -> bool:
    """Return whether a coroutine is a method of a class of `opavnic.scenario`. Args: name: Class.method."""
    modules = [module for key, module in sys.modules.items() if key.startswith(_OURS)]
    first = name.partition(".")[0]
    return any(
        getattr(getattr(module, first, None), "__module__", "").startswith(_OURS) for module in modules
    )
