"""What is wrong is said once; metrics; what systemd is told."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from opavnic.manager.routes_service import metrics_text
from opavnic.manager.run import AT_ONCE, Notifier, Reported
from opavnic.state.em import EmProgramState, EmState

STATE = EmState(
    role="standby",
    converged=False,
    trouble=["one"],
    vesws=1,
    vports=2,
    ports=3,
    silent=["h1:1"],
    sets=12345678,
)
PROGRAM = EmProgramState(
    pid=1, version='0 "1"', device="/dev/infiniband/umad0", port="hfi1_0:1", guid="0x1", state="ACTIVE", lid=2,
    sm_lid=1, pkey=0xFFFF, config="f", database="d", only=[], started_at=1.5, mads_sent=4, mads_received=5,
    mads_timed_out=6, mads_foreign=7, device_silent_s=0.25,
)  # fmt: skip


def test_line_is_said_when_it_begins_and_when_it_has_ended() -> None:
    said = Reported()
    assert said.news(["a", "b"]) == (["a", "b"], [])
    assert said.news(["b", "a"]) == ([], [])
    assert said.news(["b", "c"]) == (["c"], ["a"])
    assert said.news([]) == ([], ["b", "c"])


def test_many_lines_at_a_time_are_counted() -> None:
    begun, _ = Reported().news([str(n) for n in range(1000)])
    assert len(begun) == AT_ONCE + 1
    assert begun[-1].startswith(f"... and {1000 - AT_ONCE} more")


def test_metrics_are_read_by_prometheus() -> None:
    text = metrics_text(STATE.model_copy(update={"program": PROGRAM}))
    found = {
        sample.name: sample for family in text_string_to_metric_families(text) for sample in family.samples
    }
    assert found["opavnic_em_sets_total"].value == 12345678
    assert found["opavnic_em_master"].value == 0
    assert found["opavnic_em_device_silent_seconds"].value == 0.25
    assert found["opavnic_em_info"].labels["version"] == '0 "1"'
    assert metrics_text(STATE).count("# HELP") == 8


def test_systemd_is_told(tmp_path: Path) -> None:
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(str(path))
        heard.settimeout(5)
        told = Notifier(
            {"NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": "3000000", "WATCHDOG_PID": str(os.getpid())}
        )
        told.ready("master")
        told.alive("master, converged")
        told.stopping()
        assert [heard.recv(999) for _ in range(3)] == [
            b"READY=1\nSTATUS=master",
            b"WATCHDOG=1\nSTATUS=master, converged",
            b"STOPPING=1",
        ]
    assert told.watchdog_s == 3.0
    told.alive("nobody hears it any more")


def test_without_systemd_nobody_is_told() -> None:
    told = Notifier({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "1"})
    assert told.watchdog_s is None
    told.ready("x")
