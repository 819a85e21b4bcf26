"""The MAC table of a vport: an immutable snapshot, replaced whole by each update.

Source: the public driver's opa_vnic_update_mac_tbl() and opa_vnic_chk_mac_tbl(). It keeps entries in hash buckets and
searches a bucket from its head. An update rebuilds every bucket by insertion at the head: first the new entries in
ascending index, then the remaining entries in their previous order. So

- of two entries with the same address in one update, the one with the higher index is found;
- a remaining entry is found before a new one with the same address;
- the order of the remaining entries is reversed by each update.

The search skips source entries; the first other entry with the address ends it, even if its LID is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from vema.attributes.mac_entries import SOURCE_ENTRY, MacEntry

_NO_MASK: Final = 0
_FULL_MASK: Final = (1 << 48) - 1
_UPDATES_MAX: Final = 64
"""Number of updates after which the search order is brought up to date even if it is not needed."""


class SourceFilter:
    """The source entries of a MAC table: which addresses a vport may send from.

    A mask selects the bits to compare; a mask of all zeros or all ones compares the whole address.
    """

    __slots__ = ("exact", "masked")

    def __init__(self, entries: Sequence[MacEntry]) -> None:
        exact: set[bytes] = set()
        masked: list[tuple[int, int]] = []
        for entry in entries:
            mask = int.from_bytes(entry.mask, "big")
            if mask in (_NO_MASK, _FULL_MASK):
                exact.add(entry.mac)
            else:
                masked.append((mask, int.from_bytes(entry.mac, "big") & mask))
        self.exact = frozenset(exact)
        """Addresses that may send."""
        self.masked = tuple(masked)
        """(mask, address under the mask), 48 bits each, most significant byte first."""

    def __bool__(self) -> bool:
        """Whether there is any source entry; without one every address may send."""
        return bool(self.exact or self.masked)

    def admits(self, mac: bytes) -> bool:
        """Return whether a frame with this source address may be sent."""
        if mac in self.exact:
            return True
        value = int.from_bytes(mac, "big")
        return any(value & mask == wanted for mask, wanted in self.masked)


_NO_SOURCES: Final = SourceFilter([])


class Destinations(Mapping[bytes, int]):
    """LID (24 bits, not 0) for each destination address that has one; computed on the first access.

    An EM writes tables in sections, and those of many vports at once, so most intermediate tables are never used.
    """

    __slots__ = ("_dlids", "_resolve", "get")
    get: Any
    """Once the table is computed, the method of its dict, for fast lookups."""

    def __init__(self, resolve: Callable[[], dict[bytes, int]]) -> None:
        self._resolve = resolve
        self._dlids: dict[bytes, int] | None = None
        self.get = self._first_get

    def _first_get(self, mac: bytes, default: int | None = None) -> int | None:
        return self._all().get(mac, default)

    def _all(self) -> dict[bytes, int]:
        if self._dlids is None:
            self._dlids = self._resolve()
            self.get = self._dlids.get
        return self._dlids

    def __getitem__(self, mac: bytes) -> int:
        return self._all()[mac]

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())


Update = tuple[int, Sequence[MacEntry | None]]
"""First index and entries of one update."""


class MacTable:
    """All entries of one vport. `dlids` is what the datapath looks up."""

    __slots__ = ("_by_mac", "_slots", "_updates", "digest", "dlids", "sources")

    def __init__(self) -> None:
        """Create an empty table; `replace_section` creates all others."""
        self._slots: list[MacEntry | None] = []
        self._by_mac: dict[bytes, tuple[int, ...]] = {}
        self._updates: tuple[Update, ...] = ()
        self.digest = 0
        """32 bits, as set by the EM with the last update."""
        self.dlids: Mapping[bytes, int] = Destinations(self._resolve)
        """LID (24 bits, not 0) for each destination address that has one."""
        self.sources = _NO_SOURCES
        """The source entries."""

    def __len__(self) -> int:
        return sum(entry is not None for entry in self._slots)

    def _resolve(self) -> dict[bytes, int]:
        self._work_off()
        dlids: dict[bytes, int] = {}
        for mac, indexes in self._by_mac.items():
            for index in indexes:
                entry = self._slots[index]
                if entry is not None and not entry.is_source:
                    if entry.dlid:
                        dlids[mac] = entry.dlid
                    break
        return dlids

    def _work_off(self) -> None:
        """Bring the search order up to date with the updates: for each address the indexes of its entries."""
        updates, self._updates = self._updates, ()
        if not updates:
            return
        order: dict[bytes, tuple[int, ...]] = {
            entry.mac: (index,) for index, entry in enumerate(self._slots) if entry is not None
        }
        if len(order) == len(self):  # no address appears twice: there is no order to keep
            self._by_mac = order
            return
        by_mac = self._by_mac
        for offset, entries in updates:
            by_mac = _insert(by_mac, offset, entries)
        self._by_mac = by_mac

    def section(self, offset: int, num_entries: int) -> tuple[MacEntry | None, ...]:
        """Return `num_entries` entries from index `offset` on, None for holes."""
        here = self._slots[offset : offset + num_entries]
        return (*here, *(None,) * (num_entries - len(here)))

    def replace_section(self, offset: int, entries: Sequence[MacEntry | None], digest: int) -> MacTable:
        """Return a new table: `entries` from index `offset` on, None for holes, the rest as it was."""
        table = MacTable()
        table.digest = digest
        table._slots = self._slots + [None] * (offset - len(self._slots))
        table._slots[offset : offset + len(entries)] = entries
        while table._slots and table._slots[-1] is None:
            table._slots.pop()
        if len(self._updates) >= _UPDATES_MAX:
            self._work_off()
        table._by_mac = self._by_mac
        table._updates = (*self._updates, (offset, entries))
        if self.sources or any(entry.dlid_sd & SOURCE_ENTRY for entry in entries if entry):
            table.sources = SourceFilter(
                [entry for entry in table._slots if entry is not None and entry.is_source]
            )
        return table

    def entries(self) -> dict[int, MacEntry]:
        """Return all entries by index, ascending."""
        return {index: entry for index, entry in enumerate(self._slots) if entry is not None}


def _insert(
    by_mac: Mapping[bytes, tuple[int, ...]], offset: int, entries: Sequence[MacEntry | None]
) -> dict[bytes, tuple[int, ...]]:
    """Return the search order after one update: new entries in ascending index, then those that stay, at the head."""
    touched = range(offset, offset + len(entries))
    after: dict[bytes, tuple[int, ...]] = {}
    for index, entry in zip(touched, entries, strict=True):
        if entry is not None:
            after[entry.mac] = (index, *after.get(entry.mac, ()))
    for mac, indexes in by_mac.items():
        for index in indexes:
            if index not in touched:
                after[mac] = (index, *after.get(mac, ()))
    return after
