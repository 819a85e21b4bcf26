"""LNet in a lab that the program itself makes: lnetctl from outside, and from a host."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

Program = Callable[..., "subprocess.CompletedProcess[str]"]
EXAMPLES = Path(__file__).parents[2] / "examples"
LNETCTL = (sys.executable, "-m", "opavnic.cli.main", "lnetctl")


@pytest.fixture
def bonded(opavnic: Program, tmp_path: Path) -> str:
    """The bonding example in the background, under a name of its own."""
    name = f"t{os.getpid()}-lnet"
    text = (EXAMPLES / "lnet-bonding.yaml").read_text().replace("name: lnet-bonding", f"name: {name}")
    (tmp_path / "lab.yaml").write_text(text)
    (tmp_path / "lnet-bonding.conf").write_text((EXAMPLES / "lnet-bonding.conf").read_text())
    done = opavnic("up", tmp_path / "lab.yaml", "-d")
    assert done.returncode == 0, done.stderr
    return name


def test_lnetctl_on_a_host_needs_no_host_and_pings_the_other(bonded: str, opavnic: Program) -> None:
    done = opavnic("exec", "b", "--", *LNETCTL, "ping", "10.1.1.2@o2ib")
    assert done.returncode == 0, done.stdout + done.stderr
    assert yaml.safe_load(done.stdout)["ping"][0]["primary nid"] == "10.1.1.2@o2ib"


def test_messages_take_the_routes_of_the_document(bonded: str, opavnic: Program) -> None:
    done = opavnic("lnetctl", "send", "--host", "a", "--to", "b", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [(m["local ip"], m["remote ip"]) for m in json.loads(done.stdout)] == [
        ("10.1.1.2", "10.1.1.5"),
        ("10.1.1.3", "10.1.1.6"),
        ("10.1.1.4", "10.1.1.7"),
    ]
    assert opavnic("down", bonded).returncode == 0
