"""The pages: every block of shell and Python on them is run, those of a page in one go, in order."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from permission import require
from tools.doc_blocks import ROOT, blocks, pages, script

TOOLS = {
    "pma.md": ["opainfo"],
    "omni-path.md": ["opafabricinfo"],
    "umad.md": ["ibstat"],
    "wire-16b.md": ["tshark"],
}
"""Programs that pages need beside those of every lab."""
SLOW = {
    "ejfat.md",
    "install.md",
    "index.md",
    "guests.md",
    "lnet.md",
    "em.md",
    "datapath.md",
    "omni-path.md",
    "pma.md",
    "umad.md",
    "vema.md",
}
"""Pages that `make test` leaves to `make test-slow`: each has a lab of its own."""
OWN_TESTS = {"tutorial-first-lab.md"}
"""tests/e2e/test_first_lab.py looks at what its commands print."""
APART = ("unshare", "--mount", "--propagation", "private", "sh", "-c")
OWN_NETNS = 'mkdir -p /run/netns && mount -t tmpfs tmpfs /run/netns && exec "$@"'
"""Pages name labs as readers may: their namespaces get a folder of their own."""
END = """end() { opavnic down >/dev/null 2>&1 || true; kill $(jobs -p) 2>/dev/null || true; }
trap end EXIT
"""
"""However a page ends, its lab does, in the namespaces where it runs."""


def shown(page: Path) -> list[object]:
    marks = [pytest.mark.slow] if page.name in SLOW else []
    return [pytest.param(page, id=page.name, marks=marks)]


WITH_BLOCKS = [
    param
    for page in pages()
    if page.name not in OWN_TESTS
    and any(not (block.not_run or block.is_scenario) for block in blocks(page.read_text(encoding="utf-8")))
    for param in shown(page)
]


def run_script(text: str, directory: Path) -> dict[str, str]:
    """Run a script where files of this repository seem to be; return what each block printed, by its number."""
    require(["unshare", "ip", "ping"])
    work = directory / "work"
    work.mkdir()
    for path in ROOT.iterdir():
        if not path.name.startswith("."):
            (work / path.name).symlink_to(path)
    environment = {**os.environ, "OPAVNIC_RUNTIME_DIR": str(directory / "run"), "COLUMNS": "100"}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    done = subprocess.run(
        [*APART, OWN_NETNS, "sh", "bash", "-eu", "-o", "pipefail", "-c", END + text],
        cwd=work, env=environment, capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-2000:]}"
    parts = (
        done.stdout.split("\n== ") if done.stdout.startswith("\n") else ("\n" + done.stdout).split("\n== ")
    )
    return dict(part.split("\n", 1) if "\n" in part else (part, "") for part in parts[1:])


@pytest.mark.parametrize("page", WITH_BLOCKS)
def test_every_block_of_the_page_runs(page: Path, tmp_path: Path) -> None:
    require(TOOLS.get(page.name, []))
    found = [
        block
        for block in blocks(page.read_text(encoding="utf-8"))
        if not (block.not_run or block.is_scenario)
    ]
    printed = run_script(script(found), tmp_path)
    assert len(printed) == len(found)
    assert not (tmp_path / "run").exists() or not list((tmp_path / "run").iterdir())
