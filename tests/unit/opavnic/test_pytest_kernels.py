"""Hosts of a scenario that are kernels: what authors of tests read where there is none, or where it cannot be meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from hfi_sim.base.clock import ManualClock
from hfi_sim.fabric.topology import single_switch
from opavnic.scenario import Scenario, ScenarioError
from program import run_pytest

SOURCE = """
import pytest

@pytest.mark.kernel("h2")
async def test_skipped(hosts):
    pass

@pytest.mark.kernel
async def test_nameless(hosts):
    pass
"""


def test_without_a_kernel_the_test_is_skipped_and_a_wrong_mark_is_one_line(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(pytester.path))
    pytester.makeini("[pytest]\n")
    Path(pytester.path, "test_it.py").write_text(SOURCE)
    result = run_pytest(pytester.path, "-rs", "-p", "no:cacheprovider", "--fabric-pcap=never")
    result.assert_outcomes(skipped=1, errors=1)
    out = result.stdout.str()
    assert "none is built; run opavnic kernel build" in out
    assert 'it takes names of hosts, e.g. kernel("h2")' in out


def test_an_unknown_host_is_refused_by_name() -> None:
    with pytest.raises(ScenarioError, match="there is no host h9; hosts: h1, h2"):
        Scenario(single_switch(2), kernels=["h9"])


def test_a_clock_moved_by_hand_is_refused() -> None:
    with pytest.raises(ScenarioError, match="needs virtual time, and a test that is a coroutine"):
        Scenario(single_switch(2), kernels=["h2"], clock=ManualClock())
