"""What all models of a lab's state have in common: the base model, and the declaration of a counter.

A counter is a field that says what it counts: `tx_packets: Annotated[int, Counter("packets", "Frames that ...")]`. What
shows a lab (status, rates, `top`, metrics, web, the OpenAPI document) finds it there, and names no counter.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Final, Self

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError, WithJsonSchema
from pydantic_core import PydanticSerializationError

if TYPE_CHECKING:
    from pydantic import GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema

PACKETS: Final = "packets"
BYTES: Final = "bytes"
_NO_UTF8: Final = b"\\udc"
"""Begins a byte that is no UTF-8, of a path or a name, in JSON; pydantic refuses to read it."""
Json = Annotated[
    JsonValue, WithJsonSchema({"type": ["string", "integer", "number", "boolean", "null", "array", "object"]})
]
"""Any JSON: what a part of another package says of itself."""


@dataclass(frozen=True, slots=True)
class Counter:
    """What a field counts. It only grows, and starts from 0 when its element is made anew."""

    unit: str
    meaning: str
    """A sentence for people."""
    metric: str = ""
    """Its name in Prometheus after that of its element, where that does not follow from the name of the field."""

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {**handler(schema), "description": self.meaning, "x-kind": "counter", "x-unit": self.unit}


class StateModel(BaseModel):
    """A piece of the state of a lab. It is a snapshot: nothing in it changes.

    Keys that are not always there are fields with a default that is left unset.
    """

    model_config = ConfigDict(frozen=True, defer_build=True, populate_by_name=True)

    def as_json(self) -> dict[str, Any]:
        """Return it as plain data, as the control API and `--json` have it."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)

    def as_text(self) -> str:
        """Return it as JSON. Bytes of a path or name that are no UTF-8 are `\\udc80` to `\\udcff`, as in json.dumps."""
        try:
            return self.model_dump_json(by_alias=True, exclude_unset=True)
        except PydanticSerializationError:  # pydantic refuses them
            return json.dumps(self.as_json())

    @classmethod
    def of_json(cls, data: bytes | Mapping[str, Any]) -> Self:
        """Read what another process of opavnic has said: JSON, or what was read from JSON.

        Raises:  ValueError: it is no such state, as from another version; one line.
        """
        try:
            if isinstance(data, bytes) and _NO_UTF8 not in data:
                return cls.model_validate_json(data)
            return cls.model_validate(json.loads(data) if isinstance(data, bytes) else data)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(map(str, first["loc"]))
            raise ValueError(f"{place or cls.__name__}: {first['msg']}") from error


@cache
def counters_of(model: type[StateModel]) -> Mapping[str, Counter]:
    """Return the counters that a model declares, by the name of their field, in the order of the declaration."""
    return {
        name: found
        for name, field in model.model_fields.items()
        for found in field.metadata
        if isinstance(found, Counter)
    }
