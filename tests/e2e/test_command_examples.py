"""Examples on the pages of commands: each prints what its page shows; OPAVNIC_EXAMPLES=write shows what it prints."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from e2e.page_script import run_script
from permission import require
from tools.doc_blocks import script
from tools.examples import examples, recorded, sessions

QUICK = {"no-lab.md"}
"""The session that `make test` runs; the others are slow."""


@pytest.mark.parametrize(
    "session",
    [pytest.param(p, id=p.name, marks=[] if p.name in QUICK else [pytest.mark.slow]) for p in sessions()],
)
def test_examples_of_commands_print_what_their_pages_show(session: Path, tmp_path: Path) -> None:
    require(["iperf3"])
    text = session.read_text(encoding="utf-8")
    run = [example for example in examples(text) if not example.block.not_run]
    printed = run_script("exec 2>&1\n" + script([example.block for example in run]), tmp_path)
    if os.environ.get("OPAVNIC_EXAMPLES") == "write":
        session.write_text(recorded(text, printed), encoding="utf-8")
        return
    wrong = [
        f"{example.words} shows\n{example.output}\nand prints\n{printed[number]}"
        for number, example in enumerate(run)
        if not example.matches(printed[number])
    ]
    assert wrong == []
