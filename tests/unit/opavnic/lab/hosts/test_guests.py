"""Guests that end while they are looked for, and engines that answer nonsense: told, and nothing stays open."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

import pytest

from opavnic.lab.file.errors import LabError
from opavnic.lab.file.guest_model import GuestKeys
from opavnic.lab.hosts.guests import guest, kinds
from opavnic.lab.hosts.guests.guest import Guest
from opavnic.lab.hosts.guests.kinds import KINDS
from opavnic.lab.ownership.identity import NamespaceId


def find_guest(host: str, keys: GuestKeys) -> Guest:
    return KINDS[keys.guest].find(host, keys)


def open_files() -> list[str]:
    """Return what of processes and namespaces is open here: threads of tests before may close what is theirs."""
    found = []
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            found.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    return sorted(link for link in found if "pidfd" in link or link.startswith(("net:", "/proc/")))


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """The network namespace of any guest is another one than that of the machine."""
    own = guest.namespace_at(guest.MACHINE)
    monkeypatch.setattr(guest, "proven_namespace", lambda path, what: NamespaceId(7, "cookie 7"))
    assert own != NamespaceId(7, "cookie 7")


@pytest.mark.usefixtures("elsewhere")
def test_process_that_ends_while_the_lab_joins_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "_has_ended", lambda pidfd: True)
    before = open_files()
    with pytest.raises(LabError, match=rf"^host h2: process {os.getpid()} ended while the lab joined it$"):
        find_guest("h2", GuestKeys(pid=os.getpid()))
    assert open_files() == before


@pytest.mark.usefixtures("elsewhere")
def test_container_that_is_started_anew_meanwhile_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([(os.getpid(), "1234"), (os.getpid() + 1, "1234")])
    monkeypatch.setattr(kinds, "_inspect", lambda engine, name: next(answers))
    monkeypatch.setattr(shutil, "which", lambda name: name)
    before = open_files()
    with pytest.raises(LabError, match=r"^host h2: container web of podman ended while the lab joined it$"):
        find_guest("h2", GuestKeys(container="web"))
    assert open_files() == before


def test_container_that_does_not_run_is_told_with_what_starts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "_inspect", lambda engine, name: (0, "1234"))
    monkeypatch.setattr(shutil, "which", lambda name: name)
    with pytest.raises(LabError, match='container "web" of docker does not run; start it: docker start web'):
        find_guest("h2", GuestKeys(container="web", engine="docker"))


@pytest.mark.parametrize("said", ["", "7", "x 1234", "7 1234 more"])
def test_engine_that_answers_nonsense_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    engine = tmp_path / "podman"
    engine.write_text(f"#!/bin/sh\necho '{said}'\n")
    engine.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(
        LabError, match=r"no container \"web\" \(podman: says .* in place of a pid and an id\)"
    ):
        find_guest("h2", GuestKeys(container="web", engine="podman"))


def test_process_in_the_network_of_the_machine_is_told() -> None:
    before = open_files()
    with pytest.raises(
        LabError, match=r"shares the network of the machine: write netns: host|cannot be told"
    ):
        find_guest("h2", GuestKeys(pid=os.getpid()))
    assert open_files() == before
