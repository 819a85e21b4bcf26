"""Changes of a running lab on the control API."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from aiohttp import web

from hfi_sim.base.text import unknown_name
from opavnic.lab.change.edits import EditError
from opavnic.lab.change.live import LivingLab
from opavnic.lab.run.lab import Lab
from opavnic.state.lab import LabChanged
from opavnic.world.jobs import current_job
from opavnic.world.json_body import json_answer, json_object
from opavnic.world.openapi import Api
from opavnic.world.part import RunningPart

_Arguments = Mapping[str, Any]
_NAMED: Final = 3
"""Hosts that the name of a job names."""


def serve_changes(lab: Lab, *, untrusted: bool = False) -> Lab:
    """Let the control API of a lab change it; where it is untrusted, within what such a lab may have."""
    lab.parts.own["changes"] = ChangeRoutes(LivingLab(lab, untrusted=untrusted))
    return lab


class ChangeRoutes(RunningPart):
    """Lets hosts, virtual switches and links come and go."""

    def __init__(self, live: LivingLab) -> None:
        self._live = live

    @Api(
        "POST /change",
        "Change the lab: hosts, virtual switches and links come and go",
        "what was done",
        LabChanged,
        body={
            "do": "!string: host-add, host-remove, link-add, link-remove, vesw-add, vesw-remove, vesw-join, "
            "vesw-leave, or apply",
            "name": "string: of the host or the virtual switch",
            "section": "object: keys of a new host, virtual switch or link, as in a lab file",
            "hosts": "array of string: who joins or leaves",
            "vesws": "array of string: what a new host joins",
            "at": "string or null: a switch, or a port of one, for the cable of a new host",
            "ends": "array of string: the two ports of a link",
            "lab": "object: with apply, a whole lab file",
            "dry_run": "boolean: change nothing",
        },
        job="change",
    )
    async def _change(self, request: web.Request) -> web.Response:
        said = await json_object(request)
        verb = _text(said, "do")
        if verb not in _VERBS:
            raise EditError(unknown_name("change", verb, _VERBS))
        current_job().called(" ".join((verb.replace("-", " "), *_about(said))))
        dry_run = said.get("dry_run", False)
        done = await _VERBS[verb](self._live, said, dry_run)
        return await json_answer(LabChanged(done=done, dry_run=dry_run))


def _about(said: _Arguments) -> list[str]:
    """Return the names in a request, for the name of its job."""
    ends, hosts = said.get("ends", []), said.get("hosts", [])
    names = [said["name"]] if said.get("name") else []
    return [*names, *ends, *hosts[:_NAMED]]


def _text(said: _Arguments, key: str) -> str:
    value = said.get(key)
    if not isinstance(value, str):
        raise EditError(f"{key}: {value!r:.60} is not text")
    return value


def _section(said: _Arguments) -> dict[str, Any]:
    return dict(said.get("section", {}))


def _ends(said: _Arguments) -> tuple[str, str]:
    if len(ends := said.get("ends", [])) != 2:
        raise EditError("ends: two ports are expected, such as h1:1 and sw0:3")
    return ends[0], ends[1]


async def _host_add(live: LivingLab, said: _Arguments, dry_run: bool) -> list[str]:
    vesws, at = said.get("vesws", []), said.get("at")
    return await live.add_host(_text(said, "name"), _section(said), vesws=vesws, at=at, dry_run=dry_run)


async def _apply(live: LivingLab, said: _Arguments, dry_run: bool) -> list[str]:
    if "lab" not in said:
        raise EditError("lab: a lab file is expected, as plain data")
    return await live.follow(live.model_of(said["lab"]), dry_run=dry_run)


_VERBS: Final[dict[str, Callable[[LivingLab, _Arguments, bool], Awaitable[list[str]]]]] = {
    "host-add": _host_add,
    "host-remove": lambda live, said, dry: live.remove_host(_text(said, "name"), dry_run=dry),
    "link-add": lambda live, said, dry: live.add_link(*_ends(said), _section(said), dry_run=dry),
    "link-remove": lambda live, said, dry: live.remove_link(*_ends(said), dry_run=dry),
    "vesw-add": lambda live, said, dry: live.add_vesw(_section(said), dry_run=dry),
    "vesw-remove": lambda live, said, dry: live.remove_vesw(_text(said, "name"), dry_run=dry),
    "vesw-join": lambda live, said, dry: live.join(_text(said, "name"), said.get("hosts", []), dry_run=dry),
    "vesw-leave": lambda live, said, dry: live.leave(_text(said, "name"), said.get("hosts", []), dry_run=dry),
    "apply": _apply,
}
"""What each verb does; the declaration of the route has checked the types of what is said."""
