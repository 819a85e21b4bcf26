"""What e2e tests share: the right to run, namespaces of their own, the program in a directory of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from opavnic.lab.errors import PrivilegeError
from opavnic.lab.namespaces import NETNS_DIR, create_namespace, end_programs, remove_namespace
from opavnic.lab.privileges import check_tun, has_capabilities

PROGRAMS = ("ip", "ping", "tcpdump")


def why_not() -> str | None:
    """Return what e2e tests miss here, or None."""
    try:
        check_tun()
    except PrivilegeError as error:
        return str(error)
    if not has_capabilities():
        return "no CAP_NET_ADMIN and CAP_SYS_ADMIN: run the tests as root"
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    return f"not installed: {', '.join(missing)} (make deps)" if missing else None


@pytest.fixture(autouse=True)
def _permitted() -> None:
    reason = why_not()
    if reason is None:
        return
    if os.environ.get("OPAVNIC_REQUIRE_E2E") == "1":
        pytest.fail(f"e2e tests are required here and cannot run: {reason}")
    pytest.skip(reason)


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
