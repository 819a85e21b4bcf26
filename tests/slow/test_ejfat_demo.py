"""The demonstration, whole: `opavnic ejfat demo`. It runs in real time, so these are slow tests."""

from __future__ import annotations

import json

import pytest

from ejfat.demo.run import KILLED, SLOW, WORKERS, EjfatDemoResult, run_demo
from opavnic.cli.main import main
from opavnic.lab.file.errors import PrivilegeError
from opavnic.lab.ownership.privileges import check_tun, has_capabilities

pytestmark = [pytest.mark.slow, pytest.mark.alone, pytest.mark.timeout(180)]


def check(result: EjfatDemoResult) -> None:
    assert result.problems == []
    assert result.ok
    assert (result.split_events, result.lost_events) == (0, 0)
    total = sum(WORKERS.values())
    for name, weight in WORKERS.items():
        assert result.shares["start"][name] == pytest.approx(weight / total, abs=0.05)
    assert result.shares["slow"][SLOW] < 0.6 * result.shares["start"][SLOW]
    assert result.shares["killed"][KILLED] == 0
    assert sum(result.shares["killed"].values()) == pytest.approx(1, abs=0.01)


def test_demo_in_memory_moves_shares_loses_nothing_and_prints_json(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["ejfat", "demo", "--json", "--netdev", "memory"]) == 0
    result = json.loads(capsys.readouterr().out)
    check(EjfatDemoResult(**result))


@pytest.mark.e2e
async def test_demo_on_taps_moves_shares_and_loses_nothing() -> None:
    try:
        check_tun()
    except PrivilegeError as error:
        pytest.skip(str(error))
    if not has_capabilities():
        pytest.skip("needs the right to make namespaces")
    check(await run_demo(netdev="tap"))
