"""What the sections of a lab file are made of: quantities with units, sections that may be left empty."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    WithJsonSchema,
)
from pydantic_core import CoreSchema

from hfi_sim.types import PKEY_FULL_MEMBER
from opavnic.lab.units import parse_rate, parse_size, parse_time

MAX_DELAY_S: Final = 3600.0
"""Of a link. More is a slip of the unit, and a fabric that never answers."""


class Section(BaseModel):
    """A mapping with known keys; once read it does not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def empty_is_default(value: object) -> object:
    """Take a section that is there and empty as one with nothing but defaults."""
    return {} if value is None else value


class AlsoAccepts:
    """Marks a section that may be written as one of these words; for the JSON schema."""

    def __init__(self, *words: object) -> None:
        self._words = list(words)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"anyOf": [handler(schema), {"enum": self._words}]}


def _check_pkey(pkey: int) -> int:
    if not pkey & PKEY_FULL_MEMBER and pkey & 0x7FFF:
        raise ValueError(
            f"pkey {pkey:#06x} is a limited membership: its members could not talk to each other; "
            f"write {pkey | PKEY_FULL_MEMBER:#06x}"
        )
    if not pkey & 0x7FFF:
        raise ValueError(f"pkey {pkey:#06x} names no partition: the low 15 bits are 0")
    return pkey


def _check_delay(seconds: float) -> float:
    if seconds > MAX_DELAY_S:
        raise ValueError(f"{seconds:g} s is no delay of a link: at most {MAX_DELAY_S:g} s")
    return seconds


PartitionKey = Annotated[int, Field(strict=True, ge=1, le=0xFFFF), AfterValidator(_check_pkey)]
"""The partition of those who talk to each other: a full membership."""
Rate = Annotated[
    float,
    BeforeValidator(parse_rate),
    WithJsonSchema({"type": ["string", "number"], "description": "bits per second: 100G, 800M"}),
]
Time = Annotated[
    float,
    BeforeValidator(parse_time),
    WithJsonSchema({"type": ["string", "number"], "description": "300ns, 1us, 2ms; a number is seconds"}),
]
Delay = Annotated[
    float,
    BeforeValidator(parse_time),
    AfterValidator(_check_delay),
    WithJsonSchema(
        {"type": ["string", "number"], "description": "300ns, 1us, 2ms; a number is seconds; at most 1 h"}
    ),
]
Size = Annotated[
    int,
    BeforeValidator(parse_size),
    WithJsonSchema({"type": ["string", "integer"], "description": "bytes: 65536, 64K, 16M"}),
]
