"""Traffic rates of a running lab: the growth of its counters between two polls. Sans-IO.

A poll returns the status of a lab (`opavnic.lab.run.status`), whose counters only grow. A counter that has decreased
belongs to an element that was recreated between the polls; like that of a new element, its growth is taken from zero.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Self

Drops = Mapping[str, Mapping[str, int]]
"""Packets that ended, by element and reason (`hfi_sim.base.counters.Drop`)."""


class Order(StrEnum):
    """The order of VNICs and links."""

    NAME = "name"
    """Natural order: h2 before h10."""
    LOAD = "load"
    """Busiest first."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Total traffic of a VNIC or a link so far. For a link, tx is the direction that its name states, rx the other."""

    tx_packets: int = 0
    tx_bytes: int = 0
    rx_packets: int = 0
    rx_bytes: int = 0
    drops: int = 0


@dataclass(frozen=True, slots=True)
class Pace:
    """Traffic of a VNIC or a link per second."""

    tx_packets: float
    tx_bits: float
    rx_packets: float
    rx_bits: float
    drops: float

    @property
    def load(self) -> tuple[float, float, float]:
        """The key that "busiest first" sorts by: bits in both directions, then packets, then drops."""
        return self.tx_bits + self.rx_bits, self.tx_packets + self.rx_packets, self.drops


@dataclass(frozen=True, slots=True)
class Vnic:
    """A VNIC in one poll."""

    host: str
    vesw: str
    """The name of its virtual switch; the id if the name is not known, and `-` if it is on no virtual switch."""
    interface: str
    state: str
    traffic: Traffic

    @property
    def key(self) -> Hashable:
        """What identifies it across polls."""
        return self.host, self.interface


@dataclass(frozen=True, slots=True)
class Link:
    """A link in one poll."""

    name: str
    state: str
    datapath: str
    traffic: Traffic

    @property
    def key(self) -> Hashable:
        """What identifies it across polls."""
        return self.name


@dataclass(frozen=True, slots=True)
class Sample:
    """One poll of a lab."""

    lab: str
    pid: int
    """The lab's process. A different pid means a different lab, even under the same name."""
    uptime_s: float
    """The time of the poll on the lab's own clock."""
    datapath: str
    em: str
    mads: int
    vnics: tuple[Vnic, ...]
    links: tuple[Link, ...]
    drops: Drops

    @classmethod
    def from_status(cls, status: Mapping[str, Any]) -> Self:
        """Extract from the status of a lab what the rates are computed from.

        Raises:  ValueError: a key is missing, as in the status of a lab of an older version.
        """
        try:
            return cls(
                lab=status["lab"],
                pid=status["pid"],
                uptime_s=status["uptime_s"],
                datapath=status["datapath"],
                em=status["em"],
                mads=status["mads"],
                vnics=tuple(_vnic(host["name"], vnic) for host in status["hosts"] for vnic in host["vnics"]),
                links=tuple(_link(link) for link in status["links"]),
                drops=status["drops"],
            )
        except KeyError as error:
            raise ValueError(f"the status of the lab has no {error}") from error


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

    lab: str
    datapath: str
    em: str
    seconds: float
    mads: float
    """MADs per second sent by all ports."""
    vnics: tuple[tuple[Vnic, Pace], ...]
    links: tuple[tuple[Link, Pace], ...]
    drops: tuple[DropRate, ...]
    """The counters that grew, fastest first."""


def rates(before: Sample, after: Sample, seconds: float) -> Rates:
    """Return the rates of a lab between two polls.

    Args:    seconds: the time between them.
    Raises:  ValueError: seconds is not above 0.
    """
    if not seconds > 0:
        raise ValueError(f"{seconds!r} seconds between two polls: a rate needs more than 0")
    vnics = {vnic.key: vnic.traffic for vnic in before.vnics}
    links = {link.key: link.traffic for link in before.links}
    return Rates(
        lab=after.lab,
        datapath=after.datapath,
        em=after.em,
        seconds=seconds,
        mads=_growth(before.mads, after.mads) / seconds,
        vnics=tuple((vnic, _pace(vnics.get(vnic.key), vnic.traffic, seconds)) for vnic in after.vnics),
        links=tuple((link, _pace(links.get(link.key), link.traffic, seconds)) for link in after.links),
        drops=_drop_rates(before.drops, after.drops, seconds),
    )


def in_order(found: Rates, order: Order) -> Rates:
    """Return the same rates with VNICs and links in the given order; equally busy ones are ordered by name."""
    vnics = sorted(found.vnics, key=lambda row: _natural(f"{row[0].host}/{row[0].vesw}/{row[0].interface}"))
    links = sorted(found.links, key=lambda row: _natural(row[0].name))
    if order is Order.LOAD:
        vnics.sort(key=lambda row: row[1].load, reverse=True)
        links.sort(key=lambda row: row[1].load, reverse=True)
    return replace(found, vnics=tuple(vnics), links=tuple(links))


