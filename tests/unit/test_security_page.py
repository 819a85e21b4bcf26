"""SECURITY.md and its how-to: each promise is bound to a test that attacks, and its numbers are those of the code."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from opavnic.lab.untrusted import checked_file as untrusted_process
from opavnic.lab.untrusted import rules as untrusted

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
HOW_TO = (ROOT / "docs/how-to/untrusted.md").read_text(encoding="utf-8")


def test_each_promise_names_a_test_that_is_there() -> None:
    rows = [
        line
        for part in PAGE.split("| promise | attacked by |\n|---|---|\n")[1:]
        for line in part.split("\n\n")[0].splitlines()
    ]
    assert len(rows) > 20
    for row in rows:
        named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", row)
        assert named, row
        for file, test in named:
            tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
            there = {
                node.name
                for node in ast.walk(tree)
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            }
            assert test in there, f"{file}::{test}"


@pytest.mark.parametrize("page", [PAGE, HOW_TO], ids=["SECURITY.md", "untrusted.md"])
def test_limits_of_untrusted_labs_are_those_of_the_code(page: str) -> None:
    said = " ".join(page.split())
    for text in (
        f"{untrusted.MAX_BYTES >> 10} KiB, {untrusted.MAX_HOSTS} hosts, {untrusted.MAX_PORTS} HFI ports, "
        f"{untrusted.MAX_SWITCHES} switches, {untrusted.MAX_LINKS} links, {untrusted.MAX_VESWS} virtual switches, "
        f"{untrusted.MAX_VNICS} VNICs, {untrusted.MAX_FAULTS} faults, {untrusted.MAX_WORKERS} threads",
        f"{untrusted_process.CHECK_MEMORY >> 20} MiB and {untrusted_process.CHECK_S} s of processor",
        f"{untrusted_process.LAB_MEMORY >> 30} GiB of memory and {untrusted_process.LAB_THREADS} threads",
    ):
        assert text in said
    refused = {*untrusted._WHY} - {"engine"}
    assert {key for key in refused if f"`{key}`" not in page} == set()
