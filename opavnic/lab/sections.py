"""What only lab files have beside `vema.sections`: delays of links, and sections that may be a mere word."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import AfterValidator, GetJsonSchemaHandler, WithJsonSchema
from pydantic_core import CoreSchema

from vema.sections import Time

MAX_DELAY_S: Final = 3600.0
"""Of a link. More is a slip of the unit, and a fabric that never answers."""


class AlsoAccepts:
    """Marks a section that may be written as one of these words; for the JSON schema."""

    def __init__(self, *words: object) -> None:
        self._words = list(words)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"anyOf": [handler(schema), {"enum": self._words}]}


def _check_delay(seconds: float) -> float:
    if seconds > MAX_DELAY_S:
        raise ValueError(f"{seconds:g} s is not a delay of a link: at most {MAX_DELAY_S:g} s")
    return seconds


Delay = Annotated[
    Time,
    AfterValidator(_check_delay),
    WithJsonSchema(
        {"type": ["string", "number"], "description": "300ns, 1us, 2ms; a number is seconds; at most 1h"}
    ),
]
