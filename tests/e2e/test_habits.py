"""A lab as a person asks about it: check, status on a terminal of 80 columns, save, completion."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from fcntl import ioctl
from pathlib import Path

import pytest
import yaml

from e2e.conftest import Program
from program import ok, run_program, started

ROOT = Path(__file__).parents[2]
LIMIT_S = 60.0
COLORS = re.compile(r"\x1b\[[0-9;]*m")
TREE = """
name: habits-tree
fabric: {topology: {kind: fat-tree, k: 4}}
hosts: {h1: {}, h2: {}, h3: {}, h4: {}}
vesws:
  - {id: 2, name: blue, pkey: 0x8002, subnet: 10.9.2.0/24, members: [h1, h2, h3]}
  - {id: 3, name: red, pkey: 0x8003, mtu: 9000, subnet: 10.9.3.0/24, members: [h3, h4]}
"""


@pytest.fixture(scope="module")
def lab(opavnic_of_module: Program) -> Program:
    """The program beside a lab that is as before after each test."""
    opavnic_of_module.up(TREE)
    return opavnic_of_module


def on_terminal(lab: Program, *words: str) -> list[str]:
    """Return what a command shows on a terminal of 80 columns."""
    master, slave = pty.openpty()
    ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    plain = {
        name: text for name, text in lab.environment.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")
    }
    ends = {"stdin": slave, "stdout": slave, "stderr": slave}
    with started(words, env={**plain, "TERM": "xterm"}, **ends) as process:
        os.close(slave)
        shown = b""
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline and select.select([master], [], [], LIMIT_S)[0]:
            try:
                shown += os.read(master, 1 << 16)
            except OSError:  # the last of its ends is closed
                break
        assert process.wait(LIMIT_S) == 0
    os.close(master)
    return shown.decode().replace("\r\n", "\n").splitlines()


def test_status_fits_80_columns_and_keeps_addresses_whole(lab: Program) -> None:
    lines = [COLORS.sub("", line) for line in on_terminal(lab, "status")]
    assert max(map(len, lines)) <= 80
    vnics = [line for line in lines if re.match(r"h\d ", line)]
    assert len(vnics) == 5
    assert all(re.search(r" [0-9a-f:]{17} ", line) and line.rstrip().endswith(" up") for line in vnics)


@pytest.mark.parametrize("words", ["em show vports", "em show vesws", "mad get 0x11 --lid 2"])
def test_tables_fit_80_columns(words: str, lab: Program) -> None:
    assert max(len(COLORS.sub("", line)) for line in on_terminal(lab, *words.split())) <= 80


def test_output_in_a_pipe_is_plain_text(lab: Program) -> None:
    for words in ("status", "topo"):
        shown = lab.ok(*words.split())
        assert shown.isascii()
        assert "\x1b" not in shown
        assert [line for line in shown.splitlines() if line != line.rstrip()] == []


def test_check_finds_that_everybody_reaches_everybody_of_its_own(lab: Program) -> None:
    found = lab.data("check")
    assert found["ok"] is found["isolated"] is found["oversize_refused"] is True
    assert found["failures"] == []
    pairs = {(one["vesw"], one["from"], one["to"]) for one in found["pairs"]}
    assert pairs == {
        *(("blue", a, b) for a in ("h1", "h2", "h3") for b in ("h1", "h2", "h3") if a != b),
        ("red", "h3", "h4"),
        ("red", "h4", "h3"),
    }
    assert all(one["ipv4"] and one["ipv6"] and one["mtu"] for one in found["pairs"])


def test_check_finds_what_is_cut_off_and_fails(lab: Program) -> None:
    lab.ok("fault", "add", "loss", "on", "h1", "100%", "l4=ethernet")
    try:
        # the others answer in that time, however busy the machine is
        found = json.loads(lab("check", "--json", "--timeout", "2s").stdout)
        assert {one["from"] for one in found["failures"]} | {one["to"] for one in found["failures"]} >= {"h1"}
        assert all("h1" in (one["from"], one["to"]) for one in found["failures"])
        links = lab.ok("status").split("dropped at", 1)[1]
        assert "link_fault" in links
    finally:
        lab.ok("fault", "clear")


def test_check_is_a_job_of_the_lab_and_ctrl_c_cancels_it(lab: Program) -> None:
    with lab.started("check", "--timeout", "30s", stdout=-1, stderr=-1) as process:
        job = None
        while job is None or not job["total"]:
            jobs = lab.data("job", "list")["jobs"]
            job = next((one for one in jobs if one["name"] == "check" and one["phase"] == "working"), None)
        assert job["can_cancel"]
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, said.splitlines()[-1]) == (
        130,
        "opavnic: interrupted; check was cancelled, nothing was changed",
    )
    assert lab.ok("job", "wait", 1).startswith("up: done in ")


def test_state_that_is_saved_comes_up_again(opavnic: Program, tmp_path: Path) -> None:
    changed, saved = tmp_path / "em.yaml", tmp_path / "saved.yaml"
    blue = {"id": 2, "name": "blue", "pkey": 0x8002, "mtu": 2000, "members": ["h1", "h2"]}
    red = {"id": 3, "name": "red", "pkey": 0x8003, "mtu": 9000, "members": ["h3", "h4"]}
    config = {"fabric": {"id": 1}, "mac": "locally-administered", "vesws": [blue, red]}
    changed.write_text(yaml.safe_dump(config))
    opavnic.up(TREE.replace("habits-tree", "habits-saved"))
    opavnic.ok("em", "apply", changed)
    opavnic.ok("fault", "add", "delay", "on", "h1", "delay=5us")
    opavnic.ok("save", saved)
    opavnic.ok("down", "habits-saved")
    opavnic.ok("up", saved, "-d")
    assert opavnic.ok("save") == saved.read_text()
    vnics = [line.split(",") for line in opavnic.ok("status", "-o", "csv").splitlines()[1:5]]
    assert [row[0] + row[2] for row in vnics] == ["h1blue", "h2blue", "h3red", "h4red"]


@pytest.mark.parametrize(
    ("words", "found"),
    [("exec h", ["h1", "h2", "h3", "h4"]), ("status --lab hab", ["habits-tree"])],
)
def test_shell_completes_names_of_a_running_lab(words: str, found: list[str], lab: Program) -> None:
    line = f"opavnic {words}".split(" ")
    asking = {
        **lab.environment,
        "_OPAVNIC_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(line),
        "COMP_CWORD": str(len(line) - 1),
    }
    assert ok(run_program([], asking)).split() == found
