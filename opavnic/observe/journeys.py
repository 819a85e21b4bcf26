"""The way of each packet through a fabric, put together from what was seen entering links, and its MADs. Sans-IO.

What stays of a packet from hop to hop: of an Ethernet packet all behind its header, in which only congestion bits
change; of a MAD its transaction, because a directed route counts its hops in the MAD itself.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from hfi_sim.base.errors import WireError
from hfi_sim.base.text import visible
from hfi_sim.base.types import LID_PERMISSIVE
from hfi_sim.wire.lrh16b import L4, Lrh16B
from hfi_sim.wire.lrh16b import SIZE as HEADER_SIZE
from hfi_sim.wire.mad.fm_packet import mad_start
from hfi_sim.wire.mad.header import RESPONSE_BIT, MadHeader, Method
from opavnic.decode import meanings

if TYPE_CHECKING:
    from hfi_sim.base.counters import Drop
    from hfi_sim.fabric.notices import TracedPacket

UNDER_WAY_MAX: Final = 10_000
"""Packets whose next hop is waited for; of more, the one that was seen first is taken to have arrived."""


@dataclass(frozen=True, slots=True)
class Hop:
    """A packet as it entered a link."""

    time_s: float
    direction: str
    """`h1:1->sw0:1`."""
    drop: Drop | None = None
    """Why it ended there; None: it went on its way."""

    @property
    def near(self) -> str:
        """The node that sent it."""
        return self.direction.partition("->")[0].rpartition(":")[0]

    @property
    def far(self) -> str:
        """The node that the link leads to."""
        return self.direction.partition("->")[2].rpartition(":")[0]


@dataclass(slots=True)
class Journey:
    """One packet on its way: its hops in order of time; those of a multicast packet branch."""

    packet: bytes
    """As it entered the first link."""
    hops: list[Hop] = field(default_factory=list)

    @property
    def source(self) -> str:
        """The node where it was seen first."""
        return self.hops[0].near

    @property
    def target(self) -> str:
        """The node that its last link leads to."""
        return self.hops[-1].far

    @property
    def time_s(self) -> float:
        """When it entered its first link."""
        return self.hops[0].time_s

    @property
    def dropped(self) -> Hop | None:
        """The first hop on which it, or a copy of it, ended."""
        return next((hop for hop in self.hops if hop.drop is not None), None)


def journeys(records: Iterable[TracedPacket]) -> list[Journey]:
    """Return the packets of a trace or capture in the order in which they set out.

    Args:  records: what entered links, in order of time; a link that was not watched leaves a gap.
    """
    found: list[Journey] = []
    under_way: OrderedDict[object, Journey] = OrderedDict()
    for record in records:
        hop = Hop(record.time_s, record.direction, record.drop)
        key = _identity(record.packet)
        journey = under_way.get(key)
        if journey is None or not _goes_on(journey, hop):
            journey = under_way[key] = Journey(record.packet)
            under_way.move_to_end(key)
            found.append(journey)
            if len(under_way) > UNDER_WAY_MAX:
                under_way.popitem(last=False)
        journey.hops.append(hop)
    return found


def _goes_on(journey: Journey, hop: Hop) -> bool:
    """Return whether a hop is of this packet, not of its repetition: it leaves a node that the packet has reached."""
    return any(seen.far == hop.near and seen.drop is None for seen in journey.hops) and all(
        seen.direction != hop.direction for seen in journey.hops
    )


def _identity(packet: bytes) -> object:
    try:
        lrh, mad = _headers(packet)
    except WireError:
        return packet
    if mad is None:
        return lrh.slid, lrh.dlid, packet[HEADER_SIZE:]
    return lrh.slid, lrh.dlid, mad.mgmt_class, mad.method, mad.tid, mad.attr_id


def _headers(packet: bytes) -> tuple[Lrh16B, MadHeader | None]:
    """Return the headers of a packet and of the MAD in it, if it holds one. Raises WireError: it is damaged."""
    lrh = Lrh16B.parse(packet)
    return lrh, MadHeader.parse(packet[mad_start(packet) :]) if lrh.l4 == L4.FM else None


# --- MADs --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Message:
    """One MAD from its sender to where it arrived."""

    number: int
    """Its place among the messages, from 1."""
    journey: Journey
    source: str
    """Its lane: the node that sent it, or its LID where only links of others were watched."""
    target: str
    method: str
    attribute: str
    status: int
    """Of a response; 0: it was done."""
    is_response: bool
    is_trap: bool
    sendings: int
    """How often it was sent up to now, this time included."""

    @property
    def text(self) -> str:
        """What stands on its arrow."""
        words = [self.method, self.attribute]
        words += [f"status {self.status:#x}"] if self.status else []
        words += [f"again ({self.sendings})"] if self.sendings > 1 else []
        return visible(" ".join(words))

    @property
    def is_wrong(self) -> bool:
        """Whether it was lost on its way, or says that something was not done."""
        return bool(self.status) or self.journey.dropped is not None


def messages(seen: Iterable[Journey]) -> list[Message]:
    """Return the MADs among packets, in order; what is damaged is left out, as its receiver does."""
    found: list[Message] = []
    sent: dict[object, int] = {}
    seen = list(seen)
    passing = _passing(seen)
    for journey in seen:
        try:
            lrh, mad = _headers(journey.packet)
        except WireError:
            continue
        if mad is None:
            continue
        source = f"LID {lrh.slid:#x}" if journey.source in passing else journey.source
        target = f"LID {lrh.dlid:#x}" if journey.target in passing else journey.target
        key = source, target, mad.method, mad.tid, mad.attr_id, mad.mgmt_class
        sent[key] = sent.get(key, 0) + 1
        found.append(
            Message(
                number=len(found) + 1,
                journey=journey,
                source=source,
                target=target,
                method=meanings.mad_field("method", mad.method, mad) or f"method {mad.method:#x}",
                attribute=meanings.attribute(mad.mgmt_class, mad.attr_id),
                status=mad.status if mad.method & RESPONSE_BIT else 0,
                is_response=bool(mad.method & RESPONSE_BIT),
                is_trap=mad.method in (Method.TRAP, Method.REPORT, Method.TRAP_REPRESS),
                sendings=sent[key],
            )
        )
    return found


def _passing(seen: Iterable[Journey]) -> set[str]:
    """Return the nodes that packets of several LIDs seem to come from: switches, where no link before was watched."""
    lids: dict[str, set[int]] = {}
    for journey in seen:
        with contextlib.suppress(WireError):
            lids.setdefault(journey.source, set()).add(Lrh16B.parse(journey.packet).slid)
    return {node for node, its in lids.items() if len(its - {LID_PERMISSIVE}) > 1}
