"""`opavnic exec`: what the program finds when it starts."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
from types import SimpleNamespace
from pathlib import Path
from opavnic.lab.hosts.enter import become
from opavnic.lab.ownership.runtime import LabDir
journal = SimpleNamespace(lab="x", namespaces=[], guests=[], hosts=["me"], stopped=False)
become(LabDir(Path("/nowhere")), journal, "me", ["grep", "SigIgn", "/proc/self/status"])
"""


def test_program_on_a_host_starts_with_no_signal_ignored() -> None:
    started = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=30
    )
    ignored = int(started.stdout.split()[1], 16)
    assert not ignored & 1 << 12, "SIGPIPE is ignored: `yes | head` would complain"
    assert not ignored & 1 << 24, "SIGXFSZ is ignored"
