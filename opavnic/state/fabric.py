"""What a lab says of its fabric beside the state of its links: faults, topology, routes, virtual lanes."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, WithJsonSchema

from opavnic.base.state import BYTES, PACKETS, Counter, StateModel

_TWO_NUMBERS = {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}
Wait = Annotated[
    tuple[str, str],
    WithJsonSchema({"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2}),
]
"""A virtual lane of a link and one that it waits for: `sw0:2->sw1:3`."""
"""A position in OpenAPI: generators of clients refuse a list without `items`, which pydantic gives a tuple."""


class FaultStatus(StateModel):
    """A fault that is set."""

    number: int
    fault: str
    """As `opavnic fault add` takes it."""
    kind: str
    on: str
    """Its place: a host, node or port, a cable `a--b`, or one direction `a->b` of it."""
    state: str
    seen: Annotated[int, Counter(PACKETS, "Packets that matched a fault.")]
    hits: Annotated[
        int, Counter(PACKETS, "Packets, of those that matched, that a fault acted upon.", "hit_packets")
    ]


class FaultsSet(StateModel):
    """The faults that are set."""

    seed: int
    faults: list[FaultStatus]


class FaultAdded(FaultsSet):
    """The faults after one was set."""

    number: int | None
    """Of the new one."""


class ChangeStatus(StateModel):
    """A link or a fault has come into a new state."""

    number: int
    """Counted from 1."""
    time: float
    """Seconds: since 1970 in a lab, virtual ones in a scenario."""
    kind: str
    """link, fault."""
    name: str
    """The cable `a--b`, or the number of the fault."""
    state: str
    """up or down; waiting, active or over."""
    text: str
    """The fault as it was set; empty for a link."""


class ChangesState(StateModel):
    """What has happened to links and faults, oldest first."""

    changes: list[ChangeStatus]


class LaneStatus(StateModel):
    """A virtual lane of one direction of a link (`hfi_sim.engine.link.vl_counters.VlCounters`)."""

    vl: int
    packets: Annotated[int, Counter(PACKETS, "Packets that have arrived.")]
    bytes: Annotated[int, Counter(BYTES, "Bytes of the packets that have arrived.")]
    wait_ns: Annotated[int, Counter("ns", "How long packets waited for credits or for other lanes.")]
    discards: Annotated[int, Counter(PACKETS, "Packets that were not sent.")]
    overflows: Annotated[int, Counter(PACKETS, "Packets that were not sent because the queue was full.")]
    fecn: Annotated[int, Counter(PACKETS, "Packets that have arrived with FECN.")]
    becn: Annotated[int, Counter(PACKETS, "Packets that have arrived with BECN.")]
    credits: int | None
    """Bytes that may be sent; None on a link without credits."""
    waiting: int | None
    """Bytes that wait to be sent; None on a link without credits."""
    occupied: int | None
    """Bytes in the buffer of the receiver; None on a link without credits."""


class DirectionStatus(StateModel):
    """One direction of a link with its virtual lanes."""

    name: str
    up: bool
    rate_bps: float
    queue_bytes: int
    vls: list[LaneStatus]


class LanesState(StateModel):
    """Directions of links."""

    directions: list[DirectionStatus]


class RoutesState(StateModel):
    """The ways from one HFI port to another, as the tables of the switches have them."""

    source: str = Field(validation_alias="from", serialization_alias="from")
    to: str
    lid: int
    """Of the port at the end."""
    paths: list[list[str]]
    """Nodes and ports of each way, one for each LID."""
    hops: list[list[DirectionStatus]]
    """The links on each way."""


class SteeringState(StateModel):
    """Ways that a program has given switches in place of those of the routing engine."""

    ways: dict[str, dict[int, int]]
    """By the name of a switch, the port for each LID."""


class TopologyState(StateModel):
    """The fabric: nodes and cables."""

    lab: str
    ibnetdiscover: str
    """Nodes and cables as ibnetdiscover prints them."""
    down: list[str]
    """Links that are down, and directions of links that are cut: `h1:1--sw0:1`, `h1:1->sw0:1`."""
    engine: str
    """The routing engine."""
    cycle: list[str]
    """Channels that could wait for each other in a circle by the routes, as `sw0:3`; empty: there are none."""
    lids: dict[str, int]
    """By HFI port."""
    deadlock: list[Wait] = Field(default_factory=list)
    """Virtual lanes of links that are stuck, each with one that it waits for: `sw0:2->sw1:3`."""
    positions: dict[str, Annotated[tuple[float, float], WithJsonSchema(_TWO_NUMBERS)]] = Field(
        default_factory=dict
    )
    """Where the lab file has nodes drawn: to the right and down, in any unit; by name."""
