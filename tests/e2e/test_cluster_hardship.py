"""What goes wrong with machines of a cluster, as their users notice it: full disks, stops, wrong names, clocks."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from opavnic_bench.base.running_lab import OWN
from opavnic_bench.base.sites import until
from opavnic_bench.cluster.machines import BenchCluster, cluster, machines
from processes import child

LAB = {
    "name": "hardship",
    "fabric": {"topology": {"kind": "clos", "leaves": 2, "spines": 1, "hosts_per_leaf": 1}},
    "hosts": 2,
    "vesws": [{"id": 2, "name": "blue", "subnet": "10.9.2.0/24", "members": "all"}],
}
H2 = "10.9.2.2"
PATIENCE_S = 60.0
"""Seconds for what comes true by itself; ends as it does. A busy machine is slow to notice, and to answer."""
pytestmark = pytest.mark.slow

OF_ANOTHER_VERSION = """
import opavnic.cluster.protocol.frames as frames
frames.PROTOCOL += 1
from opavnic.cli.main import main
raise SystemExit(main())
"""
FAR_CLOCK = """
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#define AHEAD 7200
int clock_gettime(clockid_t id, struct timespec *at) {
    int failed = syscall(SYS_clock_gettime, id, at);
    if (!failed && id == CLOCK_REALTIME) at->tv_sec += AHEAD;
    return failed;
}
int gettimeofday(struct timeval *at, void *zone) {
    int failed = syscall(SYS_gettimeofday, at, zone);
    if (!failed) at->tv_sec += AHEAD;
    return failed;
}
time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
"""
"""A machine whose clock is two hours ahead, for the processes that load this."""


@pytest.fixture
def running() -> Iterator[BenchCluster]:
    with machines(2) as found, cluster(found, LAB) as up:
        yield up


def reaches(up: BenchCluster) -> bool:
    words = ["ip", "netns", "exec", up.namespace("h1"), "ping", "-c1", "-W1", H2]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


def refusal(up: BenchCluster, machine: str, *words: str, program: Sequence[str] = OWN) -> str:
    """Start another process on a machine, which is to be refused; return the line that says why."""
    command = up.machines.command(machine, *program, *words)
    environment = {
        **up.machines.environment(machine),
        "OPAVNIC_RUNTIME_DIR": str(up.machines.directory / "other"),
    }
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode != 0, done.stdout
    [line] = [line for line in done.stderr.splitlines() if line.startswith("opavnic: ")]
    return line


def test_machine_that_may_not_join_is_told_why_in_one_line(running: BenchCluster) -> None:
    directory, address = running.machines.directory, running.machines.address("m1")
    join = ("--join", f"tls/{address}:7447", "--credentials", str(directory / "ca" / "m2"))
    assert "node m2: the fabric has a node of this name already" in refusal(running, "m2", "node", *join)
    other = directory / "other.yaml"
    other.write_text(json.dumps({**LAB, "name": "another"}))
    assert "brings another lab file" in refusal(running, "m2", "node", str(other), *join)
    program = [sys.executable, "-c", OF_ANOTHER_VERSION]
    said = refusal(running, "m2", "node", *join, program=program)
    assert re.search(
        r"version \d+ of the protocol, this node version \d+: install the same opavnic on both", said
    )
    until(lambda: reaches(running), "h1 does not reach h2", limit_s=PATIENCE_S)


def test_machine_that_is_stopped_for_a_while_comes_back_with_nothing_lost_or_twice(
    running: BenchCluster,
) -> None:
    before = {host["name"]: host["lid"] for host in running.status("m1")["hosts"]}
    os.kill(running.processes["m2"].pid, signal.SIGSTOP)
    try:
        until(
            lambda: running.status("m1")["cluster"]["there"] == ["m1"],
            "m1 has not noticed that m2 says nothing",
            limit_s=PATIENCE_S,
        )
        status = running.status("m1")
        assert status["cluster"]["machines"]["m2"] is None
        assert not reaches(running)
    finally:
        os.kill(running.processes["m2"].pid, signal.SIGCONT)
    until(lambda: reaches(running), f"h2 is not back: {running.said('m2')[-500:]}", limit_s=PATIENCE_S)
    assert {host["name"]: host["lid"] for host in running.status("m1")["hosts"]} == before
    until(lambda: not running.unaccounted(), "frames are unaccounted for", pause_s=0.3, limit_s=PATIENCE_S)


def fill(place: Path) -> None:
    """Leave no room in a directory."""
    with contextlib.suppress(OSError), (place / "filler").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def test_machine_without_room_on_its_disk_carries_on(tmp_path: Path) -> None:
    """The state of a machine is in its runtime directory: the log stops there, the fabric does not."""
    with machines(2) as found:
        small = found.directory / "run" / "m2"
        small.mkdir(parents=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k,mode=700", "tmpfs", str(small)], check=True)
        try:
            with cluster(found, LAB) as up:
                fill(small)
                up.opavnic("m1", "fault", "add", "link-down", "on", "h2")
                until(lambda: not reaches(up), "the fault does not act", limit_s=PATIENCE_S)
                up.opavnic("m1", "fault", "clear")
                until(lambda: reaches(up), "h2 is not back", limit_s=PATIENCE_S)
                assert {host["name"] for host in up.status("m2")["hosts"]} == {"h1", "h2"}
                assert "h2" in up.opavnic("m1", "exec", "h2", "--", "hostname")
        finally:
            subprocess.run(["umount", str(small)], check=True)
    assert not Path(f"/run/netns/opavnic-{LAB['name']}-h2").exists(), "what it made was removed all the same"


@pytest.fixture
def far_clock(tmp_path: Path) -> Path:
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    (tmp_path / "clock.c").write_text(FAR_CLOCK)
    library = tmp_path / "clock.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, tmp_path / "clock.c"], check=True)
    return library


def captured_on_both(up: BenchCluster, file: Path, environment: dict[str, str]) -> list[dict[str, Any]]:
    """Capture on all machines while h1 pings h2, until packets of the cables of both have come; return all of them.

    Which come first is not said: the kernels of the hosts send some of their own, and captures begin one by one.
    """
    command = up.machines.command("m1", *OWN, "capture", "l4=ethernet", "--json")
    with file.open("w") as out, child(command, env=environment, stdout=out) as capture:

        def has_both() -> bool:
            text = file.read_text()
            return reaches(up) and '"h1:1->' in text and '"h2:1->' in text

        until(has_both, "no packets of both machines", limit_s=PATIENCE_S)
        capture.send_signal(signal.SIGINT)
        assert capture.wait(60) == 0
    return [row for row in map(json.loads, file.read_text().splitlines()) if "link" in row]


def test_machine_whose_clock_is_wrong_joins_and_captures_have_one_time(
    far_clock: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with machines(2) as found:
        plain = found.environment

        def environment(name: str) -> dict[str, str]:
            return {**plain(name), **({"LD_PRELOAD": str(far_clock)} if name == "m2" else {})}

        monkeypatch.setattr(type(found), "environment", lambda _self, name: environment(name))
        with cluster(found, LAB) as up:
            until(lambda: reaches(up), "h1 does not reach h2", limit_s=PATIENCE_S)
            # the way to a machine is measured beside all else, after it has joined
            until(
                lambda: "m2" in up.status("m1")["cluster"]["clocks"],
                "no clock of m2",
                limit_s=PATIENCE_S,
            )
            assert 7190 < up.status("m1")["cluster"]["clocks"]["m2"] < 7210
            until(lambda: "the clock of m2 is" in up.said("m1"), "nobody is told", limit_s=PATIENCE_S)
            assert re.search(r"the clock of m2 is 7(199|200)\.\d s ahead of this one's", up.said("m1"))
            packets = captured_on_both(up, tmp_path / "capture.json", plain("m1"))
            times = [packet["time"] for packet in packets]
            assert max(times) - min(times) < 60
