"""A lab of real TAPs ends whole: whatever fails in the middle of its start, or at its end."""

from __future__ import annotations

import asyncio
import gc
import importlib
import inspect
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.kernel import wait_until
from hfi_sim.base.errors import NetdevError
from opavnic.lab.file.errors import LabError
from opavnic.lab.file.model import LabModel
from opavnic.lab.ownership.namespaces import NETNS_DIR
from opavnic.lab.run.daemon import run_lab
from opavnic.lab.run.lab import Lab
from opavnic.state.removed import Removed

NAME = f"ended-{os.getpid()}"
BLUE, RED = f"b{os.getpid()}", f"r{os.getpid()}"
"""Virtual switches, after which interfaces on the machine are named, beside those of other tests."""


@pytest.fixture(autouse=True)
def _own_runtime_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OPAVNIC_RUNTIME_DIR", str(tmp_path / "run"))


@pytest.fixture(scope="module", autouse=True)
def _nothing_else_to_look_through() -> Iterator[None]:
    """Spare the collections of these tests what others have left in memory: it is the larger part."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def make_lab() -> Lab:
    model = {
        "name": NAME,
        "hosts": {"h1": {}, "h2": {}, "here": {"netns": "host"}, "n1": {}},
        "vesws": [
            {"id": 2, "name": BLUE, "subnet": "10.9.2.0/24", "members": ["h1", "h2", "here", "n1"]},
            {"id": 3, "name": RED, "members": ["h1", "here"]},
        ],
        "apps": [{"kind": "ejfat-lb", "host": "n1"}],
        "faults": [{"kind": "loss", "on": "h1", "count": 1}],
    }
    return Lab(LabModel.model_validate(model))


def descriptors() -> list[str]:
    found = []
    for entry in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{entry}"))
        except OSError:
            continue
    return sorted(link.partition(":")[0] for link in found)


def threads() -> set[str]:
    """Return the threads that are nobody's pool: those of a pool are kept for the next."""
    return {item.name for item in threading.enumerate() if not item.name.startswith(("asyncio_", "Thread"))}


def left_on_the_machine() -> tuple[list[str], list[str]]:
    """Return namespaces and interfaces as this lab names them."""
    names = sorted(path.name for path in NETNS_DIR.glob(f"opavnic-{NAME}-*"))
    return names, sorted(name for name in os.listdir("/sys/class/net") if name.endswith((BLUE, RED)))


STAGES = {
    "first namespace": ("opavnic.lab.hosts.machine.create_namespaces", 0),
    "second host": ("opavnic.lab.hosts.machine.plan_interfaces", 1),
    "watching a host": ("hfi_sim.netdev.netlink.open_notifications", 1),
    "names of the host itself": ("opavnic.lab.hosts.machine.avoid_taken_names", 0),
    "wiring": ("opavnic.lab.run.lab.World.__init__", 0),
    "VNIC ports": ("opavnic.world.world.VnicPort.__init__", 1),
    "datapath": ("opavnic.lab.run.lab.native_datapath", 0),
    "MAD socket": ("opavnic.world.parts.management.MadSocketServer.start", 0),
    "manager": ("opavnic.lab.run.lab.em_config", 0),
    "waiting": ("opavnic.lab.run.readiness.vnic_state", 0),
    "app": ("ejfat.live.app.LbApp.start", 0),
    "reservation of the app": ("ejfat.live.app.LbApp.reserve", 0),
    "fault": ("opavnic.world.world.Faults.add", 0),
}


def owner_of(path: str) -> tuple[Any, str]:
    """Return the module or class of a function, and its name there."""
    where, _, name = path.rpartition(".")
    module, _, last = where.rpartition(".")
    return (
        getattr(importlib.import_module(module), last)
        if last[0].isupper()
        else importlib.import_module(where)
    ), name


