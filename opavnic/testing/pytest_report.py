"""What the report of a test says about its fabric: seed, faults, drops, timeline, the files with its packets."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from opavnic.scenario import Scenario

_SHOWN: Final = 16


def add_sections(item: pytest.Item, scenario: Scenario, report: pytest.TestReport, when: str) -> None:
    """Write the files that are wanted of a test, and add to its report what helps where it failed.

    Args:    when: setup, call or teardown.
    """
    wanted = item.config.getoption("--fabric-pcap")
    failed = report.failed
    path = None
    if (wanted == "always" and when == "call") or (wanted == "failed" and failed):
        path = _write_packets(item, scenario)
    trace_file = item.config.getoption("--fabric-trace")
    if trace_file is not None and when == "call":
        with trace_file.open("a", encoding="utf-8") as file:
            file.write(f"{scenario.trace.fingerprint} {scenario.trace.packets} {item.nodeid}\n")
    if not failed:
        return
    engine = item.config.getoption("--fabric-engine")
    again = f"pytest {item.nodeid!r} --fabric-seed={scenario.seed}"
    again += "" if engine == "python" else f" --fabric-engine={engine}"
    lines = [f"seed {scenario.seed}; to repeat: {again}"]
    lines += [f"packets: {path}"] if path is not None else []
    if item.config.getoption("--fabric-report"):
        lines.append(f"report: {_write_report(item, scenario, report, again)}")
    lines += [f"faults: {row['fault']} ({row['state']}, {row['hits']} hits)" for row in scenario.fault_log]
    lines += _drop_lines(scenario)
    report.sections.append(("fabric", "\n".join(lines)))
    report.sections.append(("fabric timeline", scenario.timeline.text()))


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
