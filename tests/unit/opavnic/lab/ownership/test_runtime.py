"""The journal and the directory of a lab: who holds it, what a dead one leaves, what is never touched."""

from __future__ import annotations

import errno
import json
import os
import socket
from dataclasses import asdict
from functools import partial
from pathlib import Path

import pytest

from opavnic.lab.file.errors import JournalError, LabError, LabRunningError, NoLabError
from opavnic.lab.ownership.cleanup import prune
from opavnic.lab.ownership.process import process_start_time
from opavnic.lab.ownership.runtime import (
    Journal,
    LabDir,
    NamespaceEntry,
    NetdevEntry,
    all_labs,
    running_lab,
    runtime_root,
)


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPAVNIC_RUNTIME_DIR", str(tmp_path / "run"))
    return tmp_path / "run"


def own_journal(lab: str) -> Journal:
    start = process_start_time(os.getpid())
    assert start is not None
    return Journal(lab, os.getpid(), start)


def test_journal_written_is_read_back_whole() -> None:
    lab = LabDir(runtime_root() / "x")
    lab.acquire()
    journal = own_journal("x")
    journal.namespaces.append(NamespaceEntry("h1", "/run/netns/opavnic-x-h1", 4026532177, "cookie 4711"))
    journal.netdevs.append(NetdevEntry("h1", "blue", "opavnic-x-h1"))
    lab.save(journal)
    assert lab.load() == journal
    assert sorted(path.name for path in lab.path.iterdir()) == ["state.json"]
    lab.release()


WHOLE = json.dumps(
    asdict(Journal("x", 1, 1, namespaces=[NamespaceEntry("h1", "/run/netns/opavnic-x-h1", 7, "cookie 9")]))
)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        "null",
        "[" * 100_000,
        '{"lab": "x", "namespaces": [{}], "netdevs": []}',
        WHOLE.replace('"boot": "', '"before": "'),
        WHOLE.replace('"pid": 1', '"pid": "../../etc"'),
        WHOLE.replace('"cookie 9"', '""'),
        WHOLE.replace('"mark"', '"remark"'),
        WHOLE.replace('"private"', '"more": 1, "private"'),
    ],
)
def test_journal_that_cannot_be_read_is_said_and_never_guessed_at(text: str, root: Path) -> None:
    assert Journal.from_json(WHOLE).lab == "x"
    (root / "x").mkdir(mode=0o700, parents=True)
    journal = root / "x" / "state.json"
    journal.write_text(text)
    line = (
        rf"^{journal} is not a lab journal that this version can read \(.+\), so what the lab has created is"
    )
    for refuse in (LabDir(root / "x").load, prune, partial(running_lab, None), partial(running_lab, "x")):
        with pytest.raises(LabError, match=line):
            refuse()
    assert journal.read_text() == text


@pytest.mark.parametrize("kind", ["pipe", "link", "directory"])
def test_journal_that_is_no_file_is_not_read(root: Path, kind: str) -> None:
    (root / "x").mkdir(mode=0o700, parents=True)
    journal = root / "x" / "state.json"
    if kind == "pipe":
        os.mkfifo(journal)
    elif kind == "link":
        (root / "true").write_text(WHOLE)
        journal.symlink_to(root / "true")
    else:
        journal.mkdir()
    with pytest.raises(JournalError, match="is not a lab journal"):
        LabDir(root / "x").load()


def test_log_that_is_no_file_is_not_read(root: Path) -> None:
    (root / "x").mkdir(mode=0o700, parents=True)
    os.mkfifo(root / "x" / "log")
    with pytest.raises(LabError, match=r"log is not a file of this user \(prw"):
        list(LabDir(root / "x").log_lines())


def test_lab_that_can_be_read_is_found_beside_one_that_cannot(root: Path) -> None:
    lab, damaged = LabDir(root / "a"), LabDir(root / "b")
    for one in (lab, damaged):
        one.acquire()
        one.save(own_journal(one.name))
        one.release()
    (damaged.path / "state.json").write_text("{")
    assert running_lab(None)[0].name == "a"
    assert running_lab("a")[0].name == "a"
    with pytest.raises(JournalError):
        running_lab("b")


def test_process_of_another_boot_is_not_the_lab() -> None:
    journal = own_journal("x")
    journal.boot = "00000000-0000-4000-8000-000000000000"
    assert not journal.alive


def test_directory_held_by_a_running_lab_is_refused_with_its_pid() -> None:
    first, second = LabDir(runtime_root() / "x"), LabDir(runtime_root() / "x")
    first.acquire()
    first.save(own_journal("x"))
    with pytest.raises(LabRunningError, match=rf"lab x is already running \(pid {os.getpid()}\)"):
        second.acquire()
    first.release()
    second.acquire()
    second.release()


def test_directory_open_to_others_is_left_alone(root: Path) -> None:
    root.mkdir()
    root.chmod(0o777)
    with pytest.raises(LabError, match="be closed to others"):
        LabDir(root / "x").acquire()


def test_directory_too_deep_for_a_socket_is_refused(root: Path) -> None:
    with pytest.raises(LabError, match="too long for a Unix socket"):
        LabDir(root / ("x" * 120)).acquire()


