"""What the Ethernet Manager of a lab says: virtual switches, vports, MAC tables, counters, events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import ConfigDict

from opavnic.base.state import Counter, StateModel

if TYPE_CHECKING:
    from vema.em.store.persisted import EventRecord


class EmState(StateModel):
    """How the manager is."""

    role: Literal["master", "standby", "leaving"]
    converged: bool
    """Whether every reachable agent is configured as desired."""
    trouble: list[str]
    """What keeps it from converging."""
    vesws: int
    vports: int
    ports: int
    """HFI ports in service that announce Ethernet."""
    silent: list[str]
    """Ports whose agents do not answer."""
    sets: int
    """Sets sent since its start."""
    program: EmProgramState | None = None
    """Where the manager is a program of its own."""


class EmProgramState(StateModel):
    """A manager that is a program on a umad device."""

    pid: int
    version: str
    device: str
    port: str
    guid: str
    state: str
    """Of the port; `gone`: the device has disappeared."""
    lid: int
    sm_lid: int
    pkey: int
    """Of the management partition, as the port has it; 0: none."""
    config: str
    database: str
    only: list[str]
    """The hosts that it keeps to; empty: all."""
    started_at: float
    """Seconds since 1970."""
    mads_sent: int
    mads_received: int
    mads_timed_out: int
    mads_foreign: int
    """MADs that no request or agent of the manager awaited, or that are malformed."""
    device_silent_s: float
    """Seconds for which the device has not taken a MAD that is being written to it."""


class AddressMoves(StateModel):
    """How the MAC addresses of a virtual switch move between its members, where the manager learns them."""

    name: str
    """Of the virtual switch."""
    moves: Annotated[
        int,
        Counter("moves", "How often a MAC address has moved from one member to another.", metric="mac_moves"),
    ]
    holds: Annotated[
        int,
        Counter(
            "holds",
            "How often a MAC address has moved too often, and was held where it was.",
            metric="mac_holds",
        ),
    ]
    held: list[str]
    """MAC addresses that have moved too often, and stay where they are for now."""

    @property
    def held_lines(self) -> list[str]:
        """What people are told of the addresses that are held."""
        why = "moves too often between members, and stays where it is for now"
        return [f"{self.name}: {mac} {why}" for mac in self.held]


class VeswStatus(AddressMoves):
    """A virtual switch as the manager has planned it."""

    id: int
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
    def of(cls, stored: EventRecord) -> EmEvent:
        """Return an event of the manager's database."""
        return cls.model_validate(stored, from_attributes=True)


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
