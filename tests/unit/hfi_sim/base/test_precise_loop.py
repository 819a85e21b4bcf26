"""The loop of a lab: the standard one, with timers that do not count milliseconds."""

from __future__ import annotations

import asyncio
import os
import select
import selectors
from typing import Any

import pytest

from hfi_sim.base import precise_loop
from hfi_sim.base.precise_loop import COARSE_S, FINE_S, PreciseSelector, timer_resolution_s


def test_timer_resolution_is_that_of_the_loop() -> None:
    async def resolution() -> float:
        return timer_resolution_s(asyncio.get_running_loop())

    assert precise_loop.run(resolution()) == FINE_S
    assert asyncio.run(resolution()) == COARSE_S


def test_run_timers_sockets_and_threads_work_as_on_any_loop() -> None:
    async def main() -> list[str]:
        seen: list[str] = []
        loop = asyncio.get_running_loop()
        read_end, write_end = os.pipe()
        woken = asyncio.Event()

        def readable() -> None:
            seen.append(os.read(read_end, 10).decode())
            woken.set()

        loop.add_reader(read_end, readable)
        loop.call_later(0.0002, os.write, write_end, b"pipe")
        await asyncio.wait_for(woken.wait(), 60)
        seen.append(await asyncio.to_thread(lambda: "thread"))
        loop.remove_reader(read_end)
        os.close(read_end)
        os.close(write_end)
        return seen

    assert precise_loop.run(main()) == ["pipe", "thread"]


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What select(2) is asked."""
    asked: list[Any] = []
    plain = select.select

    def spy(*arguments: Any) -> Any:
        asked.append(arguments)
        return plain(*arguments)

    monkeypatch.setattr(select, "select", spy)
    return asked


def test_select_waits_no_whole_millisecond(waits: list[Any]) -> None:
    with PreciseSelector() as selector:
        assert selector.select(0) == []
        assert selector.select(-1) == []
        assert waits == []
        assert selector.select(0.0002) == []
        assert waits == [([selector.fileno()], [], [], 0.0002)]


def test_longer_wait_is_one_call(waits: list[Any]) -> None:
    with PreciseSelector() as selector:
        assert selector.select(0.005) == []
        read_end, write_end = os.pipe()
        selector.register(read_end, selectors.EVENT_READ)
        os.write(write_end, b"x")
        (ready,) = selector.select(1000)
        assert ready[0].fd == read_end
        os.close(read_end)
        os.close(write_end)
    assert waits == []
