"""NetdevInfo, attribute 0x0023: the network device of a vport on its host. Big-endian, 8 bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from hfi_sim.wire.field import FLAG, Field
from hfi_sim.wire.header import WireHeader, declared
from vema.attributes.access import READ_ONLY


@declared("NetdevInfo", "NetdevInfo", "big", names_itself=True)
@dataclass(frozen=True, slots=True, kw_only=True)
class NetdevInfo(WireHeader):
    """What the host has set of the device."""

    mtu: Annotated[int, Field(32, "MTU in bytes", access=READ_ONLY)]
    reserved: Annotated[int, Field(31, "reserved", access=READ_ONLY)] = 0
    up: Annotated[bool, Field(1, "whether it is up", FLAG, access=READ_ONLY)] = False
