"""What e2e tests share: the right to run, namespaces of their own, the program in a directory of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from opavnic.lab.namespaces import NETNS_DIR, create_namespace, end_programs, remove_namespace
from permission import require

PROGRAMS = ("ip", "ping", "tcpdump")


@pytest.fixture(autouse=True)
def _permitted() -> None:
    require(PROGRAMS)


@pytest.fixture
def namespace(_permitted: None) -> Iterator[Path]:
    """A network namespace that exists as long as the test."""
    path = NETNS_DIR / f"opavnic-test-{os.getpid()}"
    identity = create_namespace(path, lambda _: None)
    yield path
    end_programs([identity])
    assert remove_namespace(path, identity)


Program = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def opavnic(_permitted: None, tmp_path: Path) -> Iterator[Program]:
    """The program, with a runtime directory of its own; what a test leaves running is ended and removed."""
    environment = {**os.environ, "OPAVNIC_RUNTIME_DIR": str(tmp_path / "run")}

    def run(*arguments: str | Path, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "opavnic.cli.main", *map(str, arguments)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    yield run
    for line in run("ps", "--json").stdout.splitlines():
        if '"lab"' in line:
            run("down", line.split('"')[3])
    run("prune")
