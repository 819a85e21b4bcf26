"""The partition table of a port, and the two questions that enforcement asks of it.

Source: InfiniBand's partition rules, which OPA keeps: bit 15 is full membership, two limited members of one
partition do not talk to each other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from hfi_sim.base.types import PKEY_FULL_MEMBER, PKEY_LIMITED_MANAGEMENT, Pkey


@dataclass(frozen=True, slots=True)
class PkeyTable:
    """An immutable table of P_Keys; the subnet manager gives a port a new one whole."""

    entries: tuple[Pkey, ...] = (PKEY_LIMITED_MANAGEMENT,)
    """As they stand in the table; 0: an empty place."""
    sendable: frozenset[int] = field(init=False, repr=False, compare=False)
    """P_Keys that `may_send` answers yes to."""
    admitted: frozenset[int] = field(init=False, repr=False, compare=False)
    """P_Keys that `admits` answers yes to."""

    def __post_init__(self) -> None:
        used = [entry for entry in self.entries if entry]
        _check(used)
        admitted: set[int] = set()
        for entry in used:
            admitted.add(entry | PKEY_FULL_MEMBER)
            if entry & PKEY_FULL_MEMBER:
                admitted.add(entry & 0x7FFF)
        object.__setattr__(self, "sendable", frozenset(used))
        object.__setattr__(self, "admitted", frozenset(admitted))

    @classmethod
    def of(cls, entries: Iterable[int]) -> PkeyTable:
        """Return a table of `entries`, duplicates removed, order kept."""
        table = tuple(dict.fromkeys(Pkey(entry) for entry in entries))
        _check(table)
        return cls(table)

    @classmethod
    def in_places(cls, entries: Iterable[int]) -> PkeyTable:
        """Return a table with these at their places; one that names no partition is an empty place."""
        places = [Pkey(entry if entry & 0x7FFF else 0) for entry in entries]
        while places and not places[-1]:
            places.pop()
        return cls(tuple(places))

    def may_send(self, pkey: int) -> bool:
        """Return whether a packet that leaves this port may bear `pkey`: it stands in the table."""
        return pkey in self.sendable

    def admits(self, pkey: int) -> bool:
        """Return whether a packet with `pkey` may enter: same partition, and not both members limited."""
        return pkey in self.admitted

    @property
    def borne(self) -> frozenset[int]:
        """P_Keys that a packet may bear which comes from a port with this table, as a switch at its link sees it.

        What stands in the table, and of a partition with a full member also the P_Key of a limited one: a subnet
        manager may give the switch full membership where its neighbour has limited. Never the other way round.
        """
        return self.sendable | {entry & 0x7FFF for entry in self.sendable if entry & PKEY_FULL_MEMBER}

    @property
    def management(self) -> Pkey:
        """The P_Key this port puts on MADs: full management where it has it, else limited."""
        return self.answering(PKEY_LIMITED_MANAGEMENT)

    def answering(self, pkey: int) -> Pkey:
        """Return this port's own P_Key of the partition that `pkey` names: full where it has it, else limited."""
        full = Pkey(pkey | PKEY_FULL_MEMBER)
        return full if full in self.sendable else Pkey(pkey & ~PKEY_FULL_MEMBER)


def _check(entries: Iterable[int]) -> None:
    for entry in entries:
        if not entry & 0x7FFF or not 0 < entry <= 0xFFFF:
            raise ValueError(f"P_Key {entry:#06x} names no partition: its low 15 bits must be 1 to 0x7fff")
