"""The control API as OpenAPI: each handler declares what it takes and answers, and the document is made of the routes.

Source: OpenAPI 3.1.0.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from aiohttp import web

_ATTRIBUTE: Final = "opavnic_api"
JSON: Final = "application/json"
_PLACES: Final = re.compile(r"{(\w+)}")
Handler = TypeVar("Handler", bound=Callable[..., Any])

ERRORS: Final[Mapping[str, str]] = {
    "400": "what was asked is wrong in itself",
    "409": "the lab cannot do it as it is now",
    "500": "a bug",
    "503": "too many do this at once",
}
"""Every error is `{"error": LINE}` with one of these statuses."""


@dataclass(frozen=True, slots=True)
class Api:
    """What a route takes and answers."""

    summary: str
    answer: str
    """What the answer is."""
    keys: tuple[str, ...] = ()
    """Keys that the JSON of the answer always has."""
    content: str = JSON
    query: Mapping[str, str] = field(default_factory=dict)
    """Parameters of the query; those that must be there begin with `!` in what is said of them."""
    body: Mapping[str, str] = field(default_factory=dict)
    """JSON type and description of the members of the body: `integer: the number of a fault`."""
    more_errors: Mapping[str, str] = field(default_factory=dict)


def api(
    summary: str,
    answer: str,
    keys: Iterable[str] = (),
    *,
    content: str = JSON,
    query: Mapping[str, str] | None = None,
    body: Mapping[str, str] | None = None,
    more_errors: Mapping[str, str] | None = None,
) -> Callable[[Handler], Handler]:
    """Declare what the handler of a route takes and answers. Args: as the fields of `Api`."""
    said = Api(summary, answer, tuple(keys), content, query or {}, body or {}, more_errors or {})

    def mark(handler: Handler) -> Handler:
        setattr(handler, _ATTRIBUTE, said)
        return handler

    return mark


def api_of(route: web.RouteDef) -> Api | None:
    """Return what is declared of a route; None: nothing."""
    handler = inspect.unwrap(route.handler)
    found: Api | None = getattr(handler, _ATTRIBUTE, None)
    return found


def document(routes: Iterable[web.RouteDef], version: str) -> dict[str, Any]:
    """Return the OpenAPI document of routes; those without a declaration are left out. Args: version: of opavnic."""
    paths: dict[str, dict[str, Any]] = {}
    for route in sorted(routes, key=lambda route: (route.path, route.method)):
        said = api_of(route)
        if said is not None:
            paths.setdefault(route.path, {})[route.method.lower()] = _operation(said, route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "opavnic: the control API of a lab",
            "version": version,
            "description": "HTTP on the Unix socket `control.sock` of a lab, which only its user may open.",
        },
        "servers": [{"url": "http://lab", "description": "any name: the socket says which lab"}],
        "paths": paths,
        "components": {
            "schemas": {
                "Error": {
                    "type": "object",
                    "required": ["error"],
                    "properties": {"error": {"type": "string", "description": "one line for a person"}},
                }
            }
        },
    }


def _operation(said: Api, route: web.RouteDef) -> dict[str, Any]:
    name = re.sub(r"\W+", "-", route.path).strip("-")
    answer: dict[str, Any] = {"type": "string"} if said.content != JSON else {"type": "object"}
    if said.keys:
        answer |= {"required": list(said.keys), "properties": {key: {} for key in said.keys}}
    operation: dict[str, Any] = {"operationId": f"{route.method.lower()}-{name}", "summary": said.summary}
    parameters = [
        {"name": key, "in": "path", "required": True, "schema": {"type": "string"}}
        for key in _PLACES.findall(route.path)
    ]
    if said.query:
        parameters += [
            {
                "name": key,
                "in": "query",
                "required": text.startswith("!"),
                "description": text.removeprefix("!"),
                "schema": {"type": "string"},
            }
            for key, text in said.query.items()
        ]
    if parameters:
        operation["parameters"] = parameters
    if said.body:
        members = {key: _member(text) for key, text in said.body.items()}
        operation["requestBody"] = {
            "required": True,
            "content": {JSON: {"schema": {"type": "object", "properties": members}}},
        }
    error = {JSON: {"schema": {"$ref": "#/components/schemas/Error"}}}
    operation["responses"] = {
        "200": {"description": said.answer, "content": {said.content: {"schema": answer}}},
        **{
            status: {"description": text, "content": error}
            for status, text in sorted({**ERRORS, **said.more_errors}.items())
        },
    }
    return operation


def _member(text: str) -> dict[str, Any]:
    kind, _, description = text.partition(": ")
    return {"type": kind.split(" or ") if " or " in kind else kind, "description": description}
