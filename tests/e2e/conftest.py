"""What e2e tests share: the right to run, namespaces of their own, the program in a directory of its own."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from e2e.web_view import chromium
from opavnic.lab.ownership.namespaces import NETNS_DIR, create_namespace, end_programs, remove_namespace
from permission import require
from program import run_program

if TYPE_CHECKING:
    import subprocess

    from playwright.sync_api import BrowserContext

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


@pytest.fixture(scope="module")
def browser() -> Iterator[BrowserContext]:
    """Debian's Chromium without a window."""
    with chromium() as browser:
        yield browser


Program = Callable[..., "subprocess.CompletedProcess[str]"]


@contextlib.contextmanager
def program_in(root: Path) -> Iterator[Program]:
    """The program with a runtime directory of its own; what is left running is ended and removed."""
    environment = {**os.environ, "OPAVNIC_RUNTIME_DIR": str(root)}

    def run(*arguments: str | Path, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        return run_program(arguments, environment, timeout=timeout)

    try:
        yield run
    finally:
        for lab in sorted(root.iterdir()) if root.exists() else ():
            run("down", lab.name)
        if root.exists() and any(root.iterdir()):
            run("prune")


@pytest.fixture
def opavnic(_permitted: None, tmp_path: Path) -> Iterator[Program]:
    """The program, with a runtime directory of its own; what a test leaves running is ended and removed."""
    with program_in(tmp_path / "run") as run:
        yield run


@pytest.fixture(scope="module")
def opavnic_of_module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """The program for a lab that the tests of a module share: they look at it and send over it, and change nothing."""
    require(PROGRAMS)
    with program_in(tmp_path_factory.mktemp("shared") / "run") as run:
        yield run
