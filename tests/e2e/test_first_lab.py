"""The tutorial of the first lab: every command on the page is run, in order."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "tutorial-first-lab.md"
OPAVNIC = f'opavnic() {{ "{sys.executable}" -m opavnic.cli.main "$@"; }}\n'
# The page names its lab `first`, as a reader's own lab may be named: its namespaces get a folder of their own.
APART = ("unshare", "--mount", "--propagation", "private", "sh", "-c")
OWN_NETNS = 'mkdir -p /run/netns && mount -t tmpfs tmpfs /run/netns && exec "$@"'


def test_every_command_of_the_first_lab_works(tmp_path: Path) -> None:
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(encoding="utf-8"), flags=re.M | re.S)
    assert len(blocks) == 9
    script = OPAVNIC + "".join(f"echo '== {number}'\n{block}" for number, block in enumerate(blocks))
    environment = {**os.environ, "OPAVNIC_RUNTIME_DIR": str(tmp_path / "run"), "COLUMNS": "100"}
    try:
        done = subprocess.run(
            [*APART, OWN_NETNS, "sh", "bash", "-eu", "-o", "pipefail", "-c", script],
            cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=280, check=False,
        )  # fmt: skip
    finally:
        for verb in ("down", "prune"):
            subprocess.run(
                [sys.executable, "-m", "opavnic.cli.main", verb],
                env=environment, capture_output=True, timeout=60, check=False,
            )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-2000:]}"
    printed = dict(part.split("\n", 1) for part in re.split(r"^== ", done.stdout, flags=re.M) if part.strip())
    assert "3 received" in printed["2"]
    assert len(printed["3"].splitlines()) == 4
    assert "vport-configured" in printed["4"]
    assert "red" in printed["5"]
    assert "h2 cannot be reached" in printed["7"]
    assert "link-down" in printed["7"]
    assert not list((tmp_path / "run").iterdir())
