"""What a request says, held against what its route declares: unknown parameters and wrong types are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from aiohttp import web

from hfi_sim.base.did_you_mean import unknown_name
from hfi_sim.base.errors import InputError
from opavnic.world.json_body import json_object, query_flag, query_number
from opavnic.world.openapi import JSON, Api, query_kind

_TYPES: Final[dict[str, Callable[[Any], bool]]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "null": lambda value: value is None,
}
_NAMES: Final = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "object": "a mapping",
    "array": "a list",
    "null": "null",
}


async def check_asked(api: Api, request: web.Request) -> None:
    """Raise InputError if the query or the body of a request is not what its route takes."""
    _check_query(api, request)
    if api.body and not api.open and (request.content_type == JSON or await request.read()):
        _check_body(api, await json_object(request))


def _check_query(api: Api, request: web.Request) -> None:
    known = api.parameters
    for key in request.query:
        if key in known:
            kind, _ = query_kind(known[key])
            if kind == "flag":
                query_flag(request, key)
            elif kind == "integer":
                query_number(request, key, 0)
        elif not api.open:
            raise InputError(unknown_name(f"parameter of {request.path}", f"{key:.40}", known))


def _check_body(api: Api, body: dict[str, Any]) -> None:
    for key, value in body.items():
        if (text := api.body.get(key)) is not None:
            _check_member(key, value, text)
        else:
            raise InputError(unknown_name(f"key of {request_name(api)}", f"{key:.40}", api.body))
    for key, text in api.body.items():
        if text.startswith("!") and key not in body:
            raise InputError(f"{key} is missing: {text.removeprefix('!').partition(': ')[2]}")


def request_name(api: Api) -> str:
    """Return what a message calls the body of a request."""
    return "the body" if not api.job else f"the body of {api.job}"


def _check_member(key: str, value: Any, text: str) -> None:
    said, _, meaning = text.removeprefix("!").partition(": ")
    kinds, _, items = said.partition(" of ")
    allowed = kinds.split(" or ")
    if not any(_TYPES[kind](value) for kind in allowed):
        raise InputError(
            f"{key}: {value!r:.60} is not {' or '.join(_NAMES[kind] for kind in allowed)}: {meaning}"
        )
    if items and isinstance(value, list):
        for number, item in enumerate(value):
            if not _TYPES[items](item):
                raise InputError(f"{key}[{number}]: {item!r:.60} is not {_NAMES[items]}: {meaning}")
