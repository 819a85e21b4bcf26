"""Types of values that only lab files use, besides those of `vema.base.sections`: names, delays, sections or words."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from pydantic import (
    AfterValidator,
    BeforeValidator,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    WithJsonSchema,
)
from pydantic_core import CoreSchema, core_schema

from hfi_sim.base.quantities import parse_delay, with_unit
from opavnic.world.host_backends.given import INTERFACE_NAME_MAX, RESERVED_INTERFACES, can_name_interface
from vema.base.sections import Time

LabData = dict[str, Any]
"""The plain data of a lab file."""


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


def also_accepts(*words: object) -> Schema:
    """Declare in the JSON schema that a section may also be one of these words."""
    return Schema({"enum": list(words)})


HOSTS_SCHEMA: Final = {"type": "integer", "minimum": 1, "description": "so many hosts: h1, h2, ..."}
MEMBERS_SCHEMA: Final = {"type": "string", "description": "all, or a range of hosts: h[1-16]"}


Delay = Annotated[
    Time,
    BeforeValidator(with_unit(parse_delay)),
    WithJsonSchema(
        {"type": ["string", "number"], "description": "300ns, 1us, 2ms, or 0; with a unit; at most 1h"}
    ),
]

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


def check_name(name: str) -> str:
    """Return the name of a lab, host or uplink. Raises ValueError: it cannot be one."""
    if not _NAME.fullmatch(name) or len(name) > 32:
        raise ValueError(
            f'name "{name}": 1 to 32 letters, digits, "-" and "_", beginning with a letter or digit '
            "(it becomes part of a path and of a namespace's name)"
        )
    return name


def _check_interface(name: str) -> str:
    if len(name) > INTERFACE_NAME_MAX:
        raise ValueError(
            f'name "{name}" has {len(name)} characters; it names an interface, which allows {INTERFACE_NAME_MAX}'
        )
    if not can_name_interface(name):
        raise ValueError(
            f'name "{name}" cannot name an interface: letters, digits, ".", "-" and "_", '
            f"and not {', '.join(sorted(RESERVED_INTERFACES))}"
        )
    return name


LabName = Annotated[str, AfterValidator(check_name)]
"""The name of a lab, a host or an uplink."""
InterfaceName = Annotated[str, AfterValidator(_check_interface)]
"""The name of a network interface."""
