"""What takes long is a job: it is counted, watched, cancelled while it has changed nothing, and gives its answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from unittest.mock import ANY

import pytest
from aiohttp import ClientSession, UnixConnector, web

from hfi_sim.base.errors import InputError
from lab_in_memory import served
from opavnic.state.removed import Removed
from opavnic.world.jobs import KEPT, MOST, LabJobs, current_job
from opavnic.world.json_body import json_answer
from opavnic.world.long_work import Silence
from opavnic.world.openapi import Api
from opavnic.world.part import RunningPart
from opavnic.world.parts.control import ControlServer


class Slow(RunningPart):
    """A route that takes as long as a test wants."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.done = 0

    @Api(
        "POST /slow",
        "Take long",
        "how much is done",
        dict,
        body={"begin": "boolean: change something"},
        job="slow",
    )
    async def _slow(self, request: web.Request) -> web.Response:
        job = current_job()
        job.doing("pieces", 3)
        if (await request.json()).get("begin"):
            job.begin()
        job.count(1)
        await self.go_on.wait()
        self.done += 1
        return await json_answer({"done": self.done})

    @Api("POST /refused", "Refuse", "nothing", dict, job="refused")
    async def _refuse(self, _: web.Request) -> web.Response:
        raise InputError("a line")


@pytest.fixture
async def slow() -> Slow:
    return Slow()


@pytest.fixture
async def http(slow: Slow, tmp_path: Path) -> AsyncIterator[ClientSession]:
    async with served(slow.routes(), tmp_path) as session:
        yield session


async def started(http: ClientSession, path: str = "/slow?job=1", **body: bool) -> dict[str, object]:
    async with http.post(path, json=body) as answer:
        assert answer.status == 202
        job: dict[str, object] = await answer.json()
    while job["done"] == 0 and job["phase"] == "working":
        job = await got(http, f"/jobs/{job['number']}?after={job['version']}")
    return job


async def got(http: ClientSession, path: str, status: int = 200) -> dict[str, object]:
    async with http.get(path) as answer:
        assert answer.status == status
        found: dict[str, object] = await answer.json()
    return found


async def test_request_with_job_is_answered_at_once_and_its_job_counts(
    slow: Slow, http: ClientSession
) -> None:
    job = await started(http)
    assert {key: job[key] for key in ("name", "phase", "doing", "done", "total", "can_cancel")} == {
        "name": "slow",
        "phase": "working",
        "doing": "pieces",
        "done": 1,
        "total": 3,
        "can_cancel": True,
    }
    assert [one["number"] for one in (await got(http, "/jobs"))["jobs"]] == [job["number"]]  # type: ignore[attr-defined]
    slow.go_on.set()
    assert await got(http, f"/jobs/{job['number']}/answer") == {"done": 1}
    assert (await got(http, f"/jobs/{job['number']}?after=99"))["phase"] == "done"


async def test_request_without_job_is_answered_when_it_is_done(slow: Slow, http: ClientSession) -> None:
    slow.go_on.set()
    async with http.post("/slow", json={}) as answer:
        assert (answer.status, await answer.json()) == (200, {"done": 1})


async def test_job_that_has_changed_nothing_is_cancelled(slow: Slow, http: ClientSession) -> None:
    job = await started(http)
    async with http.post(f"/jobs/{job['number']}/cancel") as answer:
        assert (await answer.json())["phase"] == "cancelled"
    slow.go_on.set()
    said = await got(http, f"/jobs/{job['number']}/answer", 409)
    assert said == {"error": "slow: cancelled, nothing was changed"}
    assert slow.done == 0


async def test_job_that_has_changed_something_goes_on(slow: Slow, http: ClientSession) -> None:
    job = await started(http, begin=True)
    async with http.post(f"/jobs/{job['number']}/cancel") as answer:
        assert {key: (await answer.json())[key] for key in ("phase", "can_cancel")} == {
            "phase": "working",
            "can_cancel": False,
        }
    slow.go_on.set()
    assert await got(http, f"/jobs/{job['number']}/answer") == {"done": 1}


