"""A lab on the control API: its state and end, its log, VNICs, apps and parts, and its check."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from aiohttp import web

from hfi_sim.base.errors import InputError
from hfi_sim.base.text import unknown_name, visible
from opavnic.base.errors import TooManyError
from opavnic.base.state import Json
from opavnic.lab.file.errors import LabError, LabInputError
from opavnic.lab.run.lab import Lab
from opavnic.lab.run.logs import LogHub
from opavnic.lab.run.reach import program
from opavnic.lab.run.save import save_with_hosts
from opavnic.lab.run.status import with_devices, with_drift
from opavnic.state.lab import LabState, SavedLab, VnicsRemoved
from opavnic.state.reach import ReachState
from opavnic.state.removed import Removed
from opavnic.vnic.vnic_port import VnicPort
from opavnic.world.connections import MAX_FOLLOWERS, while_read
from opavnic.world.jobs import current_job
from opavnic.world.json_body import json_answer, json_object, query_flag
from opavnic.world.long_work import SILENCE_S, in_turns
from opavnic.world.openapi import JSON, Api
from opavnic.world.part import RunningPart
from vema.base.types import VportNum

log = logging.getLogger("opavnic.lab")
JsonObject = dict[str, Json]
TIMEOUTS_S: Final = (0.01, 60.0)
"""How long an answer may take, at least and at most."""
_LONGEST: Final = 1 << 30
"""Bytes of a line of the program: the pairs of a large lab."""


class LabRoutes(RunningPart):
    """The routes of the lab as a whole, its VNICs, its apps and its parts, and of one check at a time."""

    def __init__(self, lab: Lab, hub: LogHub, down: Callable[[], Awaitable[Removed]]) -> None:
        """Prepare. Args: down: ends the lab and returns what was removed."""
        self._lab = lab
        self._hub = hub
        self._down = down
        self._one_status = asyncio.Lock()
        self._one_check = asyncio.Lock()

    @Api(
        "GET /status",
        "Hosts, VNICs, links, drops",
        "the status of the lab, as `opavnic status --json` prints it",
        LabState,
        query={
            "counters": "flag: with the counters of every element",
            "drift": "flag: with where hosts are not what the lab file says",
        },
    )
    async def _get_status(self, request: web.Request) -> web.Response:
        async with self._one_status:  # that of a large lab takes memory
            state = await in_turns(self._lab.status_steps(counters=query_flag(request, "counters")))
            state = await with_devices(state, self._lab.kernels)
            if query_flag(request, "drift"):
                state = await with_drift(state, self._lab.reconciler)
            return await json_answer(await self._lab.folded(state))

    @Api(
        "GET /logs",
        "The log",
        "lines of text",
        content="text/plain",
        query={"follow": "flag: go on until the reader leaves"},
    )
    async def _get_logs(self, request: web.Request) -> web.StreamResponse:
        return await _stream_log(request, self._hub, follow=query_flag(request, "follow"))

    @Api(
        "GET /save",
        "The running state as a lab file",
        "the file, and what it does not say",
        SavedLab,
        job="save",
    )
    async def _get_save(self, _: web.Request) -> web.Response:
        return await json_answer(await save_with_hosts(self._lab))

    @Api("POST /down", "End the lab", "what was removed", Removed, job="down")
    async def _post_down(self, _: web.Request) -> web.Response:
        return web.json_response((await self._down()).as_json())

    @Api(
        "POST /vnics/remove",
        "Remove VNICs that are not configured",
        "the vports that were removed",
        VnicsRemoved,
        body={"lid": "integer: of a port", "vports": "!array of integer: numbers of vports"},
    )
    async def _remove_vnics(self, request: web.Request) -> web.Response:
        data = await json_object(request)
        removed = remove_vnics(self._lab, data.get("lid"), data["vports"])
        return await json_answer(VnicsRemoved(removed=removed))

    @Api(
        "GET /apps/{host}",
        "An app",
        "all there is to see of it; what that is depends on the kind of app",
        JsonObject,
    )
    async def _get_app(self, request: web.Request) -> web.Response:
        host = request.match_info["host"]
        return _detail("app on host", self._lab.parts.apps, host, host=host)

    @Api(
        "GET /parts/{name}",
        "A part of an installed package",
        "all there is to see of it; what that is depends on the part",
        JsonObject,
    )
    async def _get_part(self, request: web.Request) -> web.Response:
        return _detail("part", self._lab.parts.by_name, request.match_info["name"])

    @Api(
        "POST /check",
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
        if self._one_check.locked():
            current_job().doing("waits for another check")
        async with self._one_check:
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


async def _stream_log(request: web.Request, hub: LogHub, follow: bool) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/plain; charset=utf-8"})
    if follow and hub.followers >= MAX_FOLLOWERS:
        raise TooManyError(f"{MAX_FOLLOWERS} readers follow the log, the most a lab allows; end one of them")
    lines = hub.subscribe()
    if not follow:
        hub.unsubscribe(lines)
        lines.end()
    try:
        await response.prepare(request)
        while True:
            line = await (lines.next() if lines.has_news else while_read(request, lines.next()))
            if line is None:
                break
            await response.write(line.encode() + b"\n")
        await response.write_eof()
    except (ConnectionError, asyncio.CancelledError):
        log.debug("a reader of the log left")
    finally:
        if follow:
            hub.unsubscribe(lines)
    return response


def remove_vnics(lab: Lab, lid: object, vports: list[int]) -> list[int]:
    """Remove VNICs of a port that are at power-on defaults; return their vports. Those that do not exist are left out.

    Raises:  LabInputError: no port has this LID; a VNIC is configured, or is one of the lab file.
    """
    port = _port(lab, lid)
    host = lab.hosts[lab.world.host_of(port.port)]
    there = [VportNum(number) for number in dict.fromkeys(vports) if number in port.adapters]
    for number in there:
        what = f"vport {number} of {lab.world.label_of(port.port)}"
        if any(item.key == (port.port.name, number) for item in host.interfaces):
            raise LabInputError(f"{what} is one of the lab file; it stays")
        if vesw_id := port.adapters[number].vesw_id:
            raise LabInputError(f"{what} is on virtual switch {vesw_id}; it stays")
    for number in there:
        port.remove_vnic(number)
    return [int(number) for number in there]


def _port(lab: Lab, lid: object) -> VnicPort:
    for port in lab.world.vnic_ports.values():
        if port.port.lid == lid:
            return port
    raise LabInputError(f"no port with a management agent has LID {lid!r:.60}")


def _detail(what: str, running: Mapping[str, RunningPart], name: str, **also: str) -> web.Response:
    if name not in running:
        raise InputError(unknown_name(what, name, running))
    return web.json_response(running[name].detail() | also)


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
