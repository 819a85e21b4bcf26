"""Which hosts of a lab reach which others, as `opavnic check` finds it."""

from __future__ import annotations

from pydantic import Field

from opavnic.base.state import StateModel


class SampledVesw(StateModel):
    """A virtual switch of which not all pairs were asked."""

    vesw: str
    vnics: int
    asked_by_each: int
    """How many others each VNIC has asked."""


class VnicName(StateModel):
    """A VNIC."""

    vesw: str
    host: str


class DownVnic(StateModel):
    """A VNIC with an address that is not up."""

    host: str
    interface: str
    state: str


class AskedPair(StateModel):
    """One direction between two hosts of a virtual switch, with what was asked of it."""

    vesw: str
    source: str = Field(alias="from")
    target: str = Field(alias="to")
    ipv4: bool = False
    """Whether an echo over IPv4 was answered."""
    ipv6: bool = False
    """Whether an echo over IPv6 was answered."""
    mtu: bool = False
    """Whether an echo that fills the MTU was answered."""
    rtt_ms: float = 0.0
    """Of the first that was answered."""


class FailedProbe(StateModel):
    """An echo that did not end as it should."""

    kind: str
    """ipv4, ipv6, mtu, oversize, isolation."""
    vesw: str
    source: str = Field(alias="from")
    target: str | None = Field(alias="to")
    """null: all hosts of the virtual switch."""
    address: str
    what: str
    """What is wrong, in words."""


class ReachState(StateModel):
    """Whether every host reaches every other host of its virtual switches, and no other host."""

    ok: bool
    lab: str
    seconds: float
    probes: int
    """Echoes."""
    seed: int
    """The sample was drawn from it."""
    sampled: list[SampledVesw]
    vnics: list[VnicName]
    """The VNICs that were up."""
    pairs: list[AskedPair]
    oversize_refused: bool
    """Whether each kernel has refused a packet of one byte more than the MTU."""
    isolated: bool
    """Whether no virtual switch has heard what was sent to all hosts of another."""
    failures: list[FailedProbe]
    down: list[DownVnic]
    not_asked: list[VnicName]
    """VNICs that are up and in no pair."""
