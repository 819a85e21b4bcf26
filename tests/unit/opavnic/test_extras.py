"""Without its extra, every part names the extra: each command in a Python that has none of their modules."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from opavnic.base.packages import EXTRAS, is_installed
from opavnic.lab.ownership.runtime import LabDir

ROOT = Path(__file__).parents[3]
PACKAGES = ("hfi_sim", "vema", "opavnic", "ejfat", "lnet")
BASE = {
    # the modules of the base installation, as pyproject.toml has it
    "aiohttp", "construct", "crcmod", "isal", "networkx", "prometheus_client", "pydantic", "pydantic_core",
    "yaml", "rich", "scapy", "textual", "typer",
}  # fmt: skip
OF_THE_TESTED_PROJECT = {"hypothesis"}
"""Imported only where a test of the user does."""
WITHOUT = f"""
import sys
for module in {sorted(EXTRAS)!r}:
    sys.modules[module] = None  # as if it were not installed
"""
PROGRAM = WITHOUT + "from opavnic.cli.main import main\nsys.exit(main(sys.argv[1:]))\n"
LAB = "name: y\nhosts: {h1: {}, h2: {}}\nvesws: [{id: 2, name: blue, members: [h1, h2]}]\n"
EJFAT = (
    "name: x\nhosts: {h1: {}, lb: {}}\nvesws: [{id: 2, name: blue, subnet: 10.9.2.0/24, members: [h1, lb]}]\n"
    "apps: [{kind: ejfat-lb, host: lb, options: {}}]\n"
)


def run(code: str, *words: str, directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *words],
        check=False,
        capture_output=True,
        text=True,
        cwd=directory,
        env={**os.environ, "OPAVNIC_RUNTIME_DIR": str(directory / "run"), "COLUMNS": "80"},
    )


def test_every_module_of_others_is_of_the_base_or_of_an_extra() -> None:
    found, own = set(), {*sys.stdlib_module_names, *PACKAGES, *BASE, *OF_THE_TESTED_PROJECT}
    for package in PACKAGES:
        for file in (ROOT / package).rglob("*.py"):
            text = file.read_text()
            if set(re.findall(r"^\s*(?:import|from)\s+(\w+)", text, re.M)) <= own:
                continue  # to parse all modules takes seconds
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Import):
                    found |= {alias.name.partition(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    found.add(node.module.partition(".")[0])
    assert found - own == EXTRAS.keys()


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        ("web", "web"),
        ("up lab.yaml --cluster --insecure --listen tcp/127.0.0.1:0", "cluster"),
        ("node --insecure --join tcp/127.0.0.1:9", "cluster"),
        ("cluster ca certificates", "cluster"),
        ("validate ejfat.yaml", "ejfat"),
        ("ejfat admin overview --uri ejfat://token@127.0.0.1:9/lb/1", "ejfat"),
    ],
)
def test_command_without_its_extra_names_it(
    words: str, extra: str, tmp_path: Path, directory: LabDir
) -> None:
    (tmp_path / "lab.yaml").write_text(LAB)
    (tmp_path / "ejfat.yaml").write_text(EJFAT)
    done = run(PROGRAM, *words.split(), directory=tmp_path)
    assert done.returncode in (1, 2), done.stderr
    assert f"pip install 'opavnic[{extra}]'" in done.stderr
    assert "internal error" not in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr


def test_every_extra_is_one_of_the_distribution() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(EXTRAS.values()) <= project["optional-dependencies"].keys()


def test_help_of_all_commands_needs_no_extra(tmp_path: Path) -> None:
    code = WITHOUT + (
        "from opavnic.cli.main import main\n"
        "from opavnic.cli.program.tree import pages\n"
        "for page in pages():\n"
        "    assert main([*page.words.split()[1:], '--help']) == 0, page.words\n"
    )
    done = run(code, directory=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_pytest_without_the_extra_runs_and_its_fixtures_name_it(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_one():\n    pass\n\ndef test_fabric(lab):\n    pass\n")
    code = (
        "import os, sys\n"
        "os.environ['PYTEST_DISABLE_PLUGIN_AUTOLOAD'] = '1'\n"
        "for module in ('pytest_asyncio', 'looptime'):\n"
        "    sys.modules[module] = None\n"
        "import pytest\n"
        "sys.exit(pytest.main(['-q', '-p', 'opavnic.testing.pytest_entry', 'test_it.py']))\n"
    )
    done = run(code, directory=tmp_path)
    assert "1 passed, 1 error" in done.stdout, done.stdout + done.stderr
    assert "the fixture lab of opavnic needs more packages: pip install 'opavnic[testing]'" in done.stdout


def test_extras_are_installed_where_tests_run() -> None:
    assert all(map(is_installed, set(EXTRAS.values())))