def test_running_lab_is_found_without_a_name_only_where_it_is_the_only_one() -> None:
    with pytest.raises(NoLabError, match="no lab is running; start one with: opavnic up FILE"):
        running_lab(None)
    labs = [LabDir(runtime_root() / name) for name in ("a", "b")]
    labs[0].acquire()
    labs[0].save(own_journal("a"))
    assert running_lab(None)[0].name == "a"
    labs[1].acquire()
    labs[1].save(own_journal("b"))
    with pytest.raises(NoLabError, match=r"2 labs are running \(a, b\); select one with --lab NAME"):
        running_lab(None)
    with pytest.raises(NoLabError, match=r'lab "c" is not running \(running: a, b\)'):
        running_lab("c")
    for lab in labs:
        lab.release()


def test_prune_removes_a_dead_lab_once_and_leaves_a_running_one(root: Path) -> None:
    alive, dead = LabDir(root / "alive"), LabDir(root / "dead")
    alive.acquire()
    alive.save(own_journal("alive"))
    dead.acquire()
    dead.save(Journal("dead", pid=2**22 + 1, start_time=1))
    dead.control_socket.touch()
    dead.release()
    assert [one.lab for one in prune(dry_run=True)] == ["dead"]
    assert dead.path.exists()
    assert [one.lines() for one in prune()] == [[f"directory {dead.path}"]]
    assert not dead.path.exists()
    assert prune() == []
    assert alive.load() is not None
    alive.release()


def test_prune_removes_what_parts_have_made(root: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text("a file of somebody")
    lab = dead_lab("x")
    (lab.parts / "deep").mkdir(parents=True)
    (lab.parts / "deep" / "file").write_text("")
    (lab.parts / "link").symlink_to(kept)
    with socket.socket(socket.AF_UNIX) as control:
        control.bind(str(lab.parts / "lb.sock"))
    assert [removed.lab for removed in prune()] == ["x"]
    assert list(root.iterdir()) == []
    assert kept.exists()


def test_file_of_a_stranger_in_the_directory_of_a_lab_stays_and_is_named(root: Path) -> None:
    (dead_lab("x").path / "mine").write_text("")
    with pytest.raises(LabError, match=r"x stays: mine in it is not the lab's$"):
        prune()
    assert [path.name for path in (root / "x").iterdir()] == ["mine"]
    assert prune() == []


def test_what_cannot_be_removed_is_found_again_by_the_next_prune(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    dead_lab("x").parts.mkdir()
    with monkeypatch.context() as patched:
        patched.setattr("shutil.rmtree", refuse)
        with pytest.raises(LabError, match="Operation not permitted"):
            prune()
    assert [removed.lab for removed in prune()] == ["x"]
    assert list(root.iterdir()) == []


def dead_lab(name: str) -> LabDir:
    lab = LabDir(runtime_root() / name)
    lab.acquire()
    lab.save(Journal(name, 1, 1))
    lab.release()
    return lab


def test_process_with_the_same_number_and_another_start_is_not_the_lab() -> None:
    journal = own_journal("x")
    assert journal.alive
    journal.start_time += 1
    assert not journal.alive
    assert process_start_time(2**22 + 1) is None


def test_root_directory_follows_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPAVNIC_RUNTIME_DIR")
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    assert runtime_root() == Path("/tmp/opavnic-1000")  # noqa: S108
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/1000")
    assert runtime_root() == Path("/run/user/1000/opavnic")
    monkeypatch.setattr(os, "getuid", lambda: 0)
    assert runtime_root() == Path("/run/opavnic")


def test_directory_that_is_no_labs_is_neither_listed_nor_pruned(root: Path) -> None:
    theirs = root / "thesis"
    theirs.mkdir(parents=True, mode=0o700)
    for name in ("log", "state.json", "chapter1"):
        (theirs / name).write_text("three years of work")
    assert all_labs() == []
    assert prune() == []
    with pytest.raises(LabError, match="left alone"):
        LabDir(theirs).remove()
    assert sorted(path.name for path in theirs.iterdir()) == ["chapter1", "log", "state.json"]


def test_directory_on_a_disk_that_became_read_only_is_a_lab_error(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = LabDir(runtime_root() / "x")
    lab.acquire()
    lab.log_file.touch()

    def refuse(path: Path, missing_ok: bool = False) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refuse)
        with pytest.raises(LabError, match=r"^cannot remove .*/x: Read-only file system$"):
            lab.remove()
    lab.remove()
    assert not lab.path.exists()
    lab.release()


def test_directory_that_somebody_has_removed_is_gone_already() -> None:
    lab = LabDir(runtime_root() / "x")
    lab.acquire()
    lab.path.rmdir()
    lab.remove()
    lab.release()


def test_journal_that_does_not_fit_leaves_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = LabDir(runtime_root() / "x")
    lab.acquire()
    journal = own_journal("x")
    lab.save(journal)

    def refuse(path: Path, *_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", refuse)
        with pytest.raises(LabError, match=r"^cannot write .*/x/state\.json\.new: No space left on device$"):
            lab.save(own_journal("y"))
    assert lab.load() == journal
    lab.release()
