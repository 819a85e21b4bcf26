"""What e2e tests share: the right to run, namespaces of their own, the program in a directory of its own."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from e2e.web_view import CHROMIUM, chromium, opened, web_view
from opavnic.lab.ownership.namespaces import NETNS_DIR, create_namespace, end_programs, remove_namespace
from permission import require
from program import Forked, ok, run_program, started

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

PROGRAMS = ("ip", "ping", "tcpdump")
LIMIT_S = 120.0
"""For a command; a guard against hanging, not a measure."""


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


class Program:
    """The program, with a runtime directory of its own. Args: directory: where that directory and lab files are."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.root = directory, directory / "run"
        self.environment = {**os.environ, "OPAVNIC_RUNTIME_DIR": str(self.root)}

    def __call__(self, *words: object, timeout: float = LIMIT_S) -> subprocess.CompletedProcess[str]:
        return run_program([str(word) for word in words], self.environment, timeout=timeout)

    def ok(self, *words: object, timeout: float = LIMIT_S) -> str:
        """Return what a command prints that ends well."""
        return ok(self(*words, timeout=timeout))

    def on(self, host: str, *command: object, timeout: float = LIMIT_S) -> str:
        """Return what a program on a host prints that ends well."""
        return self.ok("exec", host, "--", *command, timeout=timeout)

    def data(self, *words: object, timeout: float = LIMIT_S) -> Any:
        """Return what a command that ends well says in JSON."""
        return json.loads(self.ok(*words, "--json", timeout=timeout))

    def up(self, text: str) -> Path:
        """Start the lab of a text in the background; return its file."""
        file = self.directory / "lab.yaml"
        file.write_text(text)
        self.ok("up", file, "-d")
        return file

    def started(self, *words: object, **options: Any) -> contextlib.AbstractContextManager[Forked]:
        """Run a command for as long as the context lasts; it is killed then."""
        return started([str(word) for word in words], env=self.environment, **options)


@contextlib.contextmanager
def program_in(directory: Path) -> Iterator[Program]:
    """The program with its files in a directory; what is left running is ended and removed."""
    run = Program(directory)
    try:
        yield run
    finally:
        for lab in sorted(run.root.iterdir()) if run.root.exists() else ():
            run("down", lab.name)
        if run.root.exists() and any(run.root.iterdir()):
            run("prune")


@pytest.fixture
def opavnic(_permitted: None, tmp_path: Path) -> Iterator[Program]:
    """The program, with a runtime directory of its own; what a test leaves running is ended and removed."""
    with program_in(tmp_path) as run:
        yield run


@pytest.fixture(scope="module")
def opavnic_of_module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """The program for a lab that the tests of a module share: they look at it and send over it, and change nothing."""
    require(PROGRAMS)
    with program_in(tmp_path_factory.mktemp("shared")) as run:
        yield run


@pytest.fixture(scope="module")
def browser() -> Iterator[BrowserContext]:
    """Debian's Chromium without a window."""
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def viewed(request: pytest.FixtureRequest, opavnic_of_module: Program) -> Program:
    """The program beside a lab whose pages the tests of a module look at: that of its LAB."""
    require([CHROMIUM])
    opavnic_of_module.up(request.module.LAB)
    return opavnic_of_module


@pytest.fixture(scope="module")
def url(viewed: Program) -> Iterator[str]:
    """Where the web view of that lab is served, with the token."""
    with web_view(viewed.root) as url:
        yield url


@pytest.fixture(scope="module")
def tab(request: pytest.FixtureRequest, url: str, browser: BrowserContext) -> Iterator[Page]:
    """A tab in which the view is open."""
    with opened(browser, url, yaml.safe_load(request.module.LAB)["name"]) as tab:
        yield tab
