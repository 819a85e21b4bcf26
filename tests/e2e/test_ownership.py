"""What is a lab's and what is not, where Linux has given the number of a namespace to somebody else."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from e2e.conftest import Program
from e2e.nobody import OPEN_TUN, Nobody, nobody
from opavnic.lab.ownership.cleanup import prune
from opavnic.lab.ownership.identity import NamespaceId
from opavnic.lab.ownership.namespaces import (
    NETNS_DIR,
    create_namespace,
    end_programs,
    programs_in,
    remove_namespace,
)
from opavnic.lab.ownership.process import process_start_time, wait_if_killed
from opavnic.lab.ownership.runtime import Journal, LabDir, NamespaceEntry
from processes import child
from program import ok

TraceFunction = Callable[[FrameType, str, object], Any]
LAB = "name: {name}\nhosts: {{h1: {{}}, h2: {{}}}}\nvesws: [{{id: 2, name: blue, members: [h1, h2]}}]\n"


@contextlib.contextmanager
def program(*command: str, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """A program that runs, inside what `command` enters, until the context ends."""
    words = [*command, "sh", "-c", "echo on; exec sleep 1000"]
    with child(words, stdout=-1, **options) as process:
        assert process.stdout.readline() == "on\n"
        yield process


def journal_of(root: Path, lab: str) -> dict[str, Any]:
    return dict(json.loads((root / lab / "state.json").read_text()))


def rewrite(root: Path, lab: str, **changes: Any) -> None:
    """Change the journal of a killed lab, in place of an accident that no test can wait for."""
    journal = root / lab / "state.json"
    journal.write_text(json.dumps(journal_of(root, lab) | changes))


def with_inodes(journal: dict[str, Any], inodes: list[int]) -> list[dict[str, Any]]:
    return [entry | {"inode": inode} for entry, inode in zip(journal["namespaces"], inodes, strict=True)]


def kill(pid: int) -> None:
    start_time = process_start_time(pid)
    assert start_time is not None
    os.kill(pid, signal.SIGKILL)
    assert wait_if_killed(pid, start_time)


def inode(name: str) -> int:
    return (NETNS_DIR / name).stat().st_ino


def netns(verb: str, name: str) -> None:
    subprocess.run(["ip", "netns", verb, name], check=True)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return f"o{os.getpid()}-{abs(hash(request.node.name)) % 10000}"


@pytest.fixture
def killed(opavnic: Program, name: str) -> Iterator[str]:
    """A lab whose process was killed; what is still there of its names goes with the test."""
    opavnic.up(LAB.format(name=name))
    kill(journal_of(opavnic.root, name)["pid"])
    yield name
    for left in NETNS_DIR.glob(f"*{name}*"):
        subprocess.run(["ip", "netns", "delete", left.name], check=False)


@pytest.fixture
def replaced(killed: str, opavnic: Program) -> str:
    """A killed lab whose h1 somebody has deleted; another namespace, `theirs`, has its inode now."""
    netns("delete", f"opavnic-{killed}-h1")
    theirs = f"theirs-{killed}"
    netns("add", theirs)
    inodes = [inode(theirs), inode(f"opavnic-{killed}-h2")]
    rewrite(opavnic.root, killed, namespaces=with_inodes(journal_of(opavnic.root, killed), inodes))
    return theirs


def test_program_in_a_namespace_on_a_reused_inode_survives_prune(
    replaced: str, killed: str, opavnic: Program
) -> None:
    with (
        program("ip", "netns", "exec", replaced) as theirs,
        program("ip", "netns", "exec", f"opavnic-{killed}-h2") as own,
    ):
        planned = opavnic.ok("prune", "--dry-run")
        out = opavnic.ok("prune")
        assert theirs.poll() is None
        assert own.wait(60) == -signal.SIGTERM
        for text in (planned, out):
            assert f"(pid {theirs.pid})" not in text
            assert f"program sleep (pid {own.pid})" in text
            assert f"namespace opavnic-{killed}-h2" in text
    assert (NETNS_DIR / replaced).exists()
    assert not (NETNS_DIR / f"opavnic-{killed}-h2").exists()


def test_program_in_a_namespace_on_a_reused_inode_survives_the_next_up(
    replaced: str, killed: str, opavnic: Program
) -> None:
    with program("ip", "netns", "exec", replaced) as theirs:
        opavnic.ok("up", opavnic.directory / "lab.yaml", "-d")
        assert theirs.poll() is None
        opavnic.ok("down")
        assert theirs.poll() is None
    assert (NETNS_DIR / replaced).exists()


def test_name_made_again_by_somebody_else_is_left_alone_with_its_programs(
    killed: str, opavnic: Program
) -> None:
    theirs = f"opavnic-{killed}-h1"
    netns("delete", theirs)
    netns("add", theirs)
    inodes = [inode(theirs), inode(f"opavnic-{killed}-h2")]
    rewrite(opavnic.root, killed, namespaces=with_inodes(journal_of(opavnic.root, killed), inodes))
    with program("ip", "netns", "exec", theirs) as stranger:
        planned = opavnic.ok("prune", "--dry-run")
        out = opavnic.ok("prune")
        assert stranger.poll() is None
    for text in (planned, out):
        assert f"(left alone: namespace {theirs}, not of this lab)" in text
        assert "program" not in text
    assert inode(theirs) == inodes[0]


def test_journal_of_another_boot_touches_nothing_but_its_directory(killed: str, opavnic: Program) -> None:
    rewrite(opavnic.root, killed, boot="00000000-0000-4000-8000-000000000000")
    with program("ip", "netns", "exec", f"opavnic-{killed}-h1") as stranger:
        out = opavnic.ok("prune")
        assert stranger.poll() is None
    assert out == f"lab {killed} is gone, removed:\n  directory {opavnic.root / killed}\n"
    assert not (opavnic.root / killed).exists()
    assert (NETNS_DIR / f"opavnic-{killed}-h1").exists()


def test_name_made_again_while_the_lab_ends_is_not_called_its_leftover(opavnic: Program, name: str) -> None:
    opavnic.up(LAB.format(name=name))
    theirs = f"opavnic-{name}-h1"
    netns("delete", theirs)
    netns("add", theirs)
    try:
        with program("ip", "netns", "exec", theirs) as stranger:
            assert f"(left alone: namespace {theirs}, not of this lab)" in opavnic.ok("down")
            assert stranger.poll() is None
        assert (NETNS_DIR / theirs).exists()
    finally:
        netns("delete", theirs)


def test_journal_that_cannot_be_read_is_one_line_and_nothing_is_guessed(
    killed: str, opavnic: Program
) -> None:
    journal = opavnic.root / killed / "state.json"
    journal.write_text(journal.read_text()[:-40])
    for command in (("prune",), ("up", opavnic.directory / "lab.yaml", "-d"), ("down", killed)):
        done = opavnic(*command)
        assert done.returncode == 1
        assert done.stderr.count("\n") == 1
        assert f"{journal} is not a lab journal that this version can read" in done.stderr
    assert (NETNS_DIR / f"opavnic-{killed}-h1").exists()
    assert journal.exists()
    journal.unlink()  # so that what cleans up after the tests has nothing to complain about
    netns("delete", f"opavnic-{killed}-h1")
    netns("delete", f"opavnic-{killed}-h2")


def make_and_die(root: Path, name: str, lines: int) -> bool:
    """Make a namespace of a lab in a child that is killed before it has run so many lines; False once it lives."""
    child = os.fork()
    if child == 0:
        try:
            left = itertools.count(lines, -1)

            def trace(frame: FrameType, event: str, _: object) -> TraceFunction | None:
                if frame.f_code.co_name not in ("inside", "announce", "save"):
                    return None
                if event == "line" and next(left) == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return trace

            lab = LabDir(root / name)
            lab.acquire()
            journal = Journal(name, os.getpid(), process_start_time(os.getpid()) or 0)
            lab.save(journal)
            path = NETNS_DIR / f"opavnic-{name}-h1"

            def announce(identity: NamespaceId) -> None:
                journal.namespaces.append(NamespaceEntry.of("h1", path, identity))
                lab.save(journal)

            threading.settrace(trace)
            create_namespace(path, announce)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) == -signal.SIGKILL


@pytest.mark.usefixtures("_permitted")
@pytest.mark.parametrize("stranger", [False, True])
def test_namespace_whose_maker_was_killed_at_any_line_is_removed_and_no_other(
    tmp_path: Path, name: str, stranger: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "run"
    monkeypatch.setenv("OPAVNIC_RUNTIME_DIR", str(root))
    path = NETNS_DIR / f"opavnic-{name}-h1"
    NETNS_DIR.mkdir(exist_ok=True)
    died = taken = 0
    for lines in itertools.count():
        living = not make_and_die(root, name, lines)
        theirs = stranger and not path.exists()
        if theirs:  # somebody else takes the name that the journal has announced
            netns("add", path.name)
            taken += 1
        (removed,) = prune()
        assert (root / name).exists() is False
        if theirs:
            assert removed.namespaces == []
            netns("delete", path.name)  # it is still there
        assert not path.exists()
        if living:
            break
        died += 1
    assert died > 15
    assert taken > 5 or not stranger


@pytest.mark.usefixtures("_permitted")
def test_namespace_is_known_again_on_a_kernel_without_cookies(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opavnic.lab.ownership.identity._SO_NETNS_COOKIE", 0x7FFF)
    ours, theirs = NETNS_DIR / f"opavnic-{name}-h1", NETNS_DIR / f"theirs-{name}"
    identity = create_namespace(ours, lambda _: None)
    netns("add", theirs.name)
    try:
        assert identity.mark.startswith("alias ")
        stranger = NamespaceId(inode(theirs.name), identity.mark)
        assert not remove_namespace(theirs, stranger)
        with program("ip", "netns", "exec", theirs.name), program("ip", "netns", "exec", ours.name) as own:
            assert programs_in([stranger]) == []
            assert [one.pid for one in end_programs([identity])] == [own.pid]
        assert remove_namespace(ours, identity)
    finally:
        netns("delete", theirs.name)


# --- without privilege ---------------------------------------------------------------------------------------


@contextlib.contextmanager
def program_of(user: Nobody, lab: str, host: str) -> Iterator[subprocess.Popen[str]]:
    """A program that runs on a host until the context ends."""
    words = ["sh", "-c", "echo on; exec sleep 1000"]
    with user.started("exec", host, "--lab", lab, "--", *words, stdout=-1) as process:
        assert process.stdout.readline() == "on\n"
        yield process


@pytest.fixture
def user(_permitted: None, tmp_path: Path, name: str) -> Iterator[Nobody]:
    """A user without privilege."""
    with nobody(name, tmp_path, OPEN_TUN) as user:
        yield user


def up(user: Nobody, lab: str) -> dict[str, Any]:
    """Bring a lab up and return its journal."""
    file = Path("/tmp") / f"{lab}.yaml"  # noqa: S108
    file.write_text(LAB.format(name=lab))
    try:
        ok(user("up", file, "-d"))
    finally:
        file.unlink()
    return journal_of(user.root, lab)


def test_prune_without_privilege_spares_a_lab_on_the_same_inodes(user: Nobody, name: str) -> None:
    first = up(user, f"{name}a")
    kill(first["pid"])
    second = up(user, f"{name}b")
    inodes = [entry["inode"] for entry in second["namespaces"]]
    rewrite(user.root, f"{name}a", namespaces=with_inodes(first, inodes))
    with program_of(user, f"{name}b", "h1") as one, program_of(user, f"{name}b", "h2") as two:
        out = ok(user("prune"))
        assert (one.poll(), two.poll()) == (None, None)
    assert "program" not in out
    assert f"lab {name}a is gone" in out
    assert not (user.root / f"{name}a").exists()
    assert f'"{name}b"' in ok(user("status", "--json"))


@pytest.mark.parametrize("command", ["prune", "up"])
def test_programs_of_a_lab_killed_without_privilege_are_ended(user: Nobody, name: str, command: str) -> None:
    journal = up(user, name)
    with program_of(user, name, "h1") as one, program_of(user, name, "h2") as two:
        kill(journal["pid"])
        if command == "prune":
            out = ok(user("prune"))
            assert f"program sleep (pid {one.pid})" in out
            assert f"program sleep (pid {two.pid})" in out
        else:
            up(user, name)
        assert one.wait(60) == -signal.SIGTERM
        assert two.wait(60) == -signal.SIGTERM
