"""`opavnic install-dissectors`: where the scripts of all packages go, and what it says where they cannot go."""

from __future__ import annotations

from pathlib import Path

import pytest

from ejfat.dissectors import SCRIPTS as EJFAT_SCRIPTS
from lnet.dissectors import SCRIPTS as LNET_SCRIPTS
from opavnic.cli.main import main
from opavnic.observe.dissectors import SCRIPTS
from unit.opavnic.observe.tshark import PLUGINS


def test_install_dissectors_copies_those_of_all_packages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "new" / "plugins"

    assert main(["install-dissectors", "--dir", str(target)]) == 0

    said = capsys.readouterr().err.splitlines()
    for directory, name in (
        (SCRIPTS, "opa16b.lua"),
        (SCRIPTS, "opa_ema.lua"),
        (EJFAT_SCRIPTS, "ejfat.lua"),
        (LNET_SCRIPTS, "lnet.lua"),
    ):
        assert (target / name).read_text() == (directory / name).read_text()
        assert f"installed {target / name}" in said


def test_install_dissectors_without_a_directory_goes_to_the_users_plugins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))

    assert main(["install-dissectors"]) == 0

    assert (tmp_path / PLUGINS / "opa16b.lua").exists()


def test_install_dissectors_twice_replaces_them(tmp_path: Path) -> None:
    (tmp_path / "opa16b.lua").write_text("an older one")

    assert main(["install-dissectors", "--dir", str(tmp_path)]) == 0

    assert (tmp_path / "opa16b.lua").read_text() == (SCRIPTS / "opa16b.lua").read_text()


@pytest.mark.parametrize(
    "command", [["install-dissectors", "--dir"], ["ejfat", "install-dissectors", "--dir"]]
)
def test_install_dissectors_where_it_cannot_is_one_line_and_exit_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    (tmp_path / "file").write_text("")

    assert main([*command, str(tmp_path / "file")]) == 1
    assert main([*command, str(tmp_path / "file" / "below")]) == 1

    first, second = capsys.readouterr().err.splitlines()
    assert first.endswith(f"{tmp_path / 'file'} is a file; the dissectors need a directory")
    assert "Not a directory" in second
