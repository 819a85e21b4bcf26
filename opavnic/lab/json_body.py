"""The body of a request to a running lab: JSON from somebody who may not know what is asked for."""

from __future__ import annotations

import json
from typing import Any, Final

from aiohttp import web

from opavnic.lab.errors import LabInputError

MAX_BODY: Final = 4 << 20
"""Bytes of a request: an EM file of the largest size."""
MAX_VALUES: Final = 300_000
"""Values in it. The lab carries nothing while JSON is read: that many take a tenth of a second or two."""


async def json_body(request: web.Request) -> Any:
    """Return the body. Raises LabInputError: it is no JSON, or too much of it."""
    try:
        body = await request.read()
    except web.HTTPRequestEntityTooLarge:
        raise LabInputError(
            f"the body has more than {MAX_BODY} bytes: no configuration has as many"
        ) from None
    # no more values than these: each but the first stands behind one of them
    if body.count(b",") + body.count(b"[") + body.count(b"{") > MAX_VALUES:
        raise LabInputError(f"the body has more than {MAX_VALUES} values: no configuration has as many")
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise LabInputError(f"the body is no JSON: {error}") from error


async def json_object(request: web.Request) -> dict[str, Any]:
    """Return the body. Raises LabInputError: it is no JSON object."""
    body = await json_body(request)
    if not isinstance(body, dict):
        raise LabInputError("the body is no JSON object")
    return body
