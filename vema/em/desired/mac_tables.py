"""The MAC table of a virtual switch: its slots, its sections (one MAD each), and its digest.

All members share the slots, so a section is encoded once for all of them. A member's own addresses are holes in its
table: a change at one member affects only the tables of the others, and only the sections with its slots.

The digest is a hash of the entries of a table, regardless of their positions: the sum of the hashes of the entries,
folded to 32 bits. So it can be updated as entries come and go, and an EM that has lost its database can still verify a
table. 0 is the digest of an empty table, which agents start with. `DIRTY` marks an update in progress: only the last
Set of an update carries the digest of the whole table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Final, NamedTuple

from hfi_sim.base.types import MacAddr
from vema.attributes.mac_entries import MAX_SECTION, MacEntry
from vema.base.types import MAC_TABLE_ENTRIES, TABLE_REWRITTEN
from vema.em.desired.movement import ASSIGNED, EARLIER, AddressClaim, Move, Movement, Owner

DIRTY: Final = TABLE_REWRITTEN
"""The digest of a table that is being rewritten."""
EMPTY: Final = 0
"""The digest of an empty table, and the key of an empty section."""
SECTIONS: Final = -(-MAC_TABLE_ENTRIES // MAX_SECTION)
"""Sections that cover a whole table."""

ENTRY: Final = MacEntry.HEADER.codec
"""One entry as in VeswPortMacEntries: address, mask, LID << 8."""
_MASK: Final = bytes(b"\xff" * 6)
_HOLE: Final = bytes(ENTRY.size)
_UINT64: Final = (1 << 64) - 1
_UINT32: Final = (1 << 32) - 1

Conflict = tuple[MacAddr, Owner, Owner]
"""An address that the EM has given to one member and another reports: the address, that member, the other."""


class MemberAddress(NamedTuple):
    """An address of a member."""

    mac: MacAddr
    lid: int
    """The LID behind it."""
    since: float = EARLIER
    """When the EM first read it; `ASSIGNED`, `EARLIER`, `ABSENT`."""


@lru_cache(maxsize=65536)
def entry_hash(entry: bytes) -> int:
    """Return the hash of one entry, 64 bits."""
    return int.from_bytes(blake2b(entry, digest_size=8).digest(), "big")


def section_key(section: bytes) -> int:
    """Return a hash of a section's contents, 63 bits; 0 if it contains only holes."""
    if not section.strip(b"\0"):
        return EMPTY
    return int.from_bytes(blake2b(section, digest_size=8).digest(), "big") >> 1


def fold(total: int) -> int:
    """Return the digest for a sum of entry hashes: 32 bits, never `DIRTY`, 0 only for an empty table."""
    total &= _UINT64
    if total == 0:
        return EMPTY
    digest = (total ^ total >> 32) & _UINT32
    return digest if digest > DIRTY else digest + 2


def digest_of(entries: Iterable[bytes]) -> int:
    """Return the digest of a table with these entries (16 bytes each), ignoring holes."""
    return fold(sum(entry_hash(entry) for entry in entries if entry != _HOLE))


def section_range(index: int) -> tuple[int, int]:
    """Return the first slot and the number of slots of a section; the last section is shorter."""
    first = index * MAX_SECTION
    return first, min(MAX_SECTION, MAC_TABLE_ENTRIES - first)


@dataclass(frozen=True, slots=True)
class MemberTable:
    """The desired table of one member."""

    sections: tuple[bytes, ...]
    """Entries of each section, 16 bytes each, including holes."""
    keys: tuple[int, ...]
    """The key of each section."""
    digest: int

    def section(self, index: int) -> bytes:
        """Return the entries of a section, filled with holes beyond the end of the table."""
        if index < len(self.sections):
            return self.sections[index]
        return _HOLE * section_range(index)[1]

    def key(self, index: int) -> int:
        """Return the key of a section."""
        return self.keys[index] if index < len(self.keys) else EMPTY

    def changes(self, layout: Sequence[int] | None) -> list[int]:
        """Return the sections to send to an agent whose sections have the keys in `layout`.

        Args:  layout: keys; beyond its end there are holes; None if the table of the agent is unknown.
        """
        if layout is None:
            return list(range(SECTIONS))
        length = max(len(layout), len(self.keys))
        return [n for n in range(length) if self.key(n) != (layout[n] if n < len(layout) else EMPTY)]


NO_TABLE: Final = MemberTable((), (), EMPTY)
"""The table of a member of a virtual switch that does not learn."""


