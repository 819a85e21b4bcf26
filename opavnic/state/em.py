"""What the Ethernet Manager of a lab says: virtual switches, vports, MAC tables, counters, events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from pydantic import ConfigDict

from opavnic.base.state import StateModel

if TYPE_CHECKING:
    from vema.em.store.rows import StoredEvent


class VeswStatus(StateModel):
    """A virtual switch as the manager has planned it."""

    id: int
    name: str
    pkey: int
    mtu: int
    mac: str
    """The MAC policy."""
    multicast_lid: int
    members: list[str]
    """HFI ports."""
    default_lids: list[int]
    addresses: int
    """Entries of its MAC table."""
    left_out: list[str]
    """MAC addresses for which the table has no room."""


class EmVesws(StateModel):
    """Virtual switches."""

    vesws: Sequence[VeswStatus]


class VportStatus(StateModel):
    """A vport, and how far it is configured."""

    port: str
    lid: int
    vport_num: int
    vesw_id: int
    state: str
    """`ok`: as the manager wants it; else what is missing."""
    link: Literal["up", "down"]
    base_mac: str
    unicast: list[str]
    multicast: list[str]
    digest: int
    """Of its MAC table."""


class EmVports(StateModel):
    """Vports."""

    vports: Sequence[VportStatus]


class MacTableRow(StateModel):
    """One entry of a MAC table."""

    vesw_id: int
    slot: int
    mac: str
    lid: int
    port: str
    """The HFI port with the address; empty: given by the configuration."""


class EmMacTable(StateModel):
    """MAC tables."""

    mac_table: Sequence[MacTableRow]


class CounterReading(StateModel):
    """The counters of a vport as the manager has read them; each by its name."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, int]

    time: float
    """Seconds since 1970."""
    port: str
    vport_num: int
    vesw_id: int

    @property
    def values(self) -> dict[str, int]:
        """The counters by name."""
        return self.__pydantic_extra__


class EmCounters(StateModel):
    """Readings, oldest first."""

    counters: Sequence[CounterReading]


class EmEvent(StateModel):
    """Something that has happened."""

    number: int
    time: float
    """Seconds since 1970."""
    kind: str
    port: str
    """HFI port; empty: it concerns none."""
    vport_num: int | None
    vesw_id: int | None
    text: str

    @classmethod
    def of(cls, stored: StoredEvent) -> EmEvent:
        """Return an event of the manager's database."""
        event = stored.event
        return cls(
            number=stored.number,
            time=stored.time,
            kind=event.kind,
            port=event.port,
            vport_num=event.vport_num,
            vesw_id=event.vesw_id,
            text=event.text,
        )


class EmEvents(StateModel):
    """Events, oldest first."""

    events: Sequence[EmEvent]


class EmApplied(StateModel):
    """A configuration was applied."""

    changes: list[str]
    sets: int = 0
    """Sets sent; not there where it was only asked what would change."""
    converged: bool = False
    """Whether the fabric has converged; not there where it was only asked what would change."""


class EmRestarted(StateModel):
    """The manager was restarted."""

    sets: int
    """Sets sent since."""
    converged: bool


class EmVerified(StateModel):
    """What agents have was compared with the configuration."""

    differences: list[str]
