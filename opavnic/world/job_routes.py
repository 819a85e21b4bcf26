"""Jobs on the control API: a request that takes long is a job, and can be answered at once with what to follow.

`POST /change?job=1` answers with the job, as every route that is declared with `job=`; `/jobs` says how far it is.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any, Final

from aiohttp import web

from hfi_sim.base.errors import InputError
from opavnic.state.job import JobsState, JobState
from opavnic.world.jobs import NEWS_S, LabJobs
from opavnic.world.json_body import json_answer, query_number
from opavnic.world.openapi import Api
from opavnic.world.part import RunningPart

WAIT_S: Final = 1.0
"""How long a request for news of a job waits: a sign that the lab works comes as often."""
_DIGITS: Final = 9
Answer = Callable[[], Coroutine[Any, Any, web.Response]]


class JobRoutes(RunningPart):
    """Runs requests as jobs, and shows these."""

    def __init__(self) -> None:
        self.jobs = LabJobs(_error_of)

    async def run(self, name: str, answer: Answer, *, follow: bool) -> web.Response:
        """Answer a request by a job.

        Args:  follow: answer at once with the job.
        """
        job = self.jobs.start(name, answer())
        if not follow:
            return await self.jobs.result(job.number)
        response = await json_answer(job.state())
        response.set_status(202)
        return response

    @Api("GET /jobs", "Long operations", "those that run, and the last ones that have ended", JobsState)
    async def _list(self, _: web.Request) -> web.Response:
        return await json_answer(JobsState(jobs=self.jobs.states()))

    @Api(
        "GET /jobs/{number}",
        "A long operation",
        "how far it is",
        JobState,
        query={"after": "integer: a version; the answer waits a second for a later one"},
    )
    async def _show(self, request: web.Request) -> web.Response:
        job = self.jobs.job(_number(request))
        if "after" in request.query:
            if not job.has_ended:
                await asyncio.sleep(NEWS_S)
            await job.news(query_number(request, "after", 0), WAIT_S)
        return await json_answer(job.state())

    @Api(
        "GET /jobs/{number}/answer",
        "The answer of a long operation",
        "what its request would have been answered without job=1, with its status",
        dict,
    )
    async def _answer(self, request: web.Request) -> web.Response:
        found = await self.jobs.result(_number(request))
        return web.Response(text=found.text, status=found.status, content_type=found.content_type)

    @Api(
        "POST /jobs/{number}/cancel",
        "Cancel a long operation",
        "how far it is: one that has changed something goes on",
        JobState,
    )
    async def _cancel(self, request: web.Request) -> web.Response:
        job = self.jobs.job(_number(request))
        if job.cancel():
            await job.news(job.state().version, WAIT_S)
        return await json_answer(job.state())


def _number(request: web.Request) -> int:
    text = request.match_info["number"]
    if not text.isdecimal() or len(text) > _DIGITS:
        raise InputError(f"{text!r:.40} is not the number of a job; see: opavnic job list")
    return int(text)


def _error_of(response: web.Response) -> str:
    if response.status < 400:
        return ""
    return " ".join(str(json.loads(response.text or "{}").get("error", response.reason)).split())
