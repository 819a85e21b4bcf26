"""`POST /check`: what a lab makes of the program that it lets send the echoes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
from aiohttp import ClientSession

from hfi_sim.base.quantities import parse_time
from lab_in_memory import lab_in_memory, served
from opavnic.lab.ownership.journal_entries import GuestEntry
from opavnic.lab.ownership.runtime import KERNEL, Journal
from opavnic.lab.run import lab_routes as service
from opavnic.lab.run.lab import Lab
from opavnic.lab.run.logs import LogHub
from opavnic.lab.run.reach import program
from opavnic.lab.run.reach.echoes import told_now_and_then
from opavnic.lab.run.reach.plan import PairSample
from opavnic.state.lab import HostStatus, LabState

LAB = """
name: checked
fabric: {topology: {kind: single-switch}}
hosts: {h1: {}, h2: {}}
vesws: [{id: 2, name: blue, pkey: 0x8002, subnet: 10.9.2.0/24, members: [h1, h2]}]
"""


@asynccontextmanager
async def checking(lab: Lab, directory: Path) -> AsyncIterator[ClientSession]:
    """Answer the routes of a lab."""
    with closing(LogHub(directory / "log")) as hub:
        async with served(service.LabRoutes(lab, hub, lab.stop).routes(), directory) as session:
            yield session


@pytest.fixture
async def http(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ClientSession]:
    """A lab whose program of the check is a module of the test."""
    lab = lab_in_memory(LAB)
    lab.netdev = "tap"  # its hosts are not entered here
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(program, "__name__", "checking")
    async with checking(lab, tmp_path) as session:
        yield session


async def answer_of(http: ClientSession, text: str, tmp_path: Path, **body: object) -> tuple[int, object]:
    (tmp_path / "checking.py").write_text(text)
    async with http.post("/check", json=body) as answer:
        return answer.status, await answer.json()


async def test_program_is_told_what_was_asked_and_its_word_is_the_answer(
    http: ClientSession, tmp_path: Path
) -> None:
    text = (
        "import json, sys\n"
        'print(json.dumps({"doing": "echoes are over", "done": 3, "total": 9}))\n'
        f"print({program.FOUND!r} + json.dumps(sys.argv[1:]) + '}}')\n"
    )
    status, (lab, options) = await answer_of(http, text, tmp_path, seed=7)  # type: ignore[misc]
    assert (status, lab) == (200, "checked")
    assert json.loads(options) == {"timeout_s": 1.0, "everything": False, "seed": 7}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('print(\'{"error": "host h1 is gone"}\')', "host h1 is gone"),
        ("raise SystemExit('boom')", "the check has failed: boom"),
        ("print('{\"doing\"', end='')", "the check has failed: "),
        ("import time; time.sleep(60)", "the check was given up: nothing has happened for 0.2 s"),
    ],
    ids=["refused", "broken", "cut off", "silent"],
)
async def test_program_that_finds_nothing_is_a_failure_that_says_why(
    http: ClientSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    if "sleep" in text:
        monkeypatch.setattr(service, "SILENCE_S", 0.19)
    assert await answer_of(http, text, tmp_path, timeout_s=0.01) == (409, {"error": said})


@pytest.mark.parametrize("timeout_s", [0, 0.009, 60.1, -1])
async def test_time_that_no_answer_can_take_is_refused(
    http: ClientSession, tmp_path: Path, timeout_s: float
) -> None:
    status, said = await answer_of(http, "", tmp_path, timeout_s=timeout_s)
    assert (status, said) == (400, {"error": f"timeout_s: {timeout_s} is not within 0.01 to 60 s"})


async def test_hosts_in_memory_cannot_be_checked(tmp_path: Path) -> None:
    async with checking(lab_in_memory(LAB), tmp_path) as http:
        assert await answer_of(http, "", tmp_path) == (
            409,
            {"error": "lab checked cannot be checked: its hosts are in memory"},
        )


def test_progress_is_told_no_more_often_than_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    now, told = [0.0], list[int]()
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    tell = told_now_and_then(told.append)
    for at_s in ("0s", "50ms", "100ms", "150ms", "300ms"):
        now[0] = parse_time(at_s)
        tell(round(now[0] * 1000))
    assert told == [0, 100, 300]


def test_kernel_without_a_vnic_has_no_program_started_in_it() -> None:
    journal = Journal("checked", pid=1, start_time=1, guests=[GuestEntry("k1", KERNEL, "k1", 1, "")])
    state = LabState.model_construct(hosts=[HostStatus(name="k1", namespace=None, lid=1, speed=0, vnics=[])])
    told: list[tuple[str, int, int]] = []
    report = program.check_reach(
        journal, state, timeout_s=1.0, sample=PairSample(1), progress=lambda *what: told.append(what)
    )
    assert (report.places, told) == ((), [("hosts are entered", 0, 1)])
