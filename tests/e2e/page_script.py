"""Scripts made of a page's blocks: each runs where nothing of it can meet another's lab, or outlive it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

from permission import require
from processes import child
from tools.doc_blocks import ROOT

TIMEOUT_S: Final = 240.0
_APART: Final = [
    "unshare",
    "--mount",
    "--propagation",
    "private",
    "--net",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
]
"""A lab's processes leave the group and the session of the script that starts it; its process namespace they cannot."""
_PREPARE: Final = 'mkdir -p /run/netns && mount -t tmpfs tmpfs /run/netns && ip link set lo up && exec "$@"'
"""Pages name labs, interfaces and ports as readers may: they get a folder and a network of their own."""
_END: Final = """end() { opavnic down >/dev/null 2>&1 || true; kill $(jobs -p) 2>/dev/null || true; }
trap end EXIT
"""
"""However a page ends, its lab does, in the namespaces where it runs."""
_BLOCK: Final = re.compile(r"^== (\d+)$\n?", re.M)


def run_script(text: str, directory: Path, *, rootless: bool = False) -> dict[int, str]:
    """Run a script where files of this repository seem to be; return what each block printed, by its number.

    It reads nothing and writes to files: a program that it leaves in the background keeps neither a terminal nor a pipe
    of the test's. A script that does not end is killed with all that it started.

    Args:  text: of a script that prints `== NUMBER` before each block. directory: an empty one. rootless: in a user
           namespace, where root has no privilege on the machine.
    """
    require(["unshare", "ip", "ping"])
    work, said, complained = directory / "work", directory / "stdout", directory / "stderr"
    work.mkdir()
    for path in ROOT.iterdir():
        if not path.name.startswith("."):
            (work / path.name).symlink_to(path)
    environment = {**os.environ, "OPAVNIC_RUNTIME_DIR": str(directory / "run"), "COLUMNS": "100"}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    apart = [*_APART, "--user", "--map-root-user"] if rootless else _APART
    command = [*apart, "sh", "-c", _PREPARE, "sh", "bash", "-eu", "-o", "pipefail", "-c", _END + text]
    with (
        said.open("w") as stdout,
        complained.open("w") as stderr,
        child(
            command, cwd=work, env=environment, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr,
            start_new_session=True,
        ) as process,
    ):  # fmt: skip
        try:
            outcome = f"exit status {process.wait(TIMEOUT_S)}"
        except subprocess.TimeoutExpired:
            outcome = f"not finished after {TIMEOUT_S:g} s"
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    printed = said.read_text(encoding="utf-8", errors="replace")
    assert outcome == "exit status 0", (
        f"{outcome}\n{printed[-3000:]}\n{complained.read_text(encoding='utf-8', errors='replace')[-2000:]}"
    )
    left = list((directory / "run").iterdir()) if (directory / "run").exists() else []
    assert not left, f"the script left {left}"
    _, *parts = _BLOCK.split(printed)
    return {int(number): text for number, text in zip(parts[::2], parts[1::2], strict=True)}
