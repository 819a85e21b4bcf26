"""A topology kind is a generator and a row: lab files and commands know it, and its numbers."""

from __future__ import annotations

import pytest
import typer
from typer.testing import CliRunner

from opavnic.cli.view.topo import topo
from opavnic.lab.file.errors import ConfigError
from opavnic.lab.file.loader import parse_lab

LAB = """\
name: sky
fabric: {{topology: {{kind: star, {numbers}}}}}
hosts: 4
vesws: [{{id: 2, name: blue, members: all}}]
"""


def test_star_is_known_to_lab_files_and_to_the_command() -> None:
    lab = parse_lab(LAB.format(numbers="arms: 2, hosts_per_arm: 2"), "lab.yaml")
    assert lab.fabric.topology.options() == {"kind": "star", "arms": 2, "hosts_per_arm": 2}
    with pytest.raises(ConfigError, match="star 2 has room for 2 HFI ports, the hosts have 4"):
        parse_lab(LAB.format(numbers="arms: 2, hosts_per_arm: 1"), "lab.yaml")
    app = typer.Typer()
    app.command()(topo)
    shown = CliRunner().invoke(app, ["star", "arms=2"])
    assert shown.stdout.startswith("star 2: 4 hosts, 3 switches, 6 cables\n")
    assert "star arms= hosts_per_arm=" in " ".join(CliRunner().invoke(app, ["--help"]).stdout.split())