def as_json(found: Rates, time: float) -> dict[str, Any]:
    """Return rates as plain data.

    Args:  time: when the second poll was made, in seconds since 1970.
    """
    drops: dict[str, dict[str, float]] = {}
    for drop in found.drops:
        drops.setdefault(drop.element, {})[drop.reason] = _rounded(drop.per_second)
    return {
        "time": _rounded(time),
        "seconds": round(found.seconds, 6),
        "lab": found.lab,
        "datapath": found.datapath,
        "em": found.em,
        "mads_per_s": _rounded(found.mads),
        "vnics": [
            {
                "host": vnic.host,
                "vesw": vnic.vesw,
                "interface": vnic.interface,
                "state": vnic.state,
                "tx_packets_per_s": _rounded(pace.tx_packets),
                "tx_bits_per_s": _rounded(pace.tx_bits),
                "rx_packets_per_s": _rounded(pace.rx_packets),
                "rx_bits_per_s": _rounded(pace.rx_bits),
                "drops_per_s": _rounded(pace.drops),
            }
            for vnic, pace in found.vnics
        ],
        "links": [
            {
                "name": link.name,
                "state": link.state,
                "datapath": link.datapath,
                "packets_forth_per_s": _rounded(pace.tx_packets),
                "bits_forth_per_s": _rounded(pace.tx_bits),
                "packets_back_per_s": _rounded(pace.rx_packets),
                "bits_back_per_s": _rounded(pace.rx_bits),
                "drops_per_s": _rounded(pace.drops),
            }
            for link, pace in found.links
        ],
        "drops": drops,
    }


def is_on(fault_place: str, place: str) -> bool:
    """Return whether a fault on `fault_place` is one of `place`: a node or host, or a cable `a:1--b:2` of it.

    A fault on one direction of a cable, or on all cables between its two nodes, is one of the cable.
    """
    if "--" not in place:
        return fault_place in (place, f"{place}:1")
    near, far = place.split("--")
    ends = frozenset(fault_place.replace("->", "--").split("--"))
    return ends in (frozenset((near, far)), frozenset(end.rpartition(":")[0] for end in (near, far)))


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part) if part.isdecimal() else -1, part) for part in re.split(r"(\d+)", name) if part]


def _growth(before: int, after: int) -> int:
    """Return the growth of a counter; one that has decreased was recreated and started from 0."""
    return after - before if after >= before else after


def _pace(before: Traffic | None, after: Traffic, seconds: float) -> Pace:
    before = before or Traffic()
    return Pace(
        tx_packets=_growth(before.tx_packets, after.tx_packets) / seconds,
        tx_bits=8 * _growth(before.tx_bytes, after.tx_bytes) / seconds,
        rx_packets=_growth(before.rx_packets, after.rx_packets) / seconds,
        rx_bits=8 * _growth(before.rx_bytes, after.rx_bytes) / seconds,
        drops=_growth(before.drops, after.drops) / seconds,
    )


def _drop_rates(before: Drops, after: Drops, seconds: float) -> tuple[DropRate, ...]:
    found: Iterable[DropRate] = (
        DropRate(element, reason, _growth(before.get(element, {}).get(reason, 0), total) / seconds, total)
        for element, reasons in after.items()
        for reason, total in reasons.items()
    )
    grown = (drop for drop in found if drop.per_second > 0)
    return tuple(sorted(grown, key=lambda drop: (-drop.per_second, _natural(drop.element), drop.reason)))


def _vnic(host: str, data: Mapping[str, Any]) -> Vnic:
    return Vnic(
        host=host,
        vesw=vesw_text(data),
        interface=data["interface"],
        state=data["state"],
        traffic=Traffic(
            data["tx_packets"], data["tx_bytes"], data["rx_packets"], data["rx_bytes"], data["drops"]
        ),
    )


def vesw_text(vnic: Mapping[str, Any]) -> str:
    """Return the virtual switch of a VNIC in a status, for display: its name, else its id, else `-`."""
    return str(vnic["vesw"] or vnic["vesw_id"] or "-")


def state_text(vnic: Mapping[str, Any]) -> str:
    """Return the state of a VNIC in a status, for display: with its reason, and where it was moved to."""
    reason, moved_to = vnic.get("reason"), vnic.get("moved_to")
    text = f"{vnic['state']}: {reason}" if reason else str(vnic["state"])
    return f"{text}, moved to {moved_to}" if moved_to else text


def _link(data: Mapping[str, Any]) -> Link:
    return Link(
        name=data["name"],
        state=data["state"],
        datapath=data["datapath"],
        traffic=Traffic(
            data["packets_forth"],
            data["bytes_forth"],
            data["packets_back"],
            data["bytes_back"],
            data["drops"],
        ),
    )


def _rounded(number: float) -> float:
    return round(number, 3)
