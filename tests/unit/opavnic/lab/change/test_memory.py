"""A lab that changes for long does not grow: what is gone is let go of."""

from __future__ import annotations

import gc

import pytest

from lab_in_memory import lab_in_memory
from opavnic.lab.change.live import LivingLab

LAB = """
name: flat
hosts: {h1: {}, h2: {}, h3: {}}
vesws:
  - {id: 2, name: blue, subnet: 10.9.0.0/16, members: [h1, h2]}
  - {id: 3, name: red, subnet: 10.8.0.0/16, members: [h1, h3]}
"""
_WARM_UP = 20
_MORE = 500
"""Objects more that may be there afterwards: lists of the last events fill up to their limits."""


def objects() -> int:
    gc.collect()
    return len(gc.get_objects())


async def _leave_and_join(live: LivingLab, times: int) -> None:
    for _ in range(times):
        await live.leave("blue", ["h2"])
        await live.join("blue", ["h2"])


async def _add_and_remove(live: LivingLab, times: int) -> None:
    for _ in range(times):
        await live.add_host("n1", vesws=["blue"])
        await live.remove_host("n1")


@pytest.mark.looptime
@pytest.mark.parametrize("times", [25, pytest.param(5000, marks=pytest.mark.long)])
async def test_members_that_leave_and_join_leave_nothing_behind(times: int) -> None:
    async with lab_in_memory(LAB) as lab:
        live = LivingLab(lab)
        await _leave_and_join(live, _WARM_UP)
        before = objects()
        await _leave_and_join(live, times)
        assert objects() - before < _MORE


@pytest.mark.looptime
@pytest.mark.parametrize("times", [50, pytest.param(5000, marks=pytest.mark.long)])
async def test_hosts_that_come_and_go_leave_nothing_behind(times: int) -> None:
    async with lab_in_memory(LAB) as lab:
        live = LivingLab(lab)
        await _add_and_remove(live, _WARM_UP)
        before = objects()
        await _add_and_remove(live, times)
        assert objects() - before < _MORE
        assert len(lab.world.fabric.hfis) == 4
