"""Types of values that only lab files use, besides those of `vema.base.sections`: delays, sections or words."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import AfterValidator, GetCoreSchemaHandler, GetJsonSchemaHandler, WithJsonSchema
from pydantic_core import CoreSchema, core_schema

from vema.base.sections import Time

MAX_DELAY_S: Final = 3600.0
"""Limit for the delay of a link. A longer one is a wrong unit, and would make a fabric that never answers."""


class AlsoAccepts:
    """Declares in the JSON schema that a section may also be one of these words."""

    def __init__(self, *words: object) -> None:
        self._words = list(words)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"anyOf": [handler(schema), {"enum": self._words}]}


class OneOf:
    """Declares that a value is one of the names of a registry."""

    def __init__(self, *names: str) -> None:
        self._names = list(names)

    def __get_pydantic_core_schema__(self, source: type, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.literal_schema(self._names)


class Schema:
    """Declares in the JSON schema what a section may be besides."""

    def __init__(self, other: dict[str, Any]) -> None:
        self._other = other

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"anyOf": [handler(schema), self._other]}


HOSTS_SCHEMA: Final = {"type": "integer", "minimum": 1, "description": "so many hosts: h1, h2, ..."}
MEMBERS_SCHEMA: Final = {"type": "string", "description": "all, or a range of hosts: h[1-16]"}


def _check_delay(seconds: float) -> float:
    if seconds > MAX_DELAY_S:
        raise ValueError(f"{seconds:g} s is too long for the delay of a link: at most {MAX_DELAY_S:g} s")
    return seconds


Delay = Annotated[
    Time,
    AfterValidator(_check_delay),
    WithJsonSchema(
        {"type": ["string", "number"], "description": "300ns, 1us, 2ms; a number is seconds; at most 1h"}
    ),
]
