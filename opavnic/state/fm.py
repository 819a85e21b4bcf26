"""What a real fabric manager says of a fabric, beside what the fabric is; `differs` of a row says what contradicts."""

from __future__ import annotations

from opavnic.base.state import StateModel


class FmRow(StateModel):
    """One thing in both views."""

    differs: str
    """What contradicts; empty if nothing does."""


class FmManager(FmRow):
    """A subnet manager."""

    port: str
    state: str
    priority: int
    lid: int
    for_s: int
    """For how long, as it says."""


class FmNode(FmRow):
    """An HFI port or a switch."""

    name: str
    kind: str
    guid: str
    attached: bool
    """Whether cables that are up lead to it."""
    lid: int | None
    fm_name: str
    fm_lid: int | None


class FmStates(FmRow):
    """The state of a port or of a link, and the one that the fabric manager gives it."""

    name: str
    state: str
    fm_state: str


class FmVirtualFabric(FmRow):
    """A virtual fabric, and the virtual switches of the lab that need it."""

    name: str
    pkey: str
    sl: int | None
    mtu: int | None
    qos: bool
    vesws: list[str]


class FmView(StateModel):
    """Both views side by side."""

    managers: list[FmManager]
    nodes: list[FmNode]
    ports: list[FmStates]
    links: list[FmStates]
    virtual_fabrics: list[FmVirtualFabric]
    differences: int
    """Rows that differ."""
    errors: dict[str, str]
    """Why a table was not given, by its attribute."""


class FmStatus(StateModel):
    """The fabric manager of a lab. All but the state is not there until one has come."""

    state: str
    sm_lid: int = 0
    host: str = ""
    """The host that it runs on; empty: none is known."""
    for_s: float = 0.0
    """For how long it has been in this state."""


class FmState(FmView, FmStatus):
    """The fabric manager of a lab and its view."""
