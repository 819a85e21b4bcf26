"""What `opavnic check` asks the hosts of a lab, and what the answers mean. Sans-IO.

For each ordered pair of VNICs on one virtual switch: an echo over IPv4, one over IPv6, and one that fills the MTU and
may not be fragmented. Of a large virtual switch, a sample of the pairs is asked (`PairSample`). For each VNIC: a frame
above its MTU, which must be refused, and a message to all hosts of its virtual switch, which no VNIC on another one may
hear.

What is asked comes in tasks, each with the neighbours that it makes kernels look up. The tables of these are small and
shared by all namespaces of the machine, so only so many tasks run at a time, and each removes what it has left there.
The message to all hosts is an echo reply: no host answers it, so no host looks up its sender.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from ipaddress import IPv4Address, IPv6Address
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from hfi_sim.netdev.neighbours import NeighbourTable

IPV4_HEADERS: Final = 20 + 8
IPV6_HEADERS: Final = 40 + 8
"""Bytes of IP and ICMP headers in a packet of an echo."""
SMALL: Final = 16
"""Bytes of payload of an echo that only asks for an answer."""
ALL_NODES: Final = IPv6Address("ff02::1")
ALL_HOSTS: Final = IPv4Address("224.0.0.1")
_SOLICITED_NODE: Final = int(IPv6Address("ff02::1:ff00:0"))
LEAST_ROOM: Final = 8
"""Neighbour entries that are taken even where the tables are nearly full; a pair of VNICs takes up to four of IPv6."""
UNTOLD_ROOM: Final = 256
"""Those that are taken where the limits of the tables are not known: half of what kernels begin with."""
_MOST_PAIRS: Final = 10_000
"""Pairs of a virtual switch up to which all are asked: those of 141 VNICs."""
_MOST_FLOODED: Final = 1 << 20
"""Frames of look-ups that all VNICs of a virtual switch together receive in a sample, roughly: everyone hears each."""
_FLOODED_AT_ONCE: Final = 1 << 14
"""Frames of look-ups that are on their way at a time, roughly: more are not taken in within the time of an answer."""
_LEAST_DISTANCES: Final = 2
Address = IPv4Address | IPv6Address


@dataclass(frozen=True, slots=True)
class VnicPlace:
    """One VNIC as the kernel of its host has it."""

    host: str
    vesw: str
    interface: str
    index: int
    """The index of the interface in its namespace."""
    mtu: int
    ipv4: IPv4Address | None
    ipv6: IPv6Address | None
    """Its link-local address."""

    def __str__(self) -> str:
        return f"{self.host}.{self.vesw}"


class EchoKind(StrEnum):
    """What an echo is to show."""

    IPV4 = "ipv4"
    IPV6 = "ipv6"
    MTU = "mtu"
    """The largest packet passes unfragmented."""
    OVERSIZE = "oversize"
    """A packet of one byte more does not."""
    ISOLATION = "isolation"
    """No host on another virtual switch receives it."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One echo request."""

    kind: EchoKind
    source: VnicPlace
    target: VnicPlace | None
    """None: all stations on the link."""
    address: Address
    payload: int
    """Bytes after the ICMP header."""

    @property
    def neighbours(self) -> tuple[tuple[VnicPlace, Address], ...]:
        """Where it makes an entry, and for which address: at its source, and at its target, which answers.

        IPv6 also makes one for the multicast group in which it looks an address up.
        """
        source, target = self.source, self.target
        if self.kind is EchoKind.OVERSIZE:
            return ()
        own = source.ipv4 if self.address.version == 4 else source.ipv6
        if target is None or own is None:
            return ((source, self.address),)
        ends = ((source, self.address), (target, own))
        return ends + tuple((at, _solicited(it)) for at, it in ends if isinstance(it, IPv6Address))

    @property
    def wants_answer(self) -> bool:
        """Whether all is well if there is an answer."""
        return self.kind in (EchoKind.IPV4, EchoKind.IPV6, EchoKind.MTU)


@dataclass(frozen=True)
class Task:
    """Probes that look up the same neighbours: those of one direction, and then those of the other, if there is one."""

    probes: tuple[Probe, ...]

    @cached_property
    def first(self) -> int:
        """How many probes to send at once. From these, the other end learns what it would have to look up itself."""
        return sum(probe.source == self.probes[0].source for probe in self.probes)

    @cached_property
    def neighbours(self) -> tuple[tuple[VnicPlace, Address], ...]:
        """The entries that it makes, each once."""
        return tuple(dict.fromkeys(entry for probe in self.probes for entry in probe.neighbours))

    @cached_property
    def room(self) -> int:
        """The entries that it makes in the table of IPv4 or of IPv6 (the larger number)."""
        versions = [address.version for _, address in self.neighbours]
        return max(versions.count(4), versions.count(6))


