"""What a lab has started ends: whatever one of its parts does, and however far the start came."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from lab_in_memory import lab_in_memory
from opavnic.lab.file.errors import LabError
from opavnic.lab.run.lab import Lab
from opavnic.world.part import RunningPart

pytestmark = pytest.mark.looptime


def memory_lab(**changes: Any) -> Lab:
    model = {
        "name": "x",
        "hosts": {"h1": {}, "h2": {}, "n1": {}, "n2": {}},
        "vesws": [{"id": 2, "name": "blue", "subnet": "10.9.2.0/24", "members": ["h1", "h2", "n1", "n2"]}],
        "apps": [{"kind": "ejfat-lb", "host": "n1"}, {"kind": "ejfat-lb", "host": "n2"}],
        "faults": [{"kind": "loss", "on": "h1", "count": 1}],
    }
    return lab_in_memory({**model, **changes})


class Recorded(RunningPart):
    """An app that notes its end."""

    def __init__(self, end: Callable[[], Any] | None = None) -> None:
        self.stops = 0
        self._end = end

    async def stop(self) -> None:
        self.stops += 1
        if self._end is not None:
            await self._end()


async def broken() -> None:
    raise RuntimeError("boom")


async def cancelled() -> None:
    raise asyncio.CancelledError


async def endless() -> None:
    await asyncio.Event().wait()


async def stubborn() -> None:
    """Take no notice of being given up, for a while."""
    try:
        await asyncio.sleep(1000)
    except asyncio.CancelledError:
        await asyncio.sleep(30)


def give_apps(monkeypatch: pytest.MonkeyPatch, *apps: Recorded) -> None:
    left = list(apps)

    @contextlib.asynccontextmanager
    async def start(part: object, world: object, asked: object) -> AsyncIterator[Recorded]:
        app = left.pop(0)
        yield app
        await app.stop()

    monkeypatch.setattr("ejfat.part.LoadBalancerPart.start", start)


def assert_all_is_gone(lab: Lab, tasks_before: set[asyncio.Task[Any]]) -> None:
    for interface in lab.interfaces:
        assert interface.netdev is None or (interface.netdev.ops is None and not interface.netdev.is_up)
    assert lab.manager is None or lab.manager.em.core is None
    assert not (asyncio.all_tasks() - tasks_before)


@pytest.mark.parametrize(
    ("end", "said"),
    [
        (broken, "app ejfat-lb on n1: RuntimeError: boom"),
        (cancelled, "app ejfat-lb on n1: its end was cancelled"),
        (endless, "app ejfat-lb on n1: not ended within 10 s, given up"),
        (stubborn, "app ejfat-lb on n1: not ended within 10 s, given up"),
    ],
)
async def test_app_whose_stop_fails_keeps_nothing_else_from_its_end(
    monkeypatch: pytest.MonkeyPatch, end: Callable[[], Any], said: str
) -> None:
    bad, good = Recorded(end), Recorded()
    give_apps(monkeypatch, bad, good)
    before = asyncio.all_tasks()
    lab = memory_lab()
    with pytest.raises(LabError, match=r"^lab x has ended, but some parts failed to stop: ") as caught:
        async with lab:
            assert all(interface.netdev is not None for interface in lab.interfaces)
    assert said in str(caught.value)
    assert (bad.stops, good.stops) == (1, 1)
    again = await lab.stop()
    assert again.failed == [said]
    assert again is await lab.stop()
    assert (bad.stops, good.stops) == (1, 1)
    await asyncio.sleep(60)  # virtual: also the one that was given up is gone by now
    assert_all_is_gone(lab, before)


async def test_several_failing_stops_are_all_named(monkeypatch: pytest.MonkeyPatch) -> None:
    give_apps(monkeypatch, Recorded(broken), Recorded(endless))
    lab = memory_lab()
    await lab.start()
    assert sorted((await lab.stop()).failed) == [
        "app ejfat-lb on n1: RuntimeError: boom",
        "app ejfat-lb on n2: not ended within 10 s, given up",
    ]


async def test_error_inside_the_lab_is_not_hidden_by_one_of_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    give_apps(monkeypatch, Recorded(broken), Recorded())
    with pytest.raises(KeyError, match="mine") as caught:
        async with memory_lab():
            raise KeyError("mine")
    assert "app ejfat-lb on n1: RuntimeError: boom" in "".join(caught.value.__notes__)


STAGES = {
    "the datapath": "opavnic.lab.run.lab.choose_datapath",
    "hosts": "opavnic.lab.hosts.machine.InMemoryHost.__init__",
    "wiring": "opavnic.lab.run.lab.World.__init__",
    "faults": "opavnic.world.world.Faults.hook",
    "VNIC ports": "opavnic.world.world.VnicPort.__init__",
    "MAD socket": "opavnic.world.parts.management.MadSocketServer.__init__",
    "manager": "opavnic.lab.run.lab.em_config",
    "waiting": "opavnic.lab.run.readiness.vnic_state",
    "fault of the file": "opavnic.world.world.Faults.add",
}


@pytest.mark.parametrize("error", [LabError, asyncio.CancelledError])
@pytest.mark.parametrize("stage", STAGES)
async def test_start_that_fails_at_any_stage_ends_what_was_made(
    monkeypatch: pytest.MonkeyPatch, stage: str, error: type[BaseException]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error("no room")

    lab = memory_lab()
    apps = [Recorded(), Recorded()]
    give_apps(monkeypatch, *apps)
    monkeypatch.setattr(STAGES[stage], fail)
    before = asyncio.all_tasks()
    with pytest.raises(error, match="no room"):
        await lab.start()
    assert_all_is_gone(lab, before)
    started = 2 if stage == "fault of the file" else 0
    assert [app.stops for app in apps] == [1] * started + [0] * (2 - started)


async def test_start_that_is_cancelled_while_an_app_starts_ends_the_app_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = Recorded()
    waiting = asyncio.Event()

    @contextlib.asynccontextmanager
    async def start(part: object, world: object, asked: Any) -> AsyncIterator[Recorded]:
        if asked.apps[0].host == "n2":
            waiting.set()
            await asyncio.Event().wait()
        yield first
        await first.stop()

    monkeypatch.setattr("ejfat.part.LoadBalancerPart.start", start)
    before = asyncio.all_tasks()
    lab = memory_lab()
    starting = asyncio.ensure_future(lab.start())
    await waiting.wait()
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert first.stops == 1
    assert_all_is_gone(lab, before)
