"""Traffic rates of a running lab: the growth of its counters between two polls. Sans-IO.

A poll returns the state of a lab, whose counters only grow. A counter that has decreased belongs to an element that was
recreated between the polls; like that of a new element, its growth is taken from zero.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from opavnic.base.state import BYTES, StateModel, counters_of
from opavnic.state.lab import Drops, HostStatus, LabState, LinkStatus, VnicStatus

_SHORT: Final = {"forth": "->", "back": "<-", "packets": "pkt/s", "bytes": "bit/s"}
_BITS: Final = 8
_NO_TIME_S: Final = 1.0
"""What counts as the time between two looks at one moment: a rate needs more than 0."""


class Order(StrEnum):
    """The order of VNICs and links."""

    NAME = "name"
    """Natural order: h2 before h10."""
    LOAD = "load"
    """Busiest first."""


Paces = Mapping[str, float]
"""Growth per second of the counters of a VNIC or a link, by the name of the counter; of bytes, in bits."""


def pace_key(counter: str) -> str:
    """Return the name of a pace as JSON: `tx_bits_per_s` of the counter `tx_bytes`."""
    return f"{counter.replace('bytes', 'bits')}_per_s"


def pace_heading(counter: str) -> str:
    """Return the heading of a pace in tables: `-> bit/s` of the counter `bytes_forth`."""
    words = [_SHORT.get(word, word) for word in counter.split("_")]
    words.sort(key=lambda word: word not in ("->", "<-"))
    text = " ".join(words)
    return text if text.endswith("/s") else f"{text}/s"


def pace_headings(model: type[StateModel]) -> list[str]:
    """Return the headings of all paces of a model, in the order of its counters."""
    return [pace_heading(name) for name in counters_of(model)]


@dataclass(frozen=True, slots=True)
class DropRate:
    """A drop counter that has grown."""

    element: str
    reason: str
    per_second: float
    total: int
    """Its value now."""


@dataclass(frozen=True, slots=True)
class Rates:
    """The rates of a lab between two polls, of the elements that exist at the second one."""

    lab: LabState
    """At the second poll."""
    seconds: float
    mads: float
    """MADs per second sent by all ports."""
    vnics: tuple[tuple[HostStatus, VnicStatus, Paces], ...]
    links: tuple[tuple[LinkStatus, Paces], ...]
    drops: tuple[DropRate, ...]
    """The counters that grew, fastest first."""


def rates(before: LabState, after: LabState, seconds: float) -> Rates:
    """Return the rates of a lab between two polls.

    Args:    seconds: the time between them.
    Raises:  ValueError: seconds is not above 0.
    """
    if not seconds > 0:
        raise ValueError(f"{seconds!r} seconds between two polls: a rate needs more than 0")
    vnics = {(host.name, vnic.interface): vnic for host, vnic in before.vnics()}
    links = {link.name: link for link in before.links}
    return Rates(
        lab=after,
        seconds=seconds,
        mads=_growth(before.mads, after.mads) / seconds,
        vnics=tuple(
            (host, vnic, _paces(vnics.get((host.name, vnic.interface)), vnic, seconds))
            for host, vnic in after.vnics()
        ),
        links=tuple((link, _paces(links.get(link.name), link, seconds)) for link in after.links),
        drops=_drop_rates(before.drops, after.drops, seconds),
    )


class Meter:
    """Makes rates of one look at a lab after another."""

    def __init__(self) -> None:
        self._before: LabState | None = None

    def take(self, state: LabState) -> Rates:
        """Return the rates since the look before; all 0 at the first, and at a lab that was started anew."""
        before = self._before
        if before is None or before.pid != state.pid:
            before = state
        self._before = state
        seconds = state.uptime_s - before.uptime_s
        return rates(before, state, seconds if seconds > 0 else _NO_TIME_S)


def load_of(paces: Paces) -> tuple[float, ...]:
    """Return the key that "busiest first" sorts by: bits in both directions, then packets, then what else grows."""
    bits = sum(pace for name, pace in paces.items() if "bytes" in name)
    packets = sum(pace for name, pace in paces.items() if "packets" in name)
    return bits, packets, sum(paces.values())


def in_order(found: Rates, order: Order) -> Rates:
    """Return the same rates with VNICs and links in the given order; equally busy ones are ordered by name."""
    vnics = sorted(
        found.vnics, key=lambda row: natural(f"{row[0].name}/{row[1].vesw_text}/{row[1].interface}")
    )
    links = sorted(found.links, key=lambda row: natural(row[0].name))
    if order is Order.LOAD:
        vnics.sort(key=lambda row: load_of(row[-1]), reverse=True)
        links.sort(key=lambda row: load_of(row[-1]), reverse=True)
    return replace(found, vnics=tuple(vnics), links=tuple(links))


def as_json(found: Rates, time: float) -> dict[str, Any]:
    """Return rates as plain data. Args: time: when the second poll was made, in seconds since 1970."""
    drops: dict[str, dict[str, float]] = {}
    for drop in found.drops:
        drops.setdefault(drop.element, {})[drop.reason] = _rounded(drop.per_second)
    return {
        "time": _rounded(time),
        "seconds": round(found.seconds, 6),
        "lab": found.lab.lab,
        "datapath": found.lab.datapath,
        "em": found.lab.em,
        "mads_per_s": _rounded(found.mads),
        "vnics": [
            {
                "host": host.name,
                "vesw": vnic.vesw_text,
                "interface": vnic.interface,
                "state": vnic.state,
                **_as_json(paces),
            }
            for host, vnic, paces in found.vnics
        ],
        "links": [
            {"name": link.name, "state": link.state, "datapath": link.datapath, **_as_json(paces)}
            for link, paces in found.links
        ],
        "drops": drops,
    }


def _as_json(paces: Paces) -> dict[str, float]:
    return {pace_key(name): _rounded(pace) for name, pace in paces.items()}


def is_on(fault_place: str, place: str) -> bool:
    """Return whether a fault on `fault_place` is one of `place`: a node or host, or a cable `a:1--b:2` of it.

    A fault on one direction of a cable, or on all cables between its two nodes, is one of the cable.
    """
    if "--" not in place:
        return fault_place in (place, f"{place}:1")
    near, far = place.split("--")
    ends = frozenset(fault_place.replace("->", "--").split("--"))
    return ends in (frozenset((near, far)), frozenset(end.rpartition(":")[0] for end in (near, far)))


def natural(name: str) -> list[tuple[int, str]]:
    """Return the key by which h2 comes before h10."""
    return [(int(part) if part.isdecimal() else -1, part) for part in re.split(r"(\d+)", name) if part]


def _growth(before: int, after: int) -> int:
    """Return the growth of a counter; one that has decreased was recreated and started from 0."""
    return after - before if after >= before else after


def _paces(before: StateModel | None, after: StateModel, seconds: float) -> Paces:
    """Return the pace of every counter of an element. Args: before: None: it did not exist."""
    paces = {}
    for name, counter in counters_of(type(after)).items():
        growth = _growth(0 if before is None else getattr(before, name), getattr(after, name))
        paces[name] = growth * (_BITS if counter.unit == BYTES else 1) / seconds
    return paces


def _drop_rates(before: Drops, after: Drops, seconds: float) -> tuple[DropRate, ...]:
    found: Iterable[DropRate] = (
        DropRate(element, reason, _growth(before.get(element, {}).get(reason, 0), total) / seconds, total)
        for element, reasons in after.items()
        for reason, total in reasons.items()
    )
    grown = (drop for drop in found if drop.per_second > 0)
    return tuple(sorted(grown, key=lambda drop: (-drop.per_second, natural(drop.element), drop.reason)))


def _rounded(number: float) -> float:
    return round(number, 3)
