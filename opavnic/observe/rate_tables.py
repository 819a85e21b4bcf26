"""The tables of what passes a lab, for `opavnic top` and the web view: rows, and what is shown of them. Sans-IO.

A cell sorts by its value, not by its text. Rows of the hosts of one switch fold into one: of hundreds, all are seen.
"""

from __future__ import annotations

import ipaddress
import struct
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from hfi_sim.base.text import visible
from hfi_sim.base.types import mac_text
from hfi_sim.wire.lrh16b import EthernetL4, Lrh16B
from opavnic.observe.rates import Paces, Rates, load_of, natural, pace_headings
from opavnic.state.fabric import FaultsSet, LanesState, LaneStatus
from opavnic.state.lab import UP, LabState, LinkStatus, VnicStatus
from opavnic.vnic.flow import innermost_ethertype_at

HEADERS: Final = Lrh16B.SIZE + EthernetL4.SIZE
SNAP: Final = 128
"""Bytes of a packet that a flow is known by: 16B and L4 header, Ethernet with VLAN tags, IPv6, ports."""
MAX_FLOWS: Final = 4096
"""Flows that are told apart; the frames of further ones are counted together."""
_MACS: Final = 12
_IPV4, _IPV6, _ARP = 0x0800, 0x86DD, 0x0806
_PROTOCOLS: Final = {1: "ICMP", 2: "IGMP", 6: "TCP", 17: "UDP", 47: "GRE", 58: "ICMPv6", 132: "SCTP"}
_WITH_PORTS: Final = frozenset({6, 17, 132})


@dataclass(frozen=True, slots=True)
class Flow:
    """What frames of one flow have in common; `source` is the sender."""

    protocol: str
    """Of the innermost header that is known: TCP, ARP, or the ethertype."""
    source: str
    """Address and port; the MAC address of what is not IP."""
    target: str


OTHERS: Final = Flow("others", "", "")


class FlowTally:
    """Packets and bytes of each flow so far."""

    def __init__(self) -> None:
        self.totals: dict[Flow, tuple[int, int]] = {}
        """Packets, and bytes of 16B packets as links count them."""

    def add(self, packet: bytes, wire_len: int) -> None:
        """Count a 16B packet that carries an Ethernet frame; what is too short for one is left out.

        Args:  packet: its first bytes, SNAP or more where it is as long.
        """
        flow = flow_of_packet(packet)
        if flow is None:
            return
        if flow not in self.totals and len(self.totals) >= MAX_FLOWS:
            flow = OTHERS
        packets, size = self.totals.get(flow, (0, 0))
        self.totals[flow] = packets + 1, size + wire_len


def flow_of_packet(packet: bytes) -> Flow | None:
    """Return the flow of a 16B packet with an Ethernet frame in it; None if it is too short for one."""
    frame = packet[HEADERS:]
    at = innermost_ethertype_at(frame)
    if len(frame) < at + 2:
        return None
    ethertype = int.from_bytes(frame[at : at + 2], "big")
    body = frame[at + 2 :]
    macs = mac_text(frame[6:_MACS]), mac_text(frame[:6])
    if ethertype == _IPV4 and len(body) >= 20:
        return _ip(body[9], body[12:16], body[16:20], body[(body[0] & 15) * 4 :], _is_first(body))
    if ethertype == _IPV6 and len(body) >= 40:
        return _ip(body[6], body[8:24], body[24:40], body[40:], True)
    return Flow("ARP" if ethertype == _ARP else f"{ethertype:#06x}", *macs)


def _is_first(ip: bytes) -> bool:
    """Return whether an IPv4 packet begins with the header of its payload: it is no later fragment."""
    offset: int = struct.unpack_from(">H", ip, 6)[0] & 0x1FFF
    return offset == 0


def _ip(protocol: int, source: bytes, target: bytes, payload: bytes, has_ports: bool) -> Flow:
    ends = [str(ipaddress.ip_address(address)) for address in (source, target)]
    if protocol in _WITH_PORTS and has_ports and len(payload) >= 4:
        ports = struct.unpack_from(">HH", payload)
        ends = [
            f"[{end}]:{port}" if ":" in end else f"{end}:{port}"
            for end, port in zip(ends, ports, strict=True)
        ]
    return Flow(_PROTOCOLS.get(protocol, f"IP protocol {protocol}"), *ends)


MANY: Final = 60
"""Hosts above which those of a switch are shown as one, unless a person wants them apart."""
WRONG_IF_ANY: Final = frozenset({"drops"})
"""Counters that had better not grow."""
_UNITS: Final = ("", "k", "M", "G", "T", "P")
_KINDS: Final = 3
"""Different texts that a folded cell lists."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One value and what is shown of it, which has no control characters."""

    value: float | str
    text: str
    is_wrong: bool = False
    """It stands out."""


