"""`opavnic init`: examples that come with the package and run as they stand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from opavnic.cli.labs.init import examples
from opavnic.cli.main import main

ROOT = Path(__file__).parents[5]


def test_package_has_every_example_of_the_repository() -> None:
    there = {path.resolve() for path in (ROOT / "examples").iterdir() if path.suffix in (".yaml", ".conf")}
    here = {path for path in (ROOT / "opavnic/examples").iterdir() if path.is_file()}
    assert there == here, "the file stands in opavnic/examples, examples/ has a link to it"


@pytest.mark.parametrize("name", examples())
def test_example_is_a_valid_file_by_itself(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init", name]) == 0
    assert (tmp_path / f"{name}.yaml").is_file()
    if "opavnic up" in capsys.readouterr().err:
        assert main(["validate", f"{name}.yaml"]) == 0


def test_file_that_exists_is_left_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "lab.yaml"
    file.write_text("mine")
    assert main(["init", "two-hosts", str(file)]) == 2
    said = f"opavnic: {file} exists and is left as it is (give another name, or --force)\n"
    assert capsys.readouterr().err == said
    assert file.read_text() == "mine"
    assert main(["init", "two-hosts", str(file), "--force"]) == 0
    assert file.read_text().startswith("# ")


def test_list_names_each_example_and_what_it_shows(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "--list", "--json"]) == 0
    listed = {one["name"]: one["what"] for one in json.loads(capsys.readouterr().out)}
    assert {"two-hosts", "two-switches"} <= listed.keys()
    assert all(listed.values())
    assert listed["guests"] == "Hosts that were there before the lab"
    assert main(["init", "two-host"]) == 2
    assert capsys.readouterr().err.endswith("(did you mean: opavnic init two-hosts)\n")


def test_list_with_a_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "--list", "two-hosts"]) == 2
    assert (
        capsys.readouterr().err == "opavnic: init: --list lists all examples and takes no name (two-hosts)\n"
    )
