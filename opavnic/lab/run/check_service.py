"""`POST /check`: the check of a lab as one of its jobs; a program beside it does the work (`reach.program`)."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from typing import Any, Final

from aiohttp import web

from hfi_sim.base.errors import InputError
from hfi_sim.base.text import visible
from opavnic.lab.file.errors import LabError
from opavnic.lab.run.lab import Lab
from opavnic.lab.run.reach import program
from opavnic.state.reach import ReachState
from opavnic.world.jobs import current_job
from opavnic.world.json_body import json_object
from opavnic.world.openapi import JSON, Api
from opavnic.world.part import RunningPart
from opavnic.world.silence import SILENCE_S

TIMEOUTS_S: Final = (0.01, 60.0)
"""How long an answer may take, at least and at most."""
_LONGEST: Final = 1 << 30
"""Bytes of a line of the program: the pairs of a large lab."""


class CheckRoutes(RunningPart):
    """Runs one check at a time."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._one_at_a_time = asyncio.Lock()

    def routes(self) -> list[web.RouteDef]:
        return [web.post("/check", self._check)]

    @Api(
        "Does every host reach every other host of its virtual switches, and no other host?",
        "which hosts reach which others",
        ReachState,
        body={
            "timeout_s": "number: how long an answer may take, of three attempts; default: 1",
            "everything": "boolean: ask all pairs of large virtual switches, too",
            "seed": "integer or null: the sample of large ones is drawn from it; null: from the lab's seed",
        },
        job="check",
    )
    async def _check(self, request: web.Request) -> web.Response:
        said = await json_object(request)
        timeout_s, seed = said.get("timeout_s", 1.0), said.get("seed")
        if not TIMEOUTS_S[0] <= timeout_s <= TIMEOUTS_S[1]:
            raise InputError(f"timeout_s: {timeout_s} is not within {TIMEOUTS_S[0]:g} to {TIMEOUTS_S[1]:g} s")
        if self._lab.netdev == "memory":
            raise LabError(f"lab {self._lab.model.name} cannot be checked: its hosts are in memory")
        options = {"timeout_s": timeout_s, "everything": said.get("everything", False), "seed": seed}
        if self._one_at_a_time.locked():
            current_job().doing("waits for another check")
        async with self._one_at_a_time:
            return web.Response(text=await self._found(options), content_type=JSON)

    async def _found(self, options: dict[str, Any]) -> str:
        """Let the program check the lab; return what it has found, as JSON. Raises LabError."""
        words = [sys.executable, "-P", "-m", program.__name__, self._lab.model.name, json.dumps(options)]
        try:
            process = await asyncio.create_subprocess_exec(
                *words, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, limit=_LONGEST
            )
        except OSError as error:
            raise LabError(f"cannot check: {sys.executable}: {error.strerror}") from error
        try:
            return await _followed(process, SILENCE_S + options["timeout_s"])
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()


async def _followed(process: Process, silence_s: float) -> str:
    """Show in the job how far the program is; return what it has found. Raises LabError: it has not."""
    job = current_job()
    assert process.stdout is not None  # noqa: S101 - asked for
    while True:
        try:
            async with asyncio.timeout(silence_s):
                line = await process.stdout.readline()
        except TimeoutError:
            raise LabError(f"the check was given up: nothing has happened for {silence_s:g} s") from None
        text = line.decode()
        if text.startswith(program.FOUND) and text.endswith("}\n"):
            return text[len(program.FOUND) : -len("}\n")]
        if not text.endswith("}\n"):
            said = b"" if process.stderr is None else await process.stderr.read()
            raise LabError(f"the check has failed: {visible(said.decode(errors='replace').strip())[-200:]}")
        told = json.loads(text)
        if "error" in told:
            raise LabError(told["error"])
        if (told["doing"], told["total"]) != (job.state().doing, job.state().total):
            job.doing(told["doing"], told["total"])
        job.count(told["done"])
        job.alive()
