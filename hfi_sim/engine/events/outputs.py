"""The outputs of an engine, in the order in which they happened. The driver polls and dispatches them."""

from __future__ import annotations

from typing import Final, NamedTuple, NewType

from hfi_sim.base.counters import Drop

PortId = NewType("PortId", int)
"""The number of an HFI port, or of port 0 of a switch; never reused."""
SwitchId = NewType("SwitchId", int)
"""The number of a switch; never reused."""
DirectionId = NewType("DirectionId", int)
"""One direction of a link: twice the number of the link, plus 1 from its second end."""
BufferToken = NewType("BufferToken", int)
"""Room in a receive buffer that a delivered packet occupies, on a link with credits."""


class Delivered(NamedTuple):
    """An HFI port, or port 0 of a switch, received a packet, checked it, and passes it to its host."""

    time: int
    port: PortId
    packet: bytes
    token: BufferToken | None
    """To be released once the host has taken the packet; None: the link has no credits."""
    in_port: int = 0
    """At port 0 of a switch: the port by which the packet came to the switch, which directed routes need."""


class Observed(NamedTuple):
    """A packet entered an observed direction."""

    time: int
    direction: DirectionId
    packet: bytes
    drop: Drop | None
    """Why it was dropped there; None: it was sent on."""


class FlowChanged(NamedTuple):
    """The link stops an HFI port for lack of credits, or lets it send again."""

    time: int
    port: PortId
    stopped: bool


class RuleSpent(NamedTuple):
    """A fault has hit its maximum number of packets and is no longer active."""

    time: int
    rule: int


class Departed(NamedTuple):
    """A packet has reached the end of a link that is in another engine."""

    time: int
    direction: DirectionId
    record: bytes
    """What the other engine receives: the packet and a tag (`hfi_sim.engine.events.outputs`)."""
    token: BufferToken | None
    """To be released once the other engine has taken it; None: the link has no credits."""


Output = Delivered | Observed | FlowChanged | RuleSpent | Departed


TAG_SIZE: Final = 2
MAX_HOPS: Final = (1 << 14) - 1


def record_of(packet: bytes, hops: int) -> bytes:
    """Return the record of a packet. Args: hops: more than 16383 count as 16383."""
    return packet + min(hops, MAX_HOPS).to_bytes(TAG_SIZE)


def packet_of(record: bytes) -> tuple[bytes, int]:
    """Return the packet of a record, and the number of switches that it has visited."""
    return record[:-TAG_SIZE], int.from_bytes(record[-TAG_SIZE:]) & MAX_HOPS
