"""Labs of strangers on the machine: what they may do stays in namespaces without privilege, also once they run."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.conftest import Program
from e2e.nobody import OPEN_TUN, Nobody, nobody
from opavnic.lab.untrusted.checked_file import LAB_MEMORY
from program import ok

FORWARD = Path("/proc/sys/net/ipv4/ip_forward")


def lab(name: str, h1: str = "") -> str:
    return (
        f"name: {name}\nhosts: {{h1: {{{h1}}}, h2: {{}}}}\n"
        "vesws: [{id: 2, name: blue, subnet: 10.9.2.0/24, members: [h1, h2]}]\n"
    )


@pytest.fixture
def name() -> str:
    return f"stranger{os.getpid()}"


@pytest.fixture
def user(_permitted: None, tmp_path: Path, name: str) -> Iterator[Nobody]:
    with nobody(name, tmp_path, OPEN_TUN) as user:
        yield user


@pytest.fixture
def file(name: str) -> Iterator[Path]:
    file = Path("/tmp") / f"{name}.yaml"  # noqa: S108 - pytest's own directory is closed to others
    yield file
    file.unlink()


def test_lab_of_a_stranger_has_no_privilege_outside_and_no_change_brings_a_program(
    user: Nobody, file: Path, name: str
) -> None:
    before = FORWARD.read_text()
    file.write_text(lab(name, "sysctls: {net.ipv4.ip_forward: 1}"))
    ok(user("up", "--untrusted", file, "-d"))
    assert user("exec", "h1", "--", "ping", "-c1", "-W9", "10.9.2.2").returncode == 0
    forward, ids = user("exec", "h1", "--", "cat", FORWARD, "/proc/self/uid_map").stdout.splitlines()
    assert (forward, ids.split()) == ("1", ["0", "65534", "1"])
    assert FORWARD.read_text() == before
    for attack in ("echo 1 >/proc/sys/kernel/core_uses_pid", "mknod /tmp/n c 1 3", "cat /etc/shadow"):
        assert user("exec", "h1", "--", "sh", "-c", attack).returncode, attack
    (running,) = json.loads(user("ps", "--json").stdout)
    assert f"Max data size             {LAB_MEMORY}" in Path(f"/proc/{running['pid']}/limits").read_text()

    owned = file.with_suffix(".owned")
    file.write_text(lab(name, f"exec: [touch {owned}]"))
    for command in (("apply", file), ("host", "add", "h9", f"{{exec: ['touch {owned}']}}")):
        changed = user(*command)
        assert changed.returncode == 2, changed.stdout
        assert ".exec: refused with --untrusted: it runs programs on this machine" in changed.stderr
    ok(user("host", "add", "h9", "--vesw", "blue"))
    assert not owned.exists()


def test_lab_of_a_stranger_that_is_refused_leaves_no_trace(user: Nobody, file: Path, name: str) -> None:
    owned = file.with_suffix(".owned")
    file.write_text(lab(name, f"exec: [touch {owned}]"))
    up = user("up", "--untrusted", file, "-d")
    assert (up.returncode, up.stdout, owned.exists()) == (2, "", False)
    assert (
        up.stderr == f"{file}:2: hosts.h1.exec: refused with --untrusted: it runs programs on this machine\n"
    )
    assert not user.root.exists()


def test_root_is_refused(opavnic: Program, file: Path, name: str) -> None:
    file.write_text(lab(name))
    up = opavnic("up", "--untrusted", file, "-d")
    assert (up.returncode, "runs as an ordinary user" in up.stderr) == (1, True)