@dataclass(frozen=True, slots=True)
class Row:
    """What one thing of a lab has in a table."""

    key: str
    """What it is known by from look to look; for places of faults, the place."""
    cells: tuple[Cell, ...]
    home: str = ""
    """The switch with whose other hosts it may be folded; empty: it never is."""
    load: tuple[float, ...] = ()
    """What "busiest first" sorts by."""

    @property
    def is_down(self) -> bool:
        """Whether a state of it is wrong."""
        return any(cell.is_wrong and isinstance(cell.value, str) for cell in self.cells)


@dataclass(frozen=True, slots=True)
class RateTable:
    """A table: its name, headings, and rows."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]

    def is_number(self, column: int) -> bool:
        """Return whether a column has numbers, which sort from the largest on at first."""
        return any(not isinstance(row.cells[column].value, str) for row in self.rows)

    def with_text(self, wanted: str) -> RateTable:
        """Return it with the rows that have a text in a cell, in upper or lower case."""
        wanted = wanted.casefold()
        rows = (row for row in self.rows if any(wanted in cell.text.casefold() for cell in row.cells))
        return replace(self, rows=tuple(rows))

    def in_order(self, column: int, *, descending: bool) -> RateTable:
        """Return it in the order of a column; rows that are equal there, in that of their keys."""
        rows = sorted(self.rows, key=lambda row: natural(row.key))
        rows.sort(key=lambda row: _order(row.cells[column].value), reverse=descending)
        return replace(self, rows=tuple(rows))

    def most_telling(self, most: int) -> RateTable:
        """Return it with so many rows in their order: of a longer one what is not up, then the busiest."""
        telling = sorted(self.rows, key=lambda row: (row.is_down, row.load), reverse=True)
        kept = {row.key for row in telling[:most]}
        return replace(self, rows=tuple(row for row in self.rows if row.key in kept))

    def folded(self, apart: Collection[str] = ()) -> RateTable:
        """Return it with the rows of each switch as one, whose key is the switch.

        Args:  apart: switches whose rows stay.
        """
        sizes = Counter(row.home for row in self.rows if row.home and row.home not in apart)
        groups: dict[str, list[Row]] = {home: [] for home, size in sizes.items() if size > 1}
        alone: list[Row] = []
        for row in self.rows:
            groups.get(row.home, alone).append(row)
        together = (_together(home, rows, self.name) for home, rows in groups.items())
        return replace(self, rows=(*alone, *together))


def _together(home: str, rows: Sequence[Row], name: str) -> Row:
    columns = list(zip(*(row.cells for row in rows), strict=True))
    head = visible(f"{len(rows)} {name} of {home}")
    return Row(home, (Cell(home, head), *map(_sum, columns[1:])))


def _sum(cells: Sequence[Cell]) -> Cell:
    """Return the sum of numbers, or what texts there are and how often."""
    is_wrong = any(cell.is_wrong for cell in cells)
    numbers = [cell.value for cell in cells if not isinstance(cell.value, str)]
    if numbers:
        return replace(_number(sum(numbers)), is_wrong=is_wrong)
    texts = Counter(cell.text for cell in cells)
    if len(texts) == 1:
        return cells[0]
    said = ", ".join(f"{count} {text}" for text, count in texts.most_common(_KINDS))
    return Cell(said, said if len(texts) <= _KINDS else f"{len(texts)} different ones", is_wrong)


def _order(value: float | str) -> tuple[float, list[tuple[int, str]]]:
    return (0.0, natural(value)) if isinstance(value, str) else (value, [])


def human(number: float) -> str:
    """Return a number of 0 or more with three digits and a prefix for thousands, millions, ...: 1.25M."""
    for unit in _UNITS:
        if number < 999.5 or unit == _UNITS[-1]:
            digits = 2 if number < 9.995 else 1 if number < 99.95 else 0
            text = f"{number:.{digits}f}"
            return (text.rstrip("0").rstrip(".") if digits else text) + unit
        number /= 1000
    raise AssertionError("unreachable: the last unit takes any number")


def head_text(found: Rates) -> str:
    """Return the line above the tables: the lab, and what runs it."""
    lab = found.lab
    mads, seconds = human(found.mads), f"{found.seconds:.3g} s"
    return visible(f"lab {lab.lab}: datapath {lab.datapath}, EM {lab.em}, {mads} MADs/s, {seconds}")


def _name(text: str) -> Cell:
    return Cell(text, visible(text))


def _state(text: str) -> Cell:
    return Cell(text, visible(text), text != UP)


def _number(number: float, *, wrong_if_any: bool = False) -> Cell:
    return Cell(number, human(number), wrong_if_any and number > 0)


def _pace_cells(paces: Paces) -> list[Cell]:
    return [_number(pace, wrong_if_any=name in WRONG_IF_ANY) for name, pace in paces.items()]


def _switches(lab: LabState) -> Mapping[str, str]:
    """Return the switch at the other end of each port that carries VNICs."""
    ports = {vnic.port for _, vnic in lab.vnics()}
    ends = [tuple(link.name.split("->")) for link in lab.links]
    both = [*ends, *(pair[::-1] for pair in ends)]
    return {near: far.rpartition(":")[0] for near, far in both if near in ports and far not in ports}


def vnics(found: Rates) -> RateTable:
    """Return the VNICs; the key of a row is `host/interface`."""
    home = _switches(found.lab)
    rows = [
        Row(
            f"{host.name}/{vnic.interface}",
            (
                *map(_name, (host.name, vnic.vesw_text, vnic.interface)),
                _state(vnic.state),
                *_pace_cells(paces),
            ),
            home.get(vnic.port, ""),
            load_of(paces),
        )
        for host, vnic, paces in found.vnics
    ]
    return RateTable("VNICs", ("host", "vesw", "interface", "state", *pace_headings(VnicStatus)), tuple(rows))


def links(found: Rates) -> RateTable:
    """Return the links; the key of a row is the cable, as places of faults have it: `h1:1--sw0:2`."""
    home = _switches(found.lab)
    rows = [
        Row(
            link.cable,
            (_name(link.name), _state(link.state), _name(link.datapath), *_pace_cells(paces)),
            next((home[end] for end in link.name.split("->") if end in home), ""),
            load_of(paces),
        )
        for link, paces in found.links
    ]
    return RateTable("links", ("link", "state", "datapath", *pace_headings(LinkStatus)), tuple(rows))


def drops(found: Rates) -> RateTable:
    """Return the drop counters that grew."""
    rows = [
        Row(
            f"{drop.element} {drop.reason}",
            (
                _name(drop.element),
                _name(drop.reason),
                _number(drop.per_second, wrong_if_any=True),
                _number(drop.total),
            ),
        )
        for drop in found.drops
    ]
    return RateTable("drops", ("what was dropped", "reason", "drops/s", "so far"), tuple(rows))


def faults(answer: FaultsSet) -> RateTable:
    """Return the faults; the key of a row is the number of its fault."""
    rows = [
        Row(
            str(fault.number),
            (
                Cell(float(fault.number), str(fault.number)),
                *map(_name, (fault.fault, fault.state)),
                *map(_number, (fault.seen, fault.hits)),
            ),
        )
        for fault in answer.faults
    ]
    return RateTable("faults", ("no.", "fault", "state", "seen", "hits"), tuple(rows))


def lanes(answer: LanesState, before: LanesState | None, seconds: float) -> RateTable:
    """Return the virtual lanes of a link.

    Args:  before: the lanes `seconds` ago; None: nothing was asked then, and nothing has grown.
    """
    old = {(way.name, lane.vl): lane for way in (before or answer).directions for lane in way.vls}
    rows = [
        _lane(way.name, lane, old.get((way.name, lane.vl), lane), seconds)
        for way in answer.directions
        for lane in way.vls
    ]
    columns = ("direction", "VL", "pkt/s", "bit/s", "waits", "disc/s", "FECN/s", "credits", "waiting", "held")
    return RateTable("VLs", columns, tuple(rows))


def _lane(way: str, lane: LaneStatus, old: LaneStatus, seconds: float) -> Row:
    def grown(of: Callable[[LaneStatus], int]) -> float:
        return max(0, of(lane) - of(old)) / seconds

    waits = grown(lambda at: at.wait_ns) / 1e9
    sizes = (lane.credits, lane.waiting, lane.occupied)
    return Row(
        f"{way} {lane.vl}",
        (
            _name(way),
            Cell(float(lane.vl), str(lane.vl)),
            _number(grown(lambda at: at.packets)),
            _number(8 * grown(lambda at: at.bytes)),
            Cell(waits, f"{min(waits, 1):.0%}", waits > 0.5),
            _number(grown(lambda at: at.discards), wrong_if_any=True),
            _number(grown(lambda at: at.fecn), wrong_if_any=True),
            *(Cell(-1.0, "-") if size is None else _number(size) for size in sizes),
        ),
    )


def flows(
    now: Mapping[Flow, tuple[int, int]], before: Mapping[Flow, tuple[int, int]], seconds: float
) -> RateTable:
    """Return flows, with their packets and bytes now and `seconds` ago."""
    rows = []
    for flow, (packets, size) in now.items():
        old_packets, old_size = before.get(flow, (0, 0))
        rows.append(
            Row(
                f"{flow.source} {flow.target} {flow.protocol}",
                (
                    *map(_name, (flow.source, flow.target, flow.protocol)),
                    _number((packets - old_packets) / seconds),
                    _number(8 * (size - old_size) / seconds),
                    _number(packets),
                ),
            )
        )
    return RateTable("flows", ("from", "to", "protocol", "pkt/s", "bit/s", "packets"), tuple(rows))


def all_tables(found: Rates) -> Iterable[RateTable]:
    """Return the tables of rates."""
    return vnics(found), links(found), drops(found)
