"""LNet in a lab that the program itself makes: lnetctl from outside, and from a host."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import yaml

from e2e.conftest import Program

EXAMPLES = Path(__file__).parents[2] / "examples"
LNETCTL = (sys.executable, "-m", "opavnic.cli.main", "lnetctl")


def test_lnetctl_pings_from_a_host_and_messages_take_the_routes_of_the_document(opavnic: Program) -> None:
    text = (EXAMPLES / "lnet-bonding.yaml").read_text()
    conf = "lnet-bonding.conf"
    (opavnic.directory / conf).write_text((EXAMPLES / conf).read_text())
    opavnic.up(text.replace("name: lnet-bonding", f"name: t{os.getpid()}-lnet"))
    # on a host, it needs no host
    answer = yaml.safe_load(opavnic.on("b", *LNETCTL, "ping", "10.1.1.2@o2ib"))
    assert answer["ping"][0]["primary nid"] == "10.1.1.2@o2ib"
    messages = opavnic.data("lnetctl", "send", "--host", "a", "--to", "b")
    assert [(message["local ip"], message["remote ip"]) for message in messages] == [
        ("10.1.1.2", "10.1.1.5"),
        ("10.1.1.3", "10.1.1.6"),
        ("10.1.1.4", "10.1.1.7"),
    ]
