"""The example that steers a running lab over its HTTP API moves real packets from spine to spine."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from e2e.conftest import Program

EXAMPLE = Path(__file__).parents[2] / "examples/own-fabric"


def test_a_program_of_a_few_lines_steers_a_running_lab(
    opavnic: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"steered{os.getpid()}"
    file = tmp_path / "clos.yaml"
    file.write_text((EXAMPLE / "clos.yaml").read_text().replace("name: steered", f"name: {name}"))
    opavnic.ok("up", file, "-d")
    opavnic.on("h1", "ping", "-c1", "-w20", "10.9.2.3")

    monkeypatch.setenv("OPAVNIC_RUNTIME_DIR", str(tmp_path / "run"))
    program = [sys.executable, EXAMPLE / "steer_lab.py", name, "h3", "4", "0.05"]
    steered = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)
    assert (steered.returncode, steered.stderr) == (0, "")
    ways = steered.stdout.splitlines()
    assert len(ways) == 4
    assert all(re.fullmatch(r"h1:1 -> leaf0:[34] -> spine[01]:2 -> leaf1:1 -> h3:1", way) for way in ways), (
        ways
    )

    lab = runpy.run_path(str(EXAMPLE / "steer_lab.py"))["Lab"](name)
    with closing(lab):
        for port in (3, 4, 3):
            assert lab.ask("/steering", {"ways": {"leaf0": {"h3": port}}}) == lab.ask("/steering")
            before = lab.uplinks("leaf0")
            opavnic.on("h1", "ping", "-c", "50", "-i", "0.002", "-s", "1000", "10.9.2.3")
            sent = {uplink: count - before[uplink] for uplink, count in lab.uplinks("leaf0").items()}
            assert sent[port] >= 50 * 1000
            assert sent[7 - port] < 50 * 500, "what is not for h3"
    refused = subprocess.run(
        [*program[:3], "h9", *program[4:]], capture_output=True, text=True, timeout=60, check=False
    )
    assert refused.returncode == 1
    assert refused.stderr.startswith('/steering: unknown host, HFI port or LID "h9"')
