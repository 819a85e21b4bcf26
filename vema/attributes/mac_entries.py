"""VeswPortMacEntries, attribute 0x0012: a section of the MAC table of a vport. Big-endian.

Eight bytes of header, then up to 125 entries of 16 bytes. A Set replaces the entries from `offset` on, as many
as it has, and leaves the rest of the table alone.

Source: seed 001, "MAC table"; the public driver's vema_set_mac_entries() and opa_vnic_update_mac_tbl().
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Final, Self

import construct

from hfi_sim.errors import WireError
from hfi_sim.types import MacAddr
from vema.attributes.fields import READ_WRITE, check_size, misfit, note
from vema.types import MAC_TABLE_ENTRIES

MAX_SECTION: Final = 125
"""Entries that fit the 2008 data bytes of a MAD."""
SOURCE_ENTRY: Final = 0x20
"""Bit of dlid_sd: the entry names a source address that the vport may send from, not a destination."""

ENTRY_LAYOUT: Final = construct.Struct(
    "mac" / construct.Bytes(6) * note(READ_WRITE, "MAC address; all zero removes the entry"),
    "mask" / construct.Bytes(6) * note(READ_WRITE, "mask of the address; destinations are compared whole"),
    "dlid_sd" / construct.Int32ub * note(READ_WRITE, "bits 8-31: LID; bit 5: source entry; others kept"),
)
"""One entry."""

HEADER_LAYOUT: Final = construct.Struct(
    "offset" / construct.Int16ub * note(READ_WRITE, "index of the first entry, 0 to 2048"),
    "num_entries" / construct.Int16ub * note(READ_WRITE, "number of entries, 0 to 125"),
    "digest" / construct.Int32ub * note(READ_WRITE, "the EM's digest of the whole table; a Get ignores it"),
)
"""What stands before the entries."""

LAYOUT: Final = construct.Struct(
    *HEADER_LAYOUT.subcons,
    "entries" / construct.Array(MAX_SECTION, ENTRY_LAYOUT) * note(READ_WRITE, "16 bytes each, see below"),
)
"""The whole attribute with as many entries as fit."""

_HEADER: Final = struct.Struct(">HHI")
_ENTRY: Final = struct.Struct(">6s6sI")
_EMPTY: Final = bytes(_ENTRY.size)
_NO_MAC: Final = bytes(6)


@dataclass(frozen=True, slots=True)
class MacEntry:
    """One entry of the MAC table."""

    SIZE: ClassVar[int] = 16

    mac: MacAddr
    mask: bytes
    """6 bytes."""
    dlid_sd: int
    """32 bits: LID and side data."""

    @property
    def dlid(self) -> int:
        """The LID behind the address, 24 bits."""
        return self.dlid_sd >> 8

    @property
    def is_source(self) -> bool:
        """Whether the entry names an allowed source rather than a destination."""
        return bool(self.dlid_sd & SOURCE_ENTRY)

    def build(self) -> bytes:
        """Return the 16 bytes.

        Raises:  ValueError: a value does not fit its field.
        """
        try:
            return _ENTRY.pack(self.mac, self.mask, self.dlid_sd)
        except struct.error:
            raise misfit("MAC entry", ENTRY_LAYOUT, self) from None


@dataclass(frozen=True, slots=True)
class MacEntries:
    """A section: entries from index `offset` on; None is a hole (and, in a Set, a removal)."""

    offset: int
    digest: int
    """32 bits, chosen by the EM."""
    entries: tuple[MacEntry | None, ...] = ()

    @staticmethod
    def parse_range(data: bytes) -> tuple[int, int]:
        """Return offset and number of entries as the header states them, unchecked.

        Raises:  WireError: fewer than 8 bytes.
        """
        check_size("VeswPortMacEntries", data, _HEADER.size)
        offset, num_entries, _ = _HEADER.unpack_from(data)
        return offset, num_entries

    @staticmethod
    def range_fits(offset: int, num_entries: int) -> bool:
        """Return whether a section lies inside the table and fits a MAD; an empty one may start at its end."""
        return num_entries <= MAX_SECTION and offset + num_entries <= MAC_TABLE_ENTRIES

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read the attribute at the start of `data`. An entry with a zero address is a hole.

        Raises:  WireError: truncated, or a range that does not fit.
        """
        check_size("VeswPortMacEntries", data, _HEADER.size)
        offset, num_entries, digest = _HEADER.unpack_from(data)
        if not cls.range_fits(offset, num_entries):
            raise WireError(
                "num_entries",
                2,
                f"{num_entries} entries from {offset}: at most {MAX_SECTION}, and within {MAC_TABLE_ENTRIES}",
            )
        end = _HEADER.size + num_entries * _ENTRY.size
        check_size("VeswPortMacEntries", data, end)
        return cls(offset, digest, _parse_entries(bytes(data[_HEADER.size : end])))

    def build(self) -> bytes:
        """Return header and entries; holes are zero.

        Raises:  ValueError: a value does not fit its field.
        """
        try:
            header = _HEADER.pack(self.offset, len(self.entries), self.digest)
        except struct.error:
            raise misfit("VeswPortMacEntries", HEADER_LAYOUT, self) from None
        return header + b"".join(_EMPTY if entry is None else entry.build() for entry in self.entries)


@lru_cache(maxsize=256)
def _parse_entries(data: bytes) -> tuple[MacEntry | None, ...]:
    """Read entries. All members of a virtual switch get nearly the same sections: they share the values."""
    return tuple(
        None if mac == _NO_MAC else MacEntry(mac, mask, dlid_sd)
        for mac, mask, dlid_sd in _ENTRY.iter_unpack(data)
    )
