"""The records of the EM: state that must survive `kill -9`. `vema.em.core` creates them, the database keeps them.

After a restart, the digest and the generation counts of an agent show whether its record is still valid.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hfi_sim.base.types import MacAddr
from vema.em.desired.movement import Owner

NO_MAC: Final = MacAddr(bytes(6))

VportKey = tuple[int, int]
"""GUID of the port, number of the vport."""


@dataclass(frozen=True, slots=True)
class VportRecord:
    """A vport that this EM has assigned to a virtual switch."""

    guid: int
    vport_num: int
    vesw_id: int
    """0: to be deleted."""
    digest: int = 0
    """The last known digest of the agent."""
    layout: tuple[int, ...] | None = None
    """Keys of the sections of the agent's table with that digest; None: unknown."""
    uc_macs: tuple[MacAddr, ...] = ()
    uc_gen: int | None = None
    """Generation count when the list was read; None: never."""
    mc_macs: tuple[MacAddr, ...] = ()
    mc_gen: int | None = None
    base_mac: MacAddr = NO_MAC

    @property
    def key(self) -> VportKey:
        """Port and number."""
        return (self.guid, self.vport_num)


@dataclass(frozen=True, slots=True)
class SlotsRecord:
    """The slots of a virtual switch's MAC table, with the owner and address of each."""

    vesw_id: int
    slots: tuple[tuple[Owner, MacAddr], ...]


@dataclass(frozen=True, slots=True)
class Tombstone:
    """Deletes the record with this key."""

    key: VportKey | int
    """The key of a vport or the id of a virtual switch."""


@dataclass(frozen=True, slots=True)
class EventRecord:
    """An event to show to the user."""

    kind: str
    port: str = ""
    vport_num: int | None = None
    vesw_id: int | None = None
    text: str = ""
    number: int = 0
    time: float = 0.0
    """Number, and seconds since 1970, as the database has them; 0: it is not stored yet."""


@dataclass(frozen=True, slots=True)
class CountersRecord:
    """One reading of the counters of a vport."""

    guid: int
    vport_num: int
    vesw_id: int
    values: Mapping[str, int]
    time: float = 0.0
    """As that of an event."""


Record = VportRecord | SlotsRecord | Tombstone | EventRecord | CountersRecord


@dataclass(slots=True)
class Memory:
    """The records that an EM starts with."""

    vports: Sequence[VportRecord] = ()
    slots: Sequence[SlotsRecord] = ()
    config: str | None = None
    """The last applied configuration, as text."""
