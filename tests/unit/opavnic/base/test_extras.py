"""A command whose packages are not installed says which extra brings them, in one line."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest

from opavnic.base.extras import EXTRAS
from opavnic.cli.main import main

ROOT = Path(__file__).parents[4]

LAB = """\
name: without-grpc
hosts: {lb: {}, s1: {}}
vesws: [{id: 2, name: net, subnet: 10.0.0.0/24, members: all}]
apps: [{kind: ejfat-lb, host: lb, options: {ipv4: [10.0.0.100]}}]
"""


def test_every_extra_is_one_of_the_distribution() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(EXTRAS.values()) <= project["optional-dependencies"].keys()


def test_command_without_its_packages_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "grpc", None)
    monkeypatch.delitem(sys.modules, "ejfat.control.pb.loadbalancer_pb2_grpc", raising=False)
    monkeypatch.delattr("ejfat.control.pb.loadbalancer_pb2_grpc", raising=False)
    monkeypatch.setenv("EJFAT_URI", "ejfat://token@127.0.0.1:18008/lb/1")
    assert main(["ejfat", "admin", "overview"]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "opavnic: this needs more packages (grpc is not installed): pip install 'opavnic[ejfat]'"
    ]


def test_lab_whose_part_lacks_its_packages_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "grpc", None)
    file = tmp_path / "lab.yaml"
    file.write_text(LAB)
    assert main(["validate", str(file)]) == 2
    assert "ejfat-lb needs more packages: pip install 'opavnic[ejfat]'" in capsys.readouterr().err
