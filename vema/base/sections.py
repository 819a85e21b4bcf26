"""Types for the sections of configuration files: quantities with units, and sections that may be empty."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import Annotated, Any, Final

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    SerializationInfo,
    WithJsonSchema,
)

from hfi_sim.base.quantities import (
    parse_rate,
    parse_size,
    parse_time,
    rate_text,
    size_text,
    time_text,
    with_unit,
)
from hfi_sim.base.types import PKEY_FULL_MEMBER


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
        meant = f"{pkey | PKEY_FULL_MEMBER:#06x}"
        if f"{pkey}".startswith("8") and pkey > 999:  # the digits are those of a full member
            meant = f"0x{pkey} if that is meant, or {meant}"
        raise ValueError(
            f"pkey {pkey:#06x} is a limited membership: its members could not communicate with each other; "
            f"write {meant}"
        )
    return pkey


Subnet = ipaddress.IPv4Network | ipaddress.IPv6Network


def address_misfit(text: str) -> str:
    """Return what is wrong with an IP address or subnet that cannot be read."""
    address, _, length = text.partition("/")
    try:
        (ipaddress.IPv6Address if ":" in address else ipaddress.IPv4Address)(address)
    except ValueError as error:
        return str(error)
    return f'"{length}" is not a prefix length from 0 to {128 if ":" in address else 32}'


def parse_subnet(value: object) -> Subnet:
    """Return a subnet. Raises ValueError, with the subnet that was meant if it is an address in one."""
    if isinstance(value, ipaddress.IPv4Network | ipaddress.IPv6Network):
        return value
    if not isinstance(value, str):
        shown = "a mapping" if isinstance(value, dict) else f"{value!r:.60}"
        raise ValueError(f"{shown} is not a subnet such as 10.9.2.0/24")
    try:
        subnet = ipaddress.ip_network(value)
    except ValueError:
        try:
            meant = ipaddress.ip_network(value, strict=False)
        except ValueError:
            raise ValueError(
                f'"{value}" is not a subnet such as 10.9.2.0/24: {address_misfit(value)}'
            ) from None
        raise ValueError(f'"{value}" is an address in a subnet; the subnet is {meant}') from None
    if "/" not in value:
        raise ValueError(f'"{value}" has no prefix length; a subnet has one, such as 10.9.2.0/24')
    return subnet


PartitionKey = Annotated[int, Field(strict=True, ge=1, le=0xFFFF), AfterValidator(_check_pkey)]
"""A P_Key of a full member of a partition."""
AS_WRITTEN: Final = "as written"
"""The context of a dump for people: quantities are written as in files, and not as numbers."""


def _written(text_of: Callable[[Any], str]) -> PlainSerializer:
    def write(value: Any, info: SerializationInfo) -> Any:
        return text_of(value) if info.context == AS_WRITTEN else value

    return PlainSerializer(write, when_used="json")


Rate = Annotated[
    float,
    BeforeValidator(with_unit(parse_rate)),
    _written(rate_text),
    WithJsonSchema({"type": "string", "description": "bits per second, with a unit: 100G, 800M"}),
]
Time = Annotated[
    float,
    BeforeValidator(parse_time),
    _written(time_text),
    WithJsonSchema({"type": ["string", "number"], "description": "300ns, 2ms, 10s, 5m; a number is seconds"}),
]
Size = Annotated[
    int,
    BeforeValidator(parse_size),
    _written(size_text),
    WithJsonSchema({"type": ["string", "integer"], "description": "bytes: 65536, 64K, 16M"}),
]


def parse_subnets(value: object) -> tuple[Subnet, ...]:
    """Return no subnet, one, or those of a list. Raises ValueError, as `parse_subnet`."""
    if value is None:
        return ()
    return tuple(map(parse_subnet, value)) if isinstance(value, list | tuple) else (parse_subnet(value),)


def _subnets_written(subnets: tuple[Subnet, ...]) -> object:
    written = [str(subnet) for subnet in subnets]
    return written if len(written) > 1 else next(iter(written), None)


_SUBNET_TEXT: Final = "10.9.2.0/24; the first host gets .1"
Subnets = Annotated[
    tuple[Subnet, ...],
    BeforeValidator(parse_subnets),
    PlainSerializer(_subnets_written, when_used="json"),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": ["string", "null"], "description": _SUBNET_TEXT},
                {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "several, such as IPv4 and IPv6",
                },
            ]
        }
    ),
]
