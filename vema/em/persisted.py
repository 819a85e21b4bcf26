"""What the EM remembers: one record for each thing that must survive kill -9. The store keeps them, core makes them.

Nothing here is trusted blindly after a restart: an agent's digest and generation counts decide whether what is
remembered of it still holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from hfi_sim.types import MacAddr
from vema.em.mac_tables import Owner

NO_MAC: Final = MacAddr(bytes(6))

VportKey = tuple[int, int]
"""GUID of the port, number of the vport."""


@dataclass(frozen=True, slots=True)
class VportRecord:
    """One vport that this EM has given to a virtual switch."""

    guid: int
    vport_num: int
    vesw_id: int
    """0: to be deleted."""
    digest: int = 0
    """What the agent was last seen to have."""
    layout: tuple[int, ...] | None = None
    """Keys of the sections that the agent has under that digest; None: not known."""
    uc_macs: tuple[MacAddr, ...] = ()
    uc_gen: int | None = None
    """Generation count under which the list was read; None: it was not."""
    mc_macs: tuple[MacAddr, ...] = ()
    mc_gen: int | None = None
    base_mac: MacAddr = NO_MAC

    @property
    def key(self) -> VportKey:
        """Port and number."""
        return (self.guid, self.vport_num)


@dataclass(frozen=True, slots=True)
class SlotsRecord:
    """Who owns which slot of a virtual switch's MAC table."""

    vesw_id: int
    slots: tuple[tuple[Owner, MacAddr], ...]


@dataclass(frozen=True, slots=True)
class Tombstone:
    """Deletes the record with this key."""

    key: VportKey | int
    """The key of a vport or the id of a virtual switch."""


@dataclass(frozen=True, slots=True)
class EventRecord:
    """Something that a person may want to know of."""

    kind: str
    port: str = ""
    vport_num: int | None = None
    vesw_id: int | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class CountersRecord:
    """One reading of the counters of a vport."""

    guid: int
    vport_num: int
    vesw_id: int
    values: Mapping[str, int]


Record = VportRecord | SlotsRecord | Tombstone | EventRecord | CountersRecord


@dataclass(slots=True)
class Memory:
    """The records with which an EM starts."""

    vports: Sequence[VportRecord] = ()
    slots: Sequence[SlotsRecord] = ()
    config: str | None = field(default=None)
    """The configuration that was applied last, as text."""
