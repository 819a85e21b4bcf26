"""IfaceUcastMacs 0x0013 and IfaceMcastMacs 0x0014: the addresses a netdev listens to. Big-endian, read only.

Source: seed 001, "interface MAC lists"; the public driver's opa_vnic_query_ucast_macs() and
opa_vnic_query_mcast_macs().
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, Self

import construct

from hfi_sim.types import MacAddr
from vema.attributes.fields import READ_ONLY, READ_WRITE, check_size, misfit, note

MAX_MACS: Final = 333
"""Addresses that fit the 2008 data bytes of a MAD."""
_MAC_SIZE: Final = 6

LAYOUT: Final = construct.Struct(
    "start" / construct.Int16ub * note(READ_WRITE, "index of the first address wanted; echoed"),
    "num_macs" / construct.Int16ub * note(READ_WRITE, "how many are wanted, 0: up to 333; how many are here"),
    "total" / construct.Int16ub * note(READ_ONLY, "addresses in the whole list"),
    "gen_count" / construct.Int16ub * note(READ_ONLY, "changes of the list so far, modulo 2**16"),
    "macs" / construct.Bytes(MAX_MACS * _MAC_SIZE) * note(READ_ONLY, "6 bytes each"),
)
"""The whole attribute with as many addresses as fit."""

_HEADER: Final = struct.Struct(">HHHH")


@dataclass(frozen=True, slots=True)
class IfaceMacs:
    """One stretch of an address list."""

    start: int
    """Index of the first address."""
    num_macs: int
    """In a request, how many are wanted (0: as many as fit); in a response, how many there are."""
    total: int = 0
    gen_count: int = 0
    macs: tuple[MacAddr, ...] = ()

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read a response; of the addresses, as many as `num_macs` says and the data holds.

        Raises:  WireError: fewer than 8 bytes.
        """
        request = cls.parse_request(data)
        end = min(_HEADER.size + request.num_macs * _MAC_SIZE, len(data) - _MAC_SIZE + 1)
        macs = tuple(MacAddr(data[at : at + _MAC_SIZE]) for at in range(_HEADER.size, end, _MAC_SIZE))
        return cls(request.start, request.num_macs, request.total, request.gen_count, macs)

    @classmethod
    def parse_request(cls, data: bytes) -> Self:
        """Read the header alone, which is all that counts in a request.

        Raises:  WireError: fewer than 8 bytes.
        """
        check_size("IfaceMacs", data, _HEADER.size)
        return cls(*_HEADER.unpack_from(data))

    def build(self) -> bytes:
        """Return header and addresses.

        Raises:  ValueError: a value does not fit its field.
        """
        try:
            header = _HEADER.pack(self.start, self.num_macs, self.total, self.gen_count)
        except struct.error:
            raise misfit("IfaceMacs", LAYOUT, self) from None
        return header + b"".join(self.macs)
