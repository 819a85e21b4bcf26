"""A lab that changes for long does not grow: what is gone is let go of."""

from __future__ import annotations

import asyncio

import pytest
from flat_memory import WARM_UP, left_behind, objects, shorten_logs

from lab_in_memory import lab_in_memory
from opavnic.lab.change.live import LivingLab
from opavnic.lab.run.lab import Lab

LAB = """
name: flat
hosts: {h1: {}, h2: {}, h3: {}}
vesws:
  - {id: 2, name: blue, subnet: 10.9.0.0/16, members: [h1, h2]}
  - {id: 3, name: red, subnet: 10.8.0.0/16, members: [h1, h3]}
"""


@pytest.fixture(autouse=True)
def _short_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    shorten_logs(monkeypatch)


LONG = [pytest.mark.long, pytest.mark.timeout(1800)]


async def _leave_and_join(live: LivingLab, times: int) -> None:
    for _ in range(times):
        await live.leave("blue", ["h2"])
        await live.join("blue", ["h2"])


async def _add_and_remove(live: LivingLab, times: int) -> None:
    for _ in range(times):
        await live.add_host("n1", vesws=["blue"])
        await live.remove_host("n1")


@pytest.mark.looptime
@pytest.mark.parametrize("times", [25, pytest.param(5000, marks=LONG)])
async def test_members_that_leave_and_join_leave_nothing_behind(times: int) -> None:
    async with lab_in_memory(LAB) as lab:
        live = LivingLab(lab)
        await _leave_and_join(live, WARM_UP)
        before = objects()
        await _leave_and_join(live, times)
        assert left_behind(before, times) == {}


@pytest.mark.looptime
@pytest.mark.parametrize("times", [25, pytest.param(5000, marks=LONG)])
async def test_hosts_that_come_and_go_leave_nothing_behind(times: int) -> None:
    async with lab_in_memory(LAB) as lab:
        live = LivingLab(lab)
        await _add_and_remove(live, WARM_UP)
        before = objects()
        await _add_and_remove(live, times)
        assert left_behind(before, times) == {}
        assert len(lab.world.fabric.hfis) == 4


async def _crash(lab: Lab, place: str, times: int) -> None:
    faults = lab.world.faults
    for _ in range(times):
        number = faults.add(f"crash on {place}").number
        await asyncio.sleep(0.1)
        faults.remove(number)
        await asyncio.sleep(1)


@pytest.mark.looptime
@pytest.mark.parametrize("place", ["h2", "em"])
@pytest.mark.parametrize("times", [25, pytest.param(2500, marks=LONG)])
async def test_crashes_leave_nothing_behind(times: int, place: str) -> None:
    async with lab_in_memory(LAB) as lab:
        await _crash(lab, place, WARM_UP)
        before = objects()
        await _crash(lab, place, times)
        assert left_behind(before, times) == {}


@pytest.mark.looptime
async def test_sabotage_is_noticed() -> None:
    kept = []
    async with lab_in_memory(LAB) as lab:
        live = LivingLab(lab)
        await _leave_and_join(live, WARM_UP)
        before = objects()
        for _ in range(12):
            await _leave_and_join(live, 1)
            kept.append(_Kept())
        assert left_behind(before, 12)["_Kept"] == 12


class _Kept:
    """What should have gone."""

    def __init__(self) -> None:
        self.more: list[object] = []