class VeswTable:
    """The slots of one virtual switch. An address keeps its slot as long as it exists."""

    def __init__(self, slots: Sequence[tuple[Owner, MacAddr]] = ()) -> None:
        """Start with the slots of an earlier run (owner and address), whose LIDs `update` will fill in."""
        self._entries: list[bytes] = [_HOLE] * len(slots)
        self._owners: list[Owner] = [owner for owner, _ in slots]
        self._slot_of: dict[MacAddr, int] = {mac: at for at, (_, mac) in enumerate(slots) if any(mac)}
        self._own: dict[Owner, list[int]] = {}
        self._total = 0
        self._shared: list[tuple[bytes, int]] = []
        self.left_out: tuple[MacAddr, ...] = ()
        """Addresses without a slot because the table is full; frames to them go to the default ports or the group."""
        self.conflicts: tuple[Conflict, ...] = ()
        self.moves: tuple[Move, ...] = ()
        """Addresses that the last update has moved."""
        self.movement = Movement()

    def slots(self) -> list[tuple[Owner, MacAddr]]:
        """Return owner and address of each slot, to be stored; the address of a free slot is zero."""
        macs = [MacAddr(bytes(6))] * len(self._entries)
        for mac, at in self._slot_of.items():
            macs[at] = mac
        return list(zip(self._owners, macs, strict=True))

    def entries(self) -> list[tuple[int, MacAddr, int, Owner]]:
        """Return slot, address, LID and owner of each entry, in slot order."""
        listed = []
        for at, entry in enumerate(self._entries):
            if entry != _HOLE:
                mac, _, dlid_sd = ENTRY.unpack(entry)
                listed.append((at, MacAddr(mac), dlid_sd >> 8, self._owners[at]))
        return listed

    def update(self, members: Mapping[Owner, Iterable[MemberAddress]], now: float = 0.0) -> bool:
        """Set the addresses of all members; return whether any table changes.

        An address of several members belongs to the one that the EM has given it to, or else to the last one to report
        it, unless it is held (see `movement`). Of those that report it since an earlier run, its owner keeps it.
        """
        self.movement.expire(now)
        wanted = self._wanted(members, now)
        for mac in [mac for mac in self._slot_of if mac not in wanted]:
            at = self._slot_of.pop(mac)
            self._entries[at], self._owners[at] = _HOLE, 0
            self.movement.forget(mac)
        free = iter(sorted(set(range(MAC_TABLE_ENTRIES)) - set(self._slot_of.values())))
        left_out, moves = [], []
        for mac, claim in wanted.items():
            at = self._slot_of.get(mac, -1)
            if at < 0:
                at = next(free, -1)
                if at < 0:
                    left_out.append(mac)
                    continue
                self._slot_of[mac] = at
                self._grow(at + 1)
            elif self._owners[at] != claim.owner:
                moves.append((mac, self._owners[at], claim.owner))
                self.movement.moved(mac, now)
            self._entries[at], self._owners[at] = ENTRY.pack(mac, _MASK, claim.lid << 8), claim.owner
        self.left_out, self.moves = tuple(left_out), tuple(moves)
        return self._encode()

    def _wanted(
        self, members: Mapping[Owner, Iterable[MemberAddress]], now: float
    ) -> dict[MacAddr, AddressClaim]:
        """Return the member of each address; note conflicts."""
        wanted: dict[MacAddr, AddressClaim] = {}
        contested: dict[MacAddr, list[AddressClaim]] = {}
        for owner, addresses in members.items():
            for mac, lid, since in addresses:
                if not any(mac):
                    continue
                claim = AddressClaim(owner, lid, since)
                first = wanted.setdefault(mac, claim)
                if first.owner != owner:
                    contested.setdefault(mac, [first]).append(claim)
        conflicts = []
        for mac, claims in contested.items():
            chosen = self.movement.choose(mac, claims, self.owner_of(mac), now)
            wanted[mac] = chosen
            if chosen.since == ASSIGNED:
                conflicts += [(mac, chosen.owner, claim.owner) for claim in claims if claim is not chosen]
        self.conflicts = tuple(conflicts)
        return wanted

    def owner_of(self, mac: MacAddr) -> Owner:
        """Return the owner of an address; 0: it has no slot."""
        at = self._slot_of.get(mac)
        return 0 if at is None else self._owners[at]

    def _grow(self, length: int) -> None:
        missing = length - len(self._entries)
        self._entries += [_HOLE] * missing
        self._owners += [0] * missing

    def _encode(self) -> bool:
        while self._entries and self._entries[-1] == _HOLE:
            self._entries.pop()
            self._owners.pop()
        own: dict[Owner, list[int]] = {}
        for at, entry in enumerate(self._entries):
            if entry != _HOLE:
                own.setdefault(self._owners[at], []).append(at)
        shared = []
        for index in range(-(-len(self._entries) // MAX_SECTION)):
            first, count = section_range(index)
            section = b"".join(self._entries[first : first + count]).ljust(count * ENTRY.size, b"\0")
            known = self._shared[index] if index < len(self._shared) else None
            shared.append(known if known and known[0] == section else (section, section_key(section)))
        changed = own != self._own or shared != self._shared
        self._own, self._shared = own, shared
        self._total = sum(entry_hash(entry) for entry in self._entries if entry != _HOLE)
        return changed

    def digest_for(self, owner: Owner) -> int:
        """Return the digest of a member's table, which excludes its own addresses."""
        own = self._own.get(owner, ())
        return fold(self._total - sum(entry_hash(self._entries[at]) for at in own))

    def table_for(self, owner: Owner) -> MemberTable:
        """Return a member's table. Sections without its own addresses are the same objects for all members."""
        patched: dict[int, bytearray] = {}
        for at in self._own.get(owner, ()):
            index, place = divmod(at, MAX_SECTION)
            section = patched.setdefault(index, bytearray(self._shared[index][0]))
            section[place * ENTRY.size : (place + 1) * ENTRY.size] = _HOLE
        sections, keys = [], []
        for index, (section_bytes, key) in enumerate(self._shared):
            if index in patched:
                section_bytes = bytes(patched[index])
                key = section_key(section_bytes)
            sections.append(section_bytes)
            keys.append(key)
        return MemberTable(tuple(sections), tuple(keys), self.digest_for(owner))
