"""JSON in and out of the control API: bodies that may be malformed or huge, answers that may be long.

The fabric must not wait: long bodies are parsed in another thread, long answers are written a little at a time.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NoReturn

from aiohttp import web

from hfi_sim.base.errors import InputError
from opavnic.base.state import StateModel

MAX_BODY: Final = 4 << 20
"""Bytes of a request: room for an EM file of the largest size."""
MAX_VALUES: Final = 300_000
"""Values in a request."""
_AT_ONCE: Final = 64 << 10
"""Bytes of JSON that are parsed or written on the event loop in one go: about a millisecond of work."""
_DIGITS: Final = 9
FLAGS: Final = {"1": True, "true": True, "0": False, "false": False}
"""What a flag of a query may be."""
_PIECES_AT_ONCE: Final = 256
"""Rows of an answer that are built before yielding to the event loop, short as they may be."""


async def json_body(request: web.Request) -> Any:
    """Return the body. Raises InputError if it is not JSON or has too many values."""
    body = await request.read()
    # no more values than these: each but the first stands behind one of them
    if body.count(b",") + body.count(b"[") + body.count(b"{") > MAX_VALUES:
        raise InputError(f"the body has more than {MAX_VALUES} values: no configuration has as many")
    try:
        return _parsed(body) if len(body) <= _AT_ONCE else await asyncio.to_thread(_parsed, body)
    except (ValueError, RecursionError) as error:
        raise InputError(f"the body is not JSON: {error}") from error


def _parsed(body: bytes) -> Any:
    # a hook in Python lets other threads run after each object; the C parser alone would hold the lock to its end
    return json.loads(body, object_hook=lambda found: found, parse_constant=_no_number)


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number in JSON")


async def json_object(request: web.Request) -> dict[str, Any]:
    """Return the body. Raises InputError if it is not a JSON object."""
    body = await json_body(request)
    if not isinstance(body, dict):
        raise InputError("the body is not a JSON object")
    return body


def query_number(request: web.Request, name: str, default: int) -> int:
    """Return a whole number of the query. Raises InputError if it is none."""
    text = request.query.get(name, str(default))
    if not (text.isascii() and text.isdecimal()) or len(text) > _DIGITS:
        raise InputError(f"{name}={text!r:.40} is not a number from 0 to {10**_DIGITS - 1}")
    return int(text)


def query_flag(request: web.Request, name: str) -> bool:
    """Return a flag of the query; without it, false. Raises InputError if it is none."""
    text = request.query.get(name, "0")
    if (said := FLAGS.get(text.lower())) is None:
        raise InputError(f"{name}={text!r:.40} is neither true nor false: {name}=1 or {name}=0")
    return said


async def json_answer(data: StateModel | Mapping[str, Any]) -> web.Response:
    """Return the answer `data`, encoded a little at a time, yielding to the event loop in between.

    Args:  data: long values are lists or mappings, or iterators whose rows are built as they are encoded.
    """
    texts = []
    count = size = 0
    for text in _pieces(_members(data) if isinstance(data, StateModel) else data):
        texts.append(text)
        count, size = count + 1, size + len(text)
        if count >= _PIECES_AT_ONCE or size >= _AT_ONCE:
            count = size = 0
            await asyncio.sleep(0)
    return web.json_response(text="".join(texts))


def _members(state: StateModel) -> dict[str, Any]:
    """Return the fields that are set, by their names in JSON."""
    return {
        field.serialization_alias or name: getattr(state, name)
        for name, field in type(state).model_fields.items()
        if name in state.model_fields_set
    }


def _pieces(data: Mapping[str, Any]) -> Iterator[str]:
    """Yield the JSON of an object in pieces, each no longer than one row or member of one of its values."""
    between = "{"
    for name, value in data.items():
        yield f"{between}{json.dumps(name)}: "
        between = ", "
        if isinstance(value, Mapping):
            yield from _enclosed(
                "{", (json.dumps({key: item})[1:-1] for key, item in list(value.items())), "}"
            )
        elif isinstance(value, list | Iterator):
            yield from _enclosed("[", map(_text, value), "]")
        else:
            yield _text(value)
    yield "}" if data else "{}"


def _text(value: object) -> str:
    return value.as_text() if isinstance(value, StateModel) else json.dumps(value, default=StateModel.as_json)


def _enclosed(before: str, items: Iterable[str], after: str) -> Iterator[str]:
    between = before
    for item in items:
        yield between + item
        between = ", "
    yield after if between != before else before + after
