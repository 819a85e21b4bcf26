"""The chaos campaign as tests: minutes long, with root, on ground of its own.

`make chaos` plays it; the proof that every check goes red is a slow test.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from chaos.ground import TOOLS, on_own_ground
from permission import require
from processes import child

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(0)]
TESTS = Path(__file__).parents[1]
GRACE_S = 300
"""How much longer than asked for a campaign may take: its last round, and a machine that is busy."""


@pytest.fixture(autouse=True)
def _permitted() -> None:
    require((*TOOLS, "iperf3", "bridge"), as_root=True)


def campaign(*options: str, limit_s: float, module: str = "chaos.campaign") -> int:
    """Run a campaign on ground of its own; whatever ends this process ends it, and all that it has started."""
    command = on_own_ground([sys.executable, "-u", "-m", module, *options])
    with child(command, cwd=TESTS, env={**os.environ, "PYTHONPATH": str(TESTS)}, stdin=-3) as process:
        return process.wait(limit_s)


def test_campaign_of_abuse_leaves_nothing_harms_nobody_and_goes_on_working() -> None:
    seconds, seed = float(os.environ.get("CHAOS_S", "240")), os.environ.get("CHAOS_SEED", "1")
    options = ["--keep-going"] if os.environ.get("CHAOS_KEEP_GOING") == "1" else []
    if only := os.environ.get("CHAOS_ONLY"):
        options += ["--only", only]
    options += ["--first", os.environ.get("CHAOS_FIRST", "1")]
    code = campaign("--seed", seed, "--seconds", str(seconds), *options, limit_s=seconds + GRACE_S)
    assert code == 0, f"replay: make chaos CHAOS_SEED={seed}"


@pytest.mark.slow
def test_damage_of_every_kind_is_found_by_a_check() -> None:
    assert campaign("--seed", "0", "--seconds", "0", "--sabotage", limit_s=GRACE_S) == 0


def campaign_over_machines(seed: str, seconds: float, *options: str) -> int:
    """Run one over three machines."""
    words = ("--seed", seed, "--seconds", str(seconds), *options)
    return campaign(*words, limit_s=seconds + GRACE_S, module="chaos.cluster_campaign")


def test_campaign_over_machines_loses_nothing_that_is_not_counted() -> None:
    seconds, seed = float(os.environ.get("CHAOS_S", "240")), os.environ.get("CHAOS_SEED", "1")
    code = campaign_over_machines(seed, seconds, "--first", os.environ.get("CHAOS_FIRST", "1"))
    assert code == 0, f"replay: make chaos-cluster CHAOS_SEED={seed}"


@pytest.mark.slow
def test_sample_of_a_campaign_over_machines_loses_nothing_that_is_not_counted() -> None:
    assert campaign_over_machines("2", 30) == 0


@pytest.mark.slow
def test_damage_of_every_kind_to_machines_is_found_by_a_check() -> None:
    assert campaign_over_machines("0", 0, "--sabotage") == 0
