"""Types for the sections of configuration files: quantities with units, and sections that may be empty."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from hfi_sim.quantities import parse_rate, parse_size, parse_time
from hfi_sim.types import PKEY_FULL_MEMBER


class Section(BaseModel):
    """An immutable mapping with known keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def empty_is_default(value: object) -> object:
    """Replace an empty section by one with all defaults."""
    return {} if value is None else value


def _check_pkey(pkey: int) -> int:
    if not pkey & 0x7FFF:
        raise ValueError(f"pkey {pkey:#06x} does not name a partition: its low 15 bits are 0")
    if not pkey & PKEY_FULL_MEMBER:
        raise ValueError(
            f"pkey {pkey:#06x} is a limited membership: its members could not communicate with each other; "
            f"write {pkey | PKEY_FULL_MEMBER:#06x}"
        )
    return pkey


PartitionKey = Annotated[int, Field(strict=True, ge=1, le=0xFFFF), AfterValidator(_check_pkey)]
"""A P_Key of a full member of a partition."""
Rate = Annotated[
    float,
    BeforeValidator(parse_rate),
    WithJsonSchema({"type": ["string", "number"], "description": "bits per second: 100G, 800M"}),
]
Time = Annotated[
    float,
    BeforeValidator(parse_time),
    WithJsonSchema({"type": ["string", "number"], "description": "300ns, 2ms, 10s, 5m; a number is seconds"}),
]
Size = Annotated[
    int,
    BeforeValidator(parse_size),
    WithJsonSchema({"type": ["string", "integer"], "description": "bytes: 65536, 64K, 16M"}),
]
