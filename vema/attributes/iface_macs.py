"""IfaceUcastMacs 0x0013 and IfaceMcastMacs 0x0014: the addresses a netdev listens to. Big-endian, read only.

Source: seed 001, "interface MAC lists"; the public driver's opa_vnic_query_ucast_macs() and
opa_vnic_query_mcast_macs().
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, Self

from hfi_sim.base.types import MacAddr
from hfi_sim.wire.field import BITS_PER_BYTE, MAC, Field
from hfi_sim.wire.header import Header, annotated
from vema.base.types import READ_ONLY, READ_WRITE

MAX_MACS: Final = 333
"""Addresses that fit the 2008 data bytes of a MAD."""
_MAC_SIZE: Final = 6
_MAC: Final = Field(_MAC_SIZE * BITS_PER_BYTE, "6 bytes each", MAC, access=READ_ONLY)


@dataclass(frozen=True, slots=True)
class IfaceMacs:
    """A consecutive part of an address list."""

    HEADER: ClassVar[Header]
    """The fields before the addresses."""
    ITEM: ClassVar[Header]
    """An address of the list."""
    LAYOUT: ClassVar[Header]
    """The whole attribute with as many addresses as fit."""

    start: Annotated[int, Field(16, "index of the first address wanted; echoed", access=READ_WRITE)]
    num_macs: Annotated[
        int, Field(16, "how many are wanted, 0: up to 333; how many are here", access=READ_WRITE)
    ]
    """In a request, the number wanted (0: as many as fit); in a response, the number of `macs`."""
    total: Annotated[int, Field(16, "addresses in the whole list", access=READ_ONLY)] = 0
    gen_count: Annotated[
        int, Field(16, "readings of the list by the driver, modulo 2**16", access=READ_ONLY)
    ] = 0
    macs: tuple[MacAddr, ...] = ()

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read a response, with `num_macs` addresses or, if the data is shorter, those that it holds.

        Raises:  WireError: fewer than 8 bytes.
        """
        request = cls.parse_request(data)
        head = cls.HEADER.size
        end = min(head + request.num_macs * _MAC_SIZE, len(data) - _MAC_SIZE + 1)
        macs = tuple(MacAddr(data[at : at + _MAC_SIZE]) for at in range(head, end, _MAC_SIZE))
        return cls(request.start, request.num_macs, request.total, request.gen_count, macs)

    @classmethod
    def parse_request(cls, data: bytes) -> Self:
        """Read only the header, which is all that matters in a request.

        Raises:  WireError: fewer than 8 bytes.
        """
        cls.HEADER.check_size(data)
        return cls(*cls.HEADER.unpack(data))

    def build(self) -> bytes:
        """Return header and addresses.

        Raises:  ValueError: a value does not fit its field.
        """
        return self.HEADER.pack(self) + b"".join(self.macs)


def _header(fields: Mapping[str, Field]) -> Header:
    return Header("IfaceMacs", "IfaceMacs", "big", fields, module=__name__, names_itself=True)


IfaceMacs.HEADER = _header(annotated(IfaceMacs))
IfaceMacs.ITEM = _header({"macs": _MAC})
IfaceMacs.LAYOUT = _header({**IfaceMacs.HEADER.fields, "macs": dataclasses.replace(_MAC, count=MAX_MACS)})