async def test_job_whose_asker_leaves_goes_on(slow: Slow, http: ClientSession) -> None:
    asking = asyncio.ensure_future(http.post("/slow", json={}))
    while not (jobs := (await got(http, "/jobs"))["jobs"]):
        assert not asking.done()
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    slow.go_on.set()
    assert await got(http, f"/jobs/{jobs[0]['number']}/answer") == {"done": 1}  # type: ignore[index]


async def test_refusal_is_that_of_the_request_with_its_status(http: ClientSession) -> None:
    async with http.post("/refused") as plain:
        refused = plain.status, await plain.json()
    assert refused == (400, {"error": "a line"})
    job = await started(http, "/refused?job=1")
    assert await got(http, f"/jobs/{job['number']}/answer", 400) == {"error": "a line"}
    assert [(one["phase"], one["error"]) for one in (await got(http, "/jobs"))["jobs"]] == [  # type: ignore[attr-defined]
        ("failed", "a line"),
        ("failed", "a line"),
    ]
    assert "no job has number 77" in str(await got(http, "/jobs/77", 400))


async def test_jobs_are_limited_in_number_and_those_that_ended_are_forgotten() -> None:
    go_on = asyncio.Event()
    jobs = LabJobs(lambda _: "")

    async def work() -> bool:
        return await go_on.wait()

    numbers = [jobs.start("one", work()).number for _ in range(MOST)]
    with pytest.raises(Exception, match=f"{MOST} jobs are running, the most a lab allows"):
        jobs.start("one", work())
    go_on.set()
    assert all([await jobs.result(number) for number in numbers])
    await jobs.result(jobs.start("last", work()).number)
    assert len(jobs.states()) == KEPT + 1


async def test_end_of_the_lab_ends_its_jobs(tmp_path: Path) -> None:
    slow = Slow()
    async with served(slow.routes(), tmp_path) as http:
        await started(http, begin=True)
    assert slow.done == 0
    assert [task for task in asyncio.all_tasks() if task.get_name().startswith("job ")] == []


async def test_lab_that_starts_shows_its_job_and_says_why_the_rest_is_not_there_yet(
    slow: Slow, tmp_path: Path
) -> None:
    control = ControlServer(tmp_path / "sock", ())
    ready = asyncio.Event()

    async def up() -> web.Response:
        current_job().doing("hosts made", 3)
        await ready.wait()
        return web.json_response({})

    job = control.jobs.jobs.start("up", up())
    await control.start_early(lambda: f"starting: {job.state().progress}")
    async with ClientSession("http://lab", connector=UnixConnector(str(tmp_path / "sock"))) as http:
        assert (await got(http, "/jobs"))["jobs"] == [
            job.state().as_json() | {"silent_s": ANY, "seconds": ANY}
        ]
        async with http.post("/slow", json={}) as answer:
            assert (answer.status, await answer.json()) == (503, {"error": "starting: 0 of 3 hosts made"})
    ready.set()
    await control.jobs.jobs.result(job.number)
    await control.serve(slow.routes())
    async with ClientSession("http://lab", connector=UnixConnector(str(tmp_path / "sock"))) as http:
        assert (await started(http))["number"] == 2
        assert (await got(http, "/jobs/1"))["phase"] == "done"
    slow.go_on.set()
    await control.close()


def test_silence_counts_looks_and_not_the_time_in_which_a_busy_machine_let_none_be_made() -> None:
    now = [0.0]
    silence = Silence(lambda: now[0], 0.25)
    for _ in range(4):
        now[0] += 0.25
        assert silence.look("nothing") <= 1.0
    now[0] += 3600.0  # the process did not run for an hour
    assert silence.look("nothing") == 0.75 + 0.5
    assert silence.look("something") == 0.0


def test_nobody_needs_a_job_to_work() -> None:
    async def work() -> Removed:
        job = current_job()
        job.doing("pieces", 2)
        job.count(1)
        job.begin()
        return Removed("x")

    assert asyncio.run(work()).lab == "x"
