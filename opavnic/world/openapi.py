"""The control API as OpenAPI: each handler declares its route, and what that takes and answers.

Source: OpenAPI 3.1.0.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeVar

from aiohttp import web
from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from opavnic.base.state import Json, StateModel

_ATTRIBUTE: Final = "opavnic_api"
JSON: Final = "application/json"
_SCHEMAS: Final = "#/components/schemas/"
_A_JOB: Final = {JSON: {"schema": {"$ref": f"{_SCHEMAS}JobState"}}}
_PLACES: Final = re.compile(r"{(\w+)}")
_JOB_QUERY: Final = {"job": "flag: answer at once with the job that does it, with status 202; see /jobs"}
_QUERY_TYPES: Final = {"flag": "boolean", "integer": "integer"}
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
    """A route, and what it takes and answers: a decorator of its handler."""

    route: str
    """Method and path, `GET /faults`."""
    summary: str
    answer: str
    """What the answer is."""
    model: Any = str
    """The type of the answer: a model of the state, a dataclass, a dictionary of these; text if it is not JSON."""
    content: str = field(default=JSON, kw_only=True)
    query: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    """Parameters of the query: `flag: with the counters`, `integer: how many`, any other text: a text. Those that must
    be there begin with `!` in what is said of them."""
    body: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    """JSON type and description of the members of the body: `integer: the number of a fault`, `array of integer: ...`;
    those with `!` before the type are required."""
    more_errors: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    open: bool = field(default=False, kw_only=True)
    """Whether it takes parameters of the query, or members of the body, that are not named here."""
    streams: bool = field(default=False, kw_only=True)
    """Whether its handler reads the body as it comes."""
    job: str = field(default="", kw_only=True)
    """It takes long, and is a job of the lab with this name (`opavnic.world.job_routes`)."""

    @property
    def parameters(self) -> Mapping[str, str]:
        """All parameters of the query, with that of jobs."""
        return {**self.query, **(_JOB_QUERY if self.job else {})}

    def __call__(self, handler: Handler) -> Handler:
        """Declare it of a handler."""
        setattr(handler, _ATTRIBUTE, self)
        return handler

    def to(self, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> web.RouteDef:
        """Return the route, answered by a handler."""
        method, path = self.route.split()
        return (web.get if method == "GET" else web.post)(path, handler)


def api_of(handler: Any) -> Api | None:
    """Return what is declared of a handler; None: nothing."""
    found: Api | None = getattr(inspect.unwrap(handler), _ATTRIBUTE, None)
    return found


def declared_in(kind: type) -> dict[str, Api]:
    """Return what the methods of a class declare, by their names; a class before those that it derives from."""
    methods = (item for base in reversed(kind.__mro__) for item in vars(base).items())
    return {name: said for name, method in methods if (said := getattr(method, _ATTRIBUTE, None)) is not None}


def declared_routes(part: object) -> list[web.RouteDef]:
    """Return the routes that the methods of an object declare."""
    return [said.to(getattr(part, name)) for name, said in declared_in(type(part)).items()]


def query_kind(text: str) -> tuple[str, str]:
    """Return the kind of a parameter of a query (flag, integer or text), and what is said of it."""
    kind, colon, said = text.removeprefix("!").partition(": ")
    return (kind, said) if colon and kind in _QUERY_TYPES else ("text", text.removeprefix("!"))


class Error(StateModel):
    """Why a request was refused."""

    error: str
    """One line for a person."""


class OpenApi(StateModel):
    """An OpenAPI document."""

    openapi: str
    """The version of OpenAPI."""
    info: dict[str, Json]
    servers: list[dict[str, str]]
    paths: dict[str, dict[str, Json]]
    components: dict[str, dict[str, Json]]


class _Schema(GenerateJsonSchema):
    """Without a title for each field, which is its name once more."""

    def field_title_should_be_set(self, _: object) -> bool:
        return False


def document(routes: Iterable[web.RouteDef], version: str) -> dict[str, Any]:
    """Return the OpenAPI document of routes; those without a declaration are left out. Args: version: of opavnic."""
    known = sorted(routes, key=lambda route: (route.path, route.method))
    declared = [(route, said) for route in known if (said := api_of(route.handler)) is not None]
    types: list[tuple[str, Literal["validation"], TypeAdapter[Any]]] = [
        (_id_of(route), "validation", TypeAdapter(said.model)) for route, said in declared
    ]
    schemas, found = TypeAdapter.json_schemas(
        [*types, ("error", "validation", TypeAdapter(Error))],
        ref_template=f"{_SCHEMAS}{{model}}",
        schema_generator=_Schema,
    )
    del found["$defs"]["JsonValue"]  # nothing refers to it: `Json` has a schema of its own
    paths: dict[str, dict[str, Any]] = {}
    for route, said in declared:
        answer = schemas[_id_of(route), "validation"]
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(said, route, answer)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "opavnic: the control API of a lab",
            "version": version,
            "description": "HTTP on the Unix socket `control.sock` of a lab, which only its user may open.",
        },
        "servers": [{"url": "http://lab", "description": "any name: the socket says which lab"}],
        "paths": paths,
        "components": {"schemas": found["$defs"]},
    }


def _id_of(route: web.RouteDef) -> str:
    name = re.sub(r"\W+", "-", route.path).strip("-")
    return f"{route.method.lower()}-{name}"


def _operation(said: Api, route: web.RouteDef, answer: Mapping[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {"operationId": _id_of(route), "summary": said.summary}
    parameters: list[dict[str, Any]] = [
        {"name": key, "in": "path", "required": True, "schema": {"type": "string"}}
        for key in _PLACES.findall(route.path)
    ]
    for key, text in said.parameters.items():
        kind, description = query_kind(text)
        parameters.append(
            {
                "name": key,
                "in": "query",
                "required": text.startswith("!"),
                "description": description,
                "schema": {"type": _QUERY_TYPES.get(kind, "string")},
            }
        )
    if parameters:
        operation["parameters"] = parameters
    if said.body:
        members = {key: _member(text.removeprefix("!")) for key, text in said.body.items()}
        required = [key for key, text in said.body.items() if text.startswith("!")]
        schema = {"type": "object", "properties": members} | ({"required": required} if required else {})
        operation["requestBody"] = {"required": True, "content": {JSON: {"schema": schema}}}
    error = {JSON: {"schema": {"$ref": f"{_SCHEMAS}Error"}}}
    operation["responses"] = {
        "200": {"description": said.answer, "content": {said.content: {"schema": answer}}},
        **({"202": {"description": "with job=1: the job", "content": _A_JOB}} if said.job else {}),
        **{
            status: {"description": text, "content": error}
            for status, text in sorted({**ERRORS, **said.more_errors}.items())
        },
    }
    return operation


def _member(text: str) -> dict[str, Any]:
    kind, _, description = text.partition(": ")
    kind, _, items = kind.partition(" of ")
    schema: dict[str, Any] = {"type": kind.split(" or ") if " or " in kind else kind}
    return schema | ({"items": {"type": items}} if items else {}) | {"description": description}
