"""What `opavnic check` asks the hosts of a lab, and what the answers mean. Sans-IO.

For each ordered pair of VNICs on one virtual switch: an echo over IPv4, one over IPv6, and one that fills the MTU and
may not be fragmented. For each VNIC: a frame above its MTU, which must be refused; echoes to the addresses of other
virtual switches and to all nodes on its own, which no other virtual switch may answer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import IPv4Address, IPv6Address
from typing import Any, Final

IPV4_HEADERS: Final = 20 + 8
IPV6_HEADERS: Final = 40 + 8
"""Bytes of IP and ICMP headers in a packet of an echo."""
SMALL: Final = 16
"""Bytes of payload of an echo that only asks for an answer."""
ALL_NODES: Final = IPv6Address("ff02::1")
Address = IPv4Address | IPv6Address


@dataclass(frozen=True, slots=True)
class Place:
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


class Kind(StrEnum):
    """What an echo is to show."""

    IPV4 = "ipv4"
    IPV6 = "ipv6"
    MTU = "mtu"
    """The largest packet passes unfragmented."""
    OVERSIZE = "oversize"
    """A packet of one byte more does not."""
    ISOLATION = "isolation"
    """Nobody on another virtual switch answers."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One echo request."""

    kind: Kind
    source: Place
    target: Place | None
    """None: everybody on the link."""
    address: Address
    payload: int
    """Bytes after the ICMP header."""

    @property
    def wants_answer(self) -> bool:
        """Whether all is well if there is an answer."""
        return self.kind in (Kind.IPV4, Kind.IPV6, Kind.MTU)


def plan(places: Sequence[Place]) -> Iterator[Probe]:
    """Yield the probes for these VNICs."""
    members: dict[str, list[Place]] = {}
    for place in places:
        members.setdefault(place.vesw, []).append(place)
    for source in places:
        address = _address(source)
        if address is not None:
            yield Probe(
                Kind.OVERSIZE,
                source,
                None,
                _somebody(source, members[source.vesw]),
                _full(source, address) + 1,
            )
        for target in members[source.vesw]:
            if target is not source:
                yield from _pair(source, target)
        yield from _foreign(source, places, {place.host for place in members[source.vesw]})


def _address(place: Place) -> Address | None:
    return place.ipv4 or place.ipv6


def _somebody(source: Place, members: Sequence[Place]) -> Address:
    """Return an address that a packet of a VNIC may be for; the packet is refused before it leaves."""
    found = next((_address(place) for place in members if place is not source and _address(place)), None)
    address = found or _address(source)
    assert address is not None  # noqa: S101 - the caller has looked
    return address


def _full(place: Place, address: Address) -> int:
    return place.mtu - (IPV4_HEADERS if address.version == 4 else IPV6_HEADERS)


def _pair(source: Place, target: Place) -> Iterator[Probe]:
    if source.ipv4 and target.ipv4:
        yield Probe(Kind.IPV4, source, target, target.ipv4, SMALL)
    if source.ipv6 and target.ipv6:
        yield Probe(Kind.IPV6, source, target, target.ipv6, SMALL)
    best = target.ipv4 if source.ipv4 and target.ipv4 else target.ipv6 if source.ipv6 else None
    if best is not None:
        yield Probe(Kind.MTU, source, target, best, _full(source, best))


def _foreign(source: Place, places: Sequence[Place], here: Collection[str]) -> Iterator[Probe]:
    """Yield what nobody may answer.

    A host with a VNIC on both virtual switches answers for all its addresses on either (arp_ignore is 0), which is no
    leak; so over IPv4 only hosts that are not on this one are asked.
    """
    for target in places:
        if target.vesw != source.vesw and target.host not in here and source.ipv4 and target.ipv4:
            yield Probe(Kind.ISOLATION, source, target, target.ipv4, SMALL)
    if source.ipv6:
        yield Probe(Kind.ISOLATION, source, None, ALL_NODES, SMALL)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a probe."""

    probe: Probe
    rtt_s: float | None = None
    """None: no answer."""
    refused: bool = False
    """Whether the kernel refused the packet as too long."""
    answers: tuple[Address, ...] = ()
    """Who answered."""

    def verdict(self, strangers: Mapping[Address, Place]) -> str:
        """Return what is wrong, in words; an empty string if nothing is.

        Args:  strangers: the VNICs on other virtual switches than the probe's, by link-local address.
        """
        probe = self.probe
        if probe.wants_answer:
            return "" if self.rtt_s is not None else "no answer" if not self.refused else "too long to send"
        if probe.kind is Kind.OVERSIZE:
            return "" if self.refused else f"{probe.payload} bytes of payload are sent in spite of the MTU"
        if probe.target is not None:
            return "" if not self.answers else "answered, from another virtual switch"
        leaks = [str(strangers[address]) for address in self.answers if address in strangers]
        return f"answered by {', '.join(leaks)}" if leaks else ""


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a whole check."""

    places: tuple[Place, ...]
    outcomes: tuple[Outcome, ...]
    seconds: float

    def failures(self) -> list[tuple[Outcome, str]]:
        """Return each outcome that is wrong, with what is wrong."""
        found = []
        for outcome in self.outcomes:
            vesw = outcome.probe.source.vesw
            strangers: dict[Address, Place] = {
                place.ipv6: place for place in self.places if place.ipv6 and place.vesw != vesw
            }
            if said := outcome.verdict(strangers):
                found.append((outcome, said))
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
            "pairs": list(pairs.values()),
            "oversize_refused": not any(id(o.probe) in wrong for o in asked if o.probe.kind is Kind.OVERSIZE),
            "isolated": not any(id(o.probe) in wrong for o in asked if o.probe.kind is Kind.ISOLATION),
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
