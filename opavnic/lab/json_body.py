"""The body of a request to a running lab: JSON from somebody who may not know what is asked for."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from opavnic.lab.errors import LabInputError


async def json_body(request: web.Request) -> Any:
    """Return the body. Raises LabInputError: it is no JSON."""
    try:
        return await request.json()
    except (ValueError, RecursionError) as error:
        raise LabInputError(f"the body is no JSON: {error}") from error


async def json_object(request: web.Request) -> dict[str, Any]:
    """Return the body. Raises LabInputError: it is no JSON object."""
    body = await json_body(request)
    if not isinstance(body, dict):
        raise LabInputError("the body is no JSON object")
    return body