def failing(path: str, after: int, error: type[BaseException], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the call after so many others of a function fail."""
    owner, name = owner_of(path)
    genuine: Callable[..., Any] = getattr(owner, name)
    calls = 0

    def call(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == after + 1:
            raise error("no room")
        return genuine(*arguments, **options)

    monkeypatch.setattr(owner, name, call)


TAP_STAGES = {"third TAP": ("hfi_sim.netdev.link_client.LinkClient.set_alias", 2)}
"""Made in a callback of the EM: an error there is the lab's trouble."""
CASES = [
    *((stage, LabError) for stage in STAGES),
    *((stage, NetdevError) for stage in TAP_STAGES),
    *(
        (stage, asyncio.CancelledError)
        for stage in ("first namespace", "MAD socket", "waiting", "app", "fault")
    ),
]


@pytest.mark.parametrize(("stage", "error"), CASES)
async def test_start_that_fails_at_any_stage_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, stage: str, error: type[BaseException]
) -> None:
    caplog.set_level("CRITICAL")  # records of a test are kept, with their errors, whose frames keep the lab
    await asyncio.to_thread(os.getpid)  # the pool's own pipes and threads are there from now on
    gc.collect()
    before = [left_on_the_machine(), threads(), asyncio.all_tasks(), descriptors()]
    path, after = (STAGES | TAP_STAGES)[stage]
    with monkeypatch.context() as patch:
        lab = make_lab()
        directory = lab.directory.path
        failing(path, after, error, patch)
        with pytest.raises(LabError if error is NetdevError else error, match="no room") as caught:
            async with lab:
                pass
    del lab, caught  # what a stopped engine still has goes with it
    gc.collect()

    def is_as_before() -> bool:
        *others, opened = left_on_the_machine(), threads(), asyncio.all_tasks(), descriptors()
        return others == before[:3] and not Counter(opened) - Counter(before[3])

    # threads of gRPC close what they have in their own time, also that of tests before
    await wait_until(is_as_before, f"all as {before}")
    assert not directory.exists()


def failing_at_the_end(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a function do its work and then fail."""
    owner, name = owner_of(path)
    genuine = getattr(owner, name)

    async def later(*arguments: Any) -> None:
        await genuine(*arguments)
        raise RuntimeError("boom")

    def at_once(*arguments: Any) -> None:
        genuine(*arguments)
        raise RuntimeError("boom")

    monkeypatch.setattr(owner, name, later if inspect.iscoroutinefunction(genuine) else at_once)


async def end_of(lab: Lab) -> Removed:
    """Run a lab as `opavnic up` does, and end it by a signal once it is ready."""
    return await run_lab(lab, lambda status: os.kill(os.getpid(), signal.SIGTERM))


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("opavnic.world.parts.control.ControlServer.close", "control API: RuntimeError: boom"),
        ("vema.em.service.service.EthernetService.stop", "Ethernet Manager: RuntimeError: boom"),
        ("opavnic.management.mad_socket.MadSocketServer.close", "MAD socket: RuntimeError: boom"),
        ("opavnic.lab.hosts.machine.LabHosts.end_programs", "programs: RuntimeError: boom"),
        ("opavnic.lab.run.logs.LogHub.end_followers", "readers of the log: RuntimeError: boom"),
        ("ejfat.live.app.LbApp.stop", "app ejfat-lb on n1: RuntimeError: boom"),
    ],
)
async def test_end_that_fails_at_any_stage_is_named_and_leaves_no_namespace(
    monkeypatch: pytest.MonkeyPatch, path: str, said: str
) -> None:
    before = left_on_the_machine()
    failing_at_the_end(path, monkeypatch)
    lab = make_lab()
    removed = await end_of(lab)
    assert removed.failed == [said]
    assert len(removed.netdevs) == 5
    assert sorted(removed.namespaces) == [f"opavnic-{NAME}-h1", f"opavnic-{NAME}-h2"]
    assert left_on_the_machine() == before
    assert not lab.directory.path.exists()
