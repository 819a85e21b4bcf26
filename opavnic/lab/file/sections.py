"""Types of values that only lab files use, besides those of `vema.base.sections`: delays, sections or words."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, WithJsonSchema
from pydantic_core import CoreSchema, core_schema

from vema.base.sections import Time


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


Delay = Annotated[
    Time,
    WithJsonSchema(
        {"type": ["string", "number"], "description": "300ns, 1us, 2ms; a number is seconds; at most 1h"}
    ),
]
