"""The identity of a namespace: what is not proven is not ours, and what is not ours is not touched."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

import processes
from opavnic.lab.file.errors import LabError
from opavnic.lab.ownership import identity
from opavnic.lab.ownership.identity import (
    NamespaceId,
    boot_id,
    current_namespace,
    namespace_at,
    sign_namespace,
)
from opavnic.lab.ownership.namespaces import end_programs, is_name_of, programs_in, remove_namespace

HERE = os.stat("/proc/self/ns/net").st_ino
OURS = NamespaceId(HERE, "cookie 1")
THEIRS = NamespaceId(HERE, "cookie 2")


@pytest.fixture
def child() -> Iterator[subprocess.Popen[str]]:
    with processes.child(["sleep", "1000"]) as process:
        yield process


@pytest.fixture
def namespace_of_child(child: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Say what is found when the namespace of the child is looked at: each once, the last from then on."""

    def found(*identities: NamespaceId) -> None:
        rest = list(identities)

        def look(path: str) -> NamespaceId | None:
            if path != f"/proc/{child.pid}/ns/net":
                return THEIRS
            return rest.pop(0) if len(rest) > 1 else rest[0]

        monkeypatch.setattr("opavnic.lab.ownership.namespaces.namespace_at", look)

    return found


def test_program_on_the_same_inode_is_ours_only_with_the_same_mark(
    child: subprocess.Popen[str], namespace_of_child: Callable[..., None]
) -> None:
    namespace_of_child(THEIRS)
    assert programs_in([OURS]) == []
    assert end_programs([OURS]) == []
    namespace_of_child(NamespaceId(HERE, ""))
    assert end_programs([OURS]) == []
    assert child.poll() is None
    namespace_of_child(OURS)
    assert [str(program) for program in end_programs([OURS])] == [f"sleep (pid {child.pid})"]
    assert child.wait(60) == -signal.SIGTERM


def test_program_whose_number_has_gone_to_another_is_not_signalled(
    child: subprocess.Popen[str], namespace_of_child: Callable[..., None]
) -> None:
    namespace_of_child(OURS, THEIRS)
    end_programs([OURS])
    assert child.poll() is None


def test_file_that_is_no_namespace_has_no_identity(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").touch()
    for name in ("pipe", "file", "nothing", "."):
        assert namespace_at(tmp_path / name) is None


def test_own_namespace_has_one_identity_from_inside_and_outside() -> None:
    inside = current_namespace()
    outside = namespace_at("/proc/self/ns/net")
    assert outside is not None
    assert outside.inode == inside.inode == HERE
    assert outside.mark in (inside.mark, ""), "without privilege it cannot be looked into"


@pytest.mark.parametrize("mode", [0o000, 0o444, 0o600])
def test_empty_file_of_somebody_else_is_no_name_of_ours(tmp_path: Path, mode: int) -> None:
    name = tmp_path / "opavnic-x-h1"
    name.touch(mode=0o400)
    name.chmod(mode)
    assert not remove_namespace(name, OURS)
    assert name.exists()


def test_name_that_never_got_its_namespace_is_removed(tmp_path: Path) -> None:
    name = tmp_path / "opavnic-x-h1"
    assert not is_name_of(name, OURS)
    name.touch(mode=0o400)
    assert is_name_of(name, OURS)
    assert remove_namespace(name, OURS)
    assert not name.exists()


def test_boot_that_cannot_be_told_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert boot_id() == boot_id() != ""
    monkeypatch.setattr(identity, "_BOOT_ID", tmp_path / "boot_id")
    with pytest.raises(LabError, match=r"cannot tell this boot from others: .*boot_id: No such file"):
        boot_id()


def test_kernel_without_cookies_has_a_word_of_chance_on_the_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    aliases = {1: ""}

    class Links:
        def set_alias(self, ifindex: int, alias: str) -> None:
            aliases[ifindex] = alias

        def get(self, ifindex: int) -> SimpleNamespace:
            return SimpleNamespace(alias=aliases[ifindex])

        def close(self) -> None: ...

    monkeypatch.setattr("hfi_sim.netdev.link_client.LinkClient", Links)
    monkeypatch.setattr(identity, "_SO_NETNS_COOKIE", 0x7FFF)
    assert current_namespace() == NamespaceId(HERE, "")
    signed = sign_namespace()
    assert signed.mark.startswith("alias ")
    assert len(signed.mark) > 30
    assert current_namespace() == signed
    aliases[1] = "somebody else's"
    assert current_namespace() == NamespaceId(HERE, "")
