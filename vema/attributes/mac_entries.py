"""VeswPortMacEntries, attribute 0x0012: a section of the MAC table of a vport. Big-endian.

Eight bytes of header, then up to 125 entries of 16 bytes. A Set replaces as many entries as it contains, from
`offset` on, and leaves the rest of the table unchanged.

Source: seed 001, "MAC table"; the public driver's vema_set_mac_entries() and opa_vnic_update_mac_tbl().
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, ClassVar, Final, Self

from hfi_sim.base.errors import WireError
from hfi_sim.base.types import MacAddr
from hfi_sim.wire.field import HEX, MAC, Field
from hfi_sim.wire.header import Header, WireHeader, declared
from vema.base.types import MAC_TABLE_ENTRIES, READ_WRITE

MAX_SECTION: Final = 125
"""Entries that fit the 2008 data bytes of a MAD."""
SOURCE_ENTRY: Final = 0x20
"""Bit of dlid_sd: the entry names a source address that the vport may send from, not a destination."""

_NO_MAC: Final = bytes(6)
_SIDE_DATA: Final = {"dlid": (0xFFFFFF00, ""), "source_entry": (SOURCE_ENTRY, "")}


@declared("MAC entry", "MAC entry", "big", names_itself=True)
@dataclass(frozen=True, slots=True)
class MacEntry(WireHeader):
    """One entry of the MAC table."""

    mac: Annotated[MacAddr, Field(48, "MAC address; all zero removes the entry", MAC, access=READ_WRITE)]
    mask: Annotated[
        bytes, Field(48, "mask of the address; destinations are compared whole", MAC, access=READ_WRITE)
    ]
    dlid_sd: Annotated[
        int,
        Field(
            32, "bits 8-31: LID; bit 5: source entry; others kept", HEX, parts=_SIDE_DATA, access=READ_WRITE
        ),
    ]

    @property
    def dlid(self) -> int:
        """The LID behind the address, 24 bits."""
        return self.dlid_sd >> 8

    @property
    def is_source(self) -> bool:
        """Whether the entry names an allowed source rather than a destination."""
        return bool(self.dlid_sd & SOURCE_ENTRY)


_EMPTY: Final = bytes(MacEntry.SIZE)


def _header(fields: Mapping[str, Field]) -> Header:
    name = "VeswPortMacEntries"
    return Header(name, name, "big", fields, module=__name__, names_itself=True)


_HEADER: Final = _header(
    {
        "offset": Field(16, "index of the first entry, 0 to 2048", access=READ_WRITE),
        "num_entries": Field(16, "number of entries, 0 to 125", access=READ_WRITE),
        "digest": Field(32, "the EM's digest of the whole table; a Get ignores it", HEX, access=READ_WRITE),
    }
)
_ENTRIES: Final = Field(
    MacEntry.HEADER.bits,
    "16 bytes each, see below",
    count=MAX_SECTION,
    record=MacEntry.HEADER,
    access=READ_WRITE,
)


@dataclass(frozen=True, slots=True)
class MacEntries:
    """A section: entries from index `offset` on; None is a hole (and, in a Set, a removal)."""

    HEADER: ClassVar[Header] = _HEADER
    """The fields before the entries."""
    ITEM: ClassVar[Header] = MacEntry.HEADER
    """An entry."""
    LAYOUT: ClassVar[Header] = _header({**_HEADER.fields, "entries": _ENTRIES})
    """The whole attribute with as many entries as fit."""

    offset: int
    digest: int
    """32 bits, chosen by the EM."""
    entries: tuple[MacEntry | None, ...] = ()

    @property
    def num_entries(self) -> int:
        """Number of entries, holes included."""
        return len(self.entries)

    @staticmethod
    def parse_range(data: bytes) -> tuple[int, int]:
        """Return offset and number of entries from the header, unchecked.

        Raises:  WireError: fewer than 8 bytes.
        """
        offset, num_entries, _ = _HEADER.unpack(data)
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
        offset, num_entries, digest = _HEADER.unpack(data)
        if not cls.range_fits(offset, num_entries):
            raise WireError(
                "num_entries",
                2,
                f"{num_entries} entries from {offset}: at most {MAX_SECTION}, and within {MAC_TABLE_ENTRIES}",
            )
        end = _HEADER.size + num_entries * MacEntry.SIZE
        if len(data) < end:
            raise WireError(_HEADER.name, len(data), f"{len(data)} bytes, {_HEADER.name} needs {end}")
        return cls(offset, digest, _parse_entries(bytes(data[_HEADER.size : end])))

    def build(self) -> bytes:
        """Return header and entries; holes are zero.

        Raises:  ValueError: a value does not fit its field.
        """
        return _HEADER.pack(self) + _build_entries(self.entries)


def _build_entries(entries: Sequence[MacEntry | None]) -> bytes:
    """Return the joined results of `MacEntry.build`, in two thirds of the time: a Set holds up to 125 entries."""
    pack, size = MacEntry.HEADER.codec.pack, len(_NO_MAC)
    try:
        return b"".join(
            [
                _EMPTY
                if entry is None
                else pack(entry.mac, entry.mask, entry.dlid_sd)
                if len(entry.mac) == len(entry.mask) == size
                else entry.build()
                for entry in entries
            ]
        )
    except struct.error:
        return b"".join(_EMPTY if entry is None else entry.build() for entry in entries)


@lru_cache(maxsize=256)
def _parse_entries(data: bytes) -> tuple[MacEntry | None, ...]:
    """Read entries. Cached, as all members of a virtual switch get nearly the same sections."""
    return tuple(
        None if mac == _NO_MAC else MacEntry(mac, mask, dlid_sd)
        for mac, mask, dlid_sd in MacEntry.HEADER.unpack_all(data)
    )
