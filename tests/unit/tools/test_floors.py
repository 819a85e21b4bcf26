"""`python -m tools.floors` says which import breaks a rule, in a table of the packages and a line for each."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tools import floors


def _tree(directory: Path, files: Mapping[str, str]) -> Path:
    """Make a checkout with these modules, and an empty one in each other package."""
    (directory / "pyproject.toml").write_text("")
    empty = {f"{package}/__init__.py": "" for package in floors.PACKAGES}
    for name, text in {**empty, **files}.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        (path.parent / "__init__.py").touch()
    return directory


def _problems(directory: Path, files: Mapping[str, str]) -> list[str]:
    modules = floors.read(_tree(directory, files))
    return [problem for package in floors.PACKAGES for problem in floors.look(modules, package).problems]


def test_table_has_a_row_for_each_package(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    floors.main(_tree(tmp_path, {}))
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()][1:] == [
        name.rpartition("/")[2] for name in floors.PACKAGES
    ]


@pytest.mark.parametrize(
    "imported",
    [
        "from vema.a import one",
        "import vema.a.one",
        "def late():\n    from vema.a.one import X",
        "from vema.a.one import X",
    ],
)
def test_cycle_of_folders_is_named_with_its_imports(tmp_path: Path, imported: str) -> None:
    """The modules themselves have no cycle."""
    files = {
        "vema/a/one.py": "",
        "vema/a/two.py": "import vema.b.three",
        "vema/b/three.py": "",
        "vema/b/four.py": imported,
    }
    assert _problems(tmp_path, files) == [
        "cycle of folders: vema.a vema.b",
        "  vema.a.two imports vema.b.three",
        "  vema.b.four imports vema.a.one",
    ]
    assert floors.main(tmp_path) == 1


def test_folder_that_imports_what_is_inside_it_and_is_imported_by_it_is_a_cycle(tmp_path: Path) -> None:
    files = {"vema/ground.py": "", "vema/a/one.py": "import vema.ground", "vema/roof.py": "import vema.a.one"}
    assert _problems(tmp_path, files)[0] == "cycle of folders: vema vema.a"


def test_import_for_type_checkers_that_closes_a_cycle_needs_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from vema.b.two import X\n"
    files = {"vema/a/one.py": typed, "vema/b/two.py": "import vema.a.one"}
    [problem] = _problems(tmp_path, files)
    assert "vema.a.one imports vema.b.two" in problem
    monkeypatch.setattr(floors, "FOR_TYPES", {("vema.a", "vema.b"): "a reason"})
    assert _problems(tmp_path, files) == []


def test_reason_for_a_cycle_that_is_gone_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(floors, "FOR_TYPES", {("vema.a", "vema.b"): "a reason"})
    assert floors.main(_tree(tmp_path, {})) == 1
    assert capsys.readouterr().err == "FOR_TYPES: vema.a -> vema.b closes no cycle\n"


@pytest.mark.parametrize("name", ["vema/plan.py", "vema/em/profile.py", "vema/em/runs.py"])
def test_module_with_io_whose_name_does_not_say_so_is_a_problem(tmp_path: Path, name: str) -> None:
    [problem] = _problems(tmp_path, {name: "def late():\n    import socket\n"})
    assert "imports socket" in problem


@pytest.mark.parametrize(
    "name", ["vema/cli/plan.py", "vema/precise_loop.py", "vema/mad_socket.py", "vema/em/service/verify.py"]
)
def test_module_with_io_whose_path_says_so_is_none(tmp_path: Path, name: str) -> None:
    assert _problems(tmp_path, {name: "import asyncio\nfrom os import path\n"}) == []


def test_io_for_type_checkers_is_none(tmp_path: Path) -> None:
    assert _problems(tmp_path, {"vema/plan.py": "if TYPE_CHECKING:\n    from pathlib import Path\n"}) == []


@pytest.mark.parametrize(("count", "problems"), [(floors.MAX_MODULES, 0), (floors.MAX_MODULES + 1, 1)])
def test_crowded_folder_is_a_problem(tmp_path: Path, count: int, problems: int) -> None:
    assert len(_problems(tmp_path, {f"vema/a/m{number}.py": "" for number in range(count)})) == problems


def test_lines_of_contracts_are_counted_for_the_package_of_their_containers() -> None:
    contract = '[[tool.importlinter.contracts]]\nname = "x"\ncontainers = ["vema"]\nlayers = [\n  "a",\n]\n'
    text = f"{contract}\n[tool.other]\nx = 1\n"
    assert floors.contract_lines(text) == {"vema": 6}


def test_class_name_that_stands_for_two_things_is_a_problem(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert floors.main(_tree(tmp_path, {"vema/a.py": "class Port: ...", "lnet/b.py": "class Port: ..."})) == 1
    assert capsys.readouterr().err.startswith("class Port stands for 2 things: vema.a, lnet.b\n")
