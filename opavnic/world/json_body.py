"""JSON in and out of the control API: bodies that may be malformed or huge, answers that may be long.

The fabric must not wait: long bodies are parsed in another thread, long answers are written a little at a time.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import Any, Final, NoReturn

from aiohttp import web

from hfi_sim.errors import InputError

MAX_BODY: Final = 4 << 20
"""Bytes of a request: room for an EM file of the largest size."""
MAX_VALUES: Final = 300_000
"""Values in a request."""
_AT_ONCE: Final = 64 << 10
"""Bytes of JSON that are parsed on the event loop: about a millisecond of work."""
_ROWS_AT_ONCE: Final = 256
"""Rows of an answer that are built before yielding to the event loop."""


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


async def json_rows(name: str, rows: Iterable[dict[str, Any]]) -> web.Response:
    """Return the answer `{name: rows}`. The rows are built a few at a time, yielding to the event loop in between."""
    texts = []
    for row in rows:
        texts.append(json.dumps(row))
        if not len(texts) % _ROWS_AT_ONCE:
            await asyncio.sleep(0)
    return web.json_response(text=f"{{{json.dumps(name)}: [{', '.join(texts)}]}}")
