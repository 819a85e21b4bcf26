"""LNet in a lab that the program itself makes: lnetctl from outside, and from a host."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import yaml

from e2e.conftest import Program

EXAMPLES = Path(__file__).parents[2] / "examples"
LNETCTL = (sys.executable, "-m", "opavnic.cli.main", "lnetctl")


@pytest.fixture(scope="module")
def opavnic(opavnic_of_module: Program, tmp_path_factory: pytest.TempPathFactory) -> Program:
    """The program beside the bonding example in the background, under a name of its own."""
    directory = tmp_path_factory.mktemp("lnet")
    text = (EXAMPLES / "lnet-bonding.yaml").read_text()
    (directory / "lab.yaml").write_text(text.replace("name: lnet-bonding", f"name: t{os.getpid()}-lnet"))
    (directory / "lnet-bonding.conf").write_text((EXAMPLES / "lnet-bonding.conf").read_text())
    opavnic_of_module.ok("up", directory / "lab.yaml", "-d")
    return opavnic_of_module


def test_lnetctl_on_a_host_needs_no_host_and_pings_the_other(opavnic: Program) -> None:
    answer = yaml.safe_load(opavnic.on("b", *LNETCTL, "ping", "10.1.1.2@o2ib"))
    assert answer["ping"][0]["primary nid"] == "10.1.1.2@o2ib"


def test_messages_take_the_routes_of_the_document(opavnic: Program) -> None:
    messages = opavnic.data("lnetctl", "send", "--host", "a", "--to", "b")
    assert [(message["local ip"], message["remote ip"]) for message in messages] == [
        ("10.1.1.2", "10.1.1.5"),
        ("10.1.1.3", "10.1.1.6"),
        ("10.1.1.4", "10.1.1.7"),
    ]
