"""Our umad device does what that of Linux's hfi1 did: random calls, recorded there (tests/record_hfi1.py)."""

from __future__ import annotations

import gzip
import json
import os
import sys
from pathlib import Path
from typing import Final

import pytest

from e2e.conftest import Program
from opavnic.devices.kernel.entry import why_no_fuse

CALLS: Final = Path(__file__).with_name("umad_calls.py")
LAB: Final = """name: {name}
hosts: {{h1: {{may_manage: true}}, h2: {{}}}}
em: external
vesws: [{{id: 2, name: blue, pkey: 0x8002, subnet: 10.9.2.0/24, members: all}}]
"""
RECORDED: Final = Path(__file__).parents[1] / "vectors" / "hfi1-umad-1.jsonl.gz"


@pytest.mark.parametrize("seeds", [range(1, 3), pytest.param(range(3, 13), marks=pytest.mark.slow)])
def test_random_calls_do_what_they_did_at_the_device_of_hfi1(opavnic: Program, seeds: range) -> None:
    if reason := why_no_fuse():
        pytest.skip(reason)
    opavnic.up(LAB.format(name=f"ku{os.getpid()}"))
    with gzip.open(RECORDED, "rt") as lines:
        recorded = {one["seed"]: one["calls"] for one in map(json.loads, lines)}
    for seed in seeds:
        calls = recorded[seed]
        words = (sys.executable, CALLS, str(seed), str(len(calls)))
        said = opavnic.ok("exec", "--umad", "h1", "--", *words, timeout=200)
        for at, (line, other) in enumerate(zip(said.splitlines(), calls, strict=True)):
            assert json.loads(line) == other, f"seed {seed}, call {at}"