@dataclass(frozen=True, slots=True)
class PairSample:
    """Which pairs of a virtual switch are asked: all of a small one, or else a sample that is drawn from a seed.

    The VNICs of a virtual switch stand in a circle. In a sample, each one asks those at the same few distances from it
    on both sides, so each is asked as often as any other.
    """

    seed: int = 1
    everything: bool = False
    """All pairs, also of large virtual switches."""

    def distances(self, vesw: str, members: int) -> Sequence[int]:
        """Return which of 1 to members // 2 are asked, in order."""
        every = range(1, members // 2 + 1)
        most = max(
            min(_MOST_PAIRS // max(members, 1), _MOST_FLOODED // max(members, 1) ** 2), _LEAST_DISTANCES
        )
        if self.everything or members * (members - 1) // 2 <= _MOST_PAIRS or len(every) <= most:
            return every
        return sorted(random.Random(f"{self.seed} {vesw}").sample(every, most))


def plan(
    places: Sequence[VnicPlace], sample: PairSample = PairSample(), asking: Collection[str] | None = None
) -> Iterator[Probe]:
    """Yield the probes of all tasks, in their order."""
    return (probe for task in tasks(places, sample, asking) for probe in task.probes)


def tasks(
    places: Sequence[VnicPlace], sample: PairSample = PairSample(), asking: Collection[str] | None = None
) -> Iterator[Task]:
    """Yield what is to be asked of these VNICs; neighbouring tasks are of different hosts, as far as possible.

    Args:  asking: the hosts that ask, of all that are asked; None: all.
    """
    members: dict[str, list[VnicPlace]] = {}
    for place in places:
        members.setdefault(place.vesw, []).append(place)
    for source in places:
        if asking is not None and source.host not in asking:
            continue
        address = _address(source)
        if address is not None:
            target = _address_beyond(source, address, members[source.vesw])
            yield Task((Probe(EchoKind.OVERSIZE, source, None, target, _full(source, address) + 1),))
        if source.ipv4 and len(members) > 1:
            yield Task((Probe(EchoKind.ISOLATION, source, None, ALL_HOSTS, SMALL),))
        if source.ipv6:
            yield Task((Probe(EchoKind.ISOLATION, source, None, ALL_NODES, SMALL),))
    for vesw, here in members.items():
        for a, b in _pairs(here, sample.distances(vesw, len(here))):
            if a.host == b.host:
                continue  # its kernel would answer itself, without the fabric
            both = (*_pair(a, b), *_pair(b, a))
            if probes := tuple(probe for probe in both if asking is None or probe.source.host in asking):
                yield Task(probes)


def _pairs(members: Sequence[VnicPlace], distances: Iterable[int]) -> Iterator[tuple[VnicPlace, VnicPlace]]:
    """Yield each pair once: all that are so far apart in a circle, in the order of the distances."""
    count = len(members)
    for distance in distances:
        for number in range(count if 2 * distance < count else distance):
            yield members[number], members[(number + distance) % count]


def room_for(tables: Iterable[NeighbourTable], own: int) -> int:
    """Return how many neighbour entries may be there at a time.

    Others on the machine keep room: with theirs it is no more than the kernel's soft limit, beyond which the kernel
    removes entries that are in use elsewhere; where theirs alone exceed that, a quarter of what they leave.

    Args:  own: entries that are there now on our account, of those that the tables tell.
    """
    rooms = []
    for table in tables:
        others = max(table.entries - own, 0)
        free = max(table.soft_limit - others, (table.hard_limit - others) // 4)
        rooms.append(min(free, table.soft_limit // 2))
    return max(min(rooms, default=UNTOLD_ROOM), LEAST_ROOM)


def room_beside_floods(places: Iterable[VnicPlace]) -> int:
    """Return how many neighbours may be looked up at a time, each of them at all VNICs of its virtual switch."""
    largest = max(Counter(place.vesw for place in places).values(), default=1)
    return max(_FLOODED_AT_ONCE // largest, LEAST_ROOM)


def _address(place: VnicPlace) -> Address | None:
    return place.ipv4 or place.ipv6


def _solicited(address: IPv6Address) -> IPv6Address:
    """Return the solicited-node multicast group of an address (RFC 4291, 2.7.1)."""
    return IPv6Address(_SOLICITED_NODE | int(address) & 0xFFFFFF)


def _address_beyond(source: VnicPlace, own: Address, members: Sequence[VnicPlace]) -> Address:
    """Return an address on the virtual switch of a VNIC, beyond its host; a packet for it is refused before it leaves.

    A packet for an address of the host itself would pass through its loopback interface, whose MTU is another.
    """
    for place in members:
        address = place.ipv4 if own.version == 4 else place.ipv6
        if place.host != source.host and address is not None:
            return address
    return ALL_HOSTS if own.version == 4 else ALL_NODES


def _full(place: VnicPlace, address: Address) -> int:
    return place.mtu - (IPV4_HEADERS if address.version == 4 else IPV6_HEADERS)


def _pair(source: VnicPlace, target: VnicPlace) -> Iterator[Probe]:
    if source.ipv4 and target.ipv4:
        yield Probe(EchoKind.IPV4, source, target, target.ipv4, SMALL)
    if source.ipv6 and target.ipv6:
        yield Probe(EchoKind.IPV6, source, target, target.ipv6, SMALL)
    best = target.ipv4 if source.ipv4 and target.ipv4 else target.ipv6 if source.ipv6 else None
    if best is not None:
        yield Probe(EchoKind.MTU, source, target, best, _full(source, best))


@dataclass(slots=True)
class ProbeOutcome:
    """The result of a probe, as far as it is known."""

    probe: Probe
    rtt_s: float | None = None
    """None: no answer."""
    refused: bool = False
    """Whether the kernel refused the packet as too long."""
    heard: tuple[VnicPlace, ...] = ()
    """Where else a message to all hosts arrived than on the virtual switch of its sender."""
    reason: str = ""
    """Why there was no answer, if that is known."""

    def verdict(self) -> str:
        """Return what is wrong, in words; an empty string if nothing is."""
        probe = self.probe
        if probe.wants_answer:
            if self.rtt_s is not None:
                return ""
            return "too long to send" if self.refused else self.reason or "no answer"
        if probe.kind is EchoKind.OVERSIZE:
            return "" if self.refused else f"{probe.payload} bytes of payload are sent in spite of the MTU"
        return f"heard by {', '.join(map(str, self.heard))}" if self.heard else ""


@dataclass(frozen=True, slots=True)
class ReachReport:
    """The result of a whole check."""

    places: tuple[VnicPlace, ...]
    outcomes: tuple[ProbeOutcome, ...]
    seconds: float
    sample: PairSample = PairSample()

    def with_outcomes(self, more: Iterable[ProbeOutcome]) -> ReachReport:
        """Return the report with more outcomes, in the order of the places."""
        order = {place: number for number, place in enumerate(self.places)}
        outcomes = sorted(
            (*self.outcomes, *more),
            key=lambda outcome: (
                order[outcome.probe.source],
                -1 if outcome.probe.target is None else order[outcome.probe.target],
            ),
        )
        return replace(self, outcomes=tuple(outcomes))

    def failures(self) -> list[tuple[ProbeOutcome, str]]:
        """Return each outcome that is wrong, with what is wrong."""
        return [(outcome, said) for outcome in self.outcomes if (said := outcome.verdict())]

    def sampled(self) -> list[dict[str, Any]]:
        """Return the virtual switches of which not all pairs were asked, with how many VNICs each one asked."""
        found = []
        for vesw, members in Counter(place.vesw for place in self.places).items():
            distances = self.sample.distances(vesw, members)
            if len(distances) < members // 2:
                found.append({"vesw": vesw, "vnics": members, "asked_by_each": 2 * len(distances)})
        return found

    def as_json(self, lab: str) -> dict[str, Any]:
        """Return the report as plain data."""
        failures = self.failures()
        wrong = {id(outcome.probe) for outcome, _ in failures}
        pairs: dict[tuple[str, str, str], dict[str, Any]] = {}
        for outcome in self.outcomes:
            probe = outcome.probe
            if probe.wants_answer and probe.target is not None:
                key = (probe.source.vesw, probe.source.host, probe.target.host)
                row = pairs.setdefault(key, dict(zip(("vesw", "from", "to"), key, strict=True)))
                row[probe.kind.value] = outcome.rtt_s is not None
                if outcome.rtt_s is not None and "rtt_ms" not in row:
                    row["rtt_ms"] = round(outcome.rtt_s * 1000, 3)
        asked = [outcome for outcome in self.outcomes if not outcome.probe.wants_answer]
        return {
            "ok": not failures,
            "lab": lab,
            "seconds": round(self.seconds, 3),
            "probes": len(self.outcomes),
            "seed": self.sample.seed,
            "sampled": self.sampled(),
            "vnics": [{"vesw": place.vesw, "host": place.host} for place in self.places],
            "pairs": list(pairs.values()),
            "oversize_refused": not any(
                id(o.probe) in wrong for o in asked if o.probe.kind is EchoKind.OVERSIZE
            ),
            "isolated": not any(id(o.probe) in wrong for o in asked if o.probe.kind is EchoKind.ISOLATION),
            "failures": [
                {
                    "kind": outcome.probe.kind.value,
                    "vesw": outcome.probe.source.vesw,
                    "from": outcome.probe.source.host,
                    "to": None if outcome.probe.target is None else outcome.probe.target.host,
                    "address": str(outcome.probe.address),
                    "what": said,
                }
                for outcome, said in failures
            ],
        }
