"""What a person sees of `opavnic up` before there is a lab."""

from __future__ import annotations

from pathlib import Path

import pytest

from opavnic.cli.main import main
from opavnic.lab.file.errors import PrivilegeError
from opavnic.lab.ownership.runtime import Journal, LabDir, runtime_root

LAB = "name: again\nhosts: {h1: {}, h2: {}}\nvesws: [{id: 2, name: blue, members: [h1, h2]}]\n"
NOBODY = 0x3FFFFFFF
"""The number of no process."""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lab file, on a machine where no TAP can be made."""

    def refuse() -> None:
        raise PrivilegeError("/dev/net/tun does not exist")

    monkeypatch.setenv("OPAVNIC_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setattr("opavnic.lab.ownership.privileges.check_tun", refuse)
    path = tmp_path / "lab.yaml"
    path.write_text(LAB)
    return path


def killed() -> LabDir:
    """Return the directory of a lab that was killed."""
    directory = LabDir(runtime_root() / "again")
    directory.acquire()
    directory.save(Journal("again", NOBODY, 1))
    directory.log_file.write_text("2026 it was here\n")
    directory.release()
    return directory


@pytest.mark.parametrize("options", [[], ["-d"]])
def test_lab_that_was_killed_and_may_not_come_up_again_leaves_nothing(
    options: list[str], file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = killed()
    assert main(["up", str(file), *options]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == (
        f"removed what an earlier run of again left: directory {directory.path}\n"
        "opavnic: /dev/net/tun does not exist\n"
    )
    assert list(runtime_root().iterdir()) == []


def test_empty_directory_of_a_lab_that_may_not_come_up_goes_without_a_word(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = killed()
    for path in directory.path.iterdir():
        path.unlink()
    assert main(["up", str(file)]) == 1
    assert capsys.readouterr().err == "opavnic: /dev/net/tun does not exist\n"
    assert list(runtime_root().iterdir()) == []


def test_directory_with_the_files_of_others_is_left_as_it_is(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = killed()
    (directory.path / "state.json").unlink()
    (directory.path / "thesis.txt").write_text("finished")
    assert main(["up", str(file)]) == 1
    assert capsys.readouterr().err == "opavnic: /dev/net/tun does not exist\n"
    assert sorted(path.name for path in directory.path.iterdir()) == ["log", "thesis.txt"]
