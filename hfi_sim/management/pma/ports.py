"""What a port has counted, as performance management counts it: from the counters of its link, its own, its switch's.

Nothing here is ever reset; an agent keeps what it has cleared (`hfi_sim.management.pma.agent`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hfi_sim.base.clock import NS_PER_S
from hfi_sim.base.counters import Drop
from hfi_sim.engine.api import PortError
from hfi_sim.engine.link.vl_counters import VlCounters, WireCounters
from hfi_sim.nodes.cable import LinkPort
from hfi_sim.nodes.end_port import EndPort
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.nodes.switch import Switch, SwitchPort, SwitchPort0
from hfi_sim.wire.header import Header
from hfi_sim.wire.mad import pma_ib_attributes as ib
from hfi_sim.wire.mad.attributes import IbPmAttrId
from hfi_sim.wire.mad.header import MadHeader, MadStatus, Method
from hfi_sim.wire.mad.pma_attributes import COUNTERS, FLIT, VL_COUNTERS

Counts = dict[str, int]
"""By the names of `COUNTERS`, or of `VL_COUNTERS`; `xmit_wait` in nanoseconds."""
Errors = Mapping[Drop, PortError]

COUNTED_AS: Final[Mapping[Drop, str]] = {
    Drop.LINK_OVERFLOW: "xmit_discards",
    Drop.LINK_HOQ: "xmit_discards",
    Drop.LINK_DOWN: "xmit_discards",
    Drop.TX_PORT_DOWN: "xmit_discards",
    Drop.TX_MALFORMED: "xmit_discards",
    Drop.TX_DLID: "xmit_discards",
    Drop.TX_MTU: "xmit_discards",
    Drop.SW_PORT_DOWN: "xmit_discards",
    Drop.SW_MTU: "xmit_discards",
    Drop.TX_PKEY: "xmit_constraint_errors",
    Drop.TX_SLID: "xmit_constraint_errors",
    Drop.SW_PKEY_OUT: "xmit_constraint_errors",
    Drop.RX_PKEY: "rcv_constraint_errors",
    Drop.SW_PKEY_IN: "rcv_constraint_errors",
    Drop.SW_NO_ROUTE: "rcv_switch_relay_errors",
    Drop.SW_NO_GROUP: "rcv_switch_relay_errors",
    Drop.SW_SC: "rcv_switch_relay_errors",
    Drop.RX_TRUNCATED: "rcv_errors",
    Drop.RX_L2: "rcv_errors",
    Drop.RX_LENGTH: "rcv_errors",
    Drop.RX_ICRC: "rcv_errors",
    Drop.RX_DLID: "rcv_errors",
    Drop.SW_MALFORMED: "rcv_errors",
    Drop.RX_OVERFLOW: "excessive_buffer_overruns",
}
"""The counter of each drop at the port that drops; no other drop is an error of a port. What comes to a port that is
not ACTIVE is dropped in silence, as InfiniBand has it; what a fault loses is an error of the link at its far end."""

EXCELLENT: Final = 5
_WORSE: Final = ((1000, 1), (100, 2), (10, 3), (1, 4))
"""From how many recent errors of the wire on the link quality is this."""


def quality(recent_errors: int) -> int:
    """Return the quality of a link that is up: 5 without errors of the wire in the last 10 to 20 s, 4 from 1 on, 3 from
    10, 2 from 100, 1 from 1000.

    Differs: hardware's firmware weighs the margins of its receiver; this wire has none, only errors.
    """
    return next((worse for errors, worse in _WORSE if recent_errors >= errors), EXCELLENT)


_NO_WIRE: Final = WireCounters(0, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class _Way:
    """One direction of a link as a port sees it; without a link, nothing."""

    packets: int = 0
    data: int = 0
    drops: Mapping[Drop, int] | None = None
    wire: WireCounters = _NO_WIRE
    vls: Sequence[VlCounters] = ()
    marked: int = 0

    @classmethod
    def of(cls, source: LinkPort) -> _Way:
        """Look at the direction in which a port sends."""
        if source.link is None:
            return cls()
        direction = source.link.direction_from(source)
        vls = direction.vl_counters()
        wire = direction.wire_counters()
        counters, lanes = direction.counters, direction.lanes
        return cls(
            counters.out_packets,
            counters.out_bytes // FLIT,
            counters.drops,
            wire,
            vls,
            lanes.fecn_marked if lanes is not None else 0,
        )

    def discards(self) -> Iterable[tuple[Drop, int]]:
        """Yield what the near end did not send."""
        drops = self.drops or {}
        return (
            (drop, drops[drop])
            for drop in (Drop.LINK_OVERFLOW, Drop.LINK_DOWN, Drop.LINK_HOQ)
            if drop in drops
        )


class CountedPort:
    """One port with a cable, with all that an agent may be asked about it."""

    def __init__(self, port: HfiPort | SwitchPort) -> None:
        self._port = port
        self._is_switch = isinstance(port, SwitchPort)

    def _drops(self) -> Iterable[tuple[Drop, int]]:
        """Return what it has dropped itself."""
        if isinstance(self._port, HfiPort):
            return _drops_of(self._port)
        return [(drop, error.packets) for drop, error in self.errors().items()]

    def _ways(self) -> tuple[_Way, _Way]:
        """Return how it sends and how it receives."""
        link = self._port.link
        return _Way.of(self._port), _Way() if link is None else _Way.of(link.far_end(self._port))

    def counts(self) -> Counts:
        """Return its counters."""
        there, back = self._ways()
        counts = dict.fromkeys(COUNTERS, 0)
        counts |= {
            "xmit_data": there.data,
            "rcv_data": back.data,
            "xmit_pkts": there.packets,
            "rcv_pkts": back.packets,
            "multicast_xmit_pkts": there.wire.multicast,
            "multicast_rcv_pkts": back.wire.multicast,
            # time when all VLs waited at once is not counted; this is never more than the time that passed
            "xmit_wait": max((vl.wait_ns for vl in there.vls), default=0),
            "sw_congestion": self._is_switch * sum(vl.overflows for vl in there.vls),
            "rcv_fecn": back.wire.fecn,
            "rcv_becn": back.wire.becn,
            "mark_fecn": there.marked,
            "local_link_integrity_errors": back.wire.errors,
        }
        link = self._port.link
        counts["link_downed"] = 0 if link is None else link.times_downed
        return _add_drops(counts, [*there.discards(), *self._drops()])

    def vl_counts(self) -> Sequence[Counts]:
        """Return the counters of each existing VL; index: VL."""
        there, back = self._ways()
        none = VlCounters(0, 0, 0, 0)
        rows = []
        for vl in range(max(len(there.vls), len(back.vls))):
            sent = there.vls[vl] if vl < len(there.vls) else none
            received = back.vls[vl] if vl < len(back.vls) else none
            rows.append(
                dict.fromkeys(VL_COUNTERS, 0)
                | {
                    "xmit_data": sent.bytes // FLIT,
                    "rcv_data": received.bytes // FLIT,
                    "xmit_pkts": sent.packets,
                    "rcv_pkts": received.packets,
                    "xmit_wait": sent.wait_ns,
                    "sw_congestion": self._is_switch * sent.overflows,
                    "rcv_fecn": received.fecn,
                    "rcv_becn": received.becn,
                    "xmit_discards": sent.discards,
                }
            )
        return rows

    def errors(self) -> Errors:
        """Return its drops, with the first packet of each kind."""
        return self._port.errors()

    def forget_errors(self, reasons: Iterable[Drop]) -> None:
        """Forget the first packets of these kinds."""
        self._port.forget_errors(reasons)

    def link_quality(self) -> int:
        """Return the quality of its link, 5 to 0."""
        link = self._port.link
        if link is None or not link.up:
            return 0
        return quality(link.direction_from(link.far_end(self._port)).wire_counters().recent_errors)

    def flit_times(self, wait_ns: int) -> int:
        """Return how many flits could have been sent in a time."""
        link = self._port.link
        if link is None:
            return 0
        return wait_ns * round(link.direction_from(self._port).planned.rate_bps) // (8 * FLIT * NS_PER_S)


class CountedPort0(CountedPort):
    """Port 0 of a switch: it has no link, and all that it carries counts for VL 0."""

    def __init__(self, port: SwitchPort0) -> None:
        self._port0 = port
        self._switch = port.switch

    def counts(self) -> Counts:
        tx, rx = self._port0.tx, self._port0.rx
        counts = dict.fromkeys(COUNTERS, 0) | {
            "xmit_data": tx.out_bytes // FLIT,
            "rcv_data": rx.in_bytes // FLIT,
            "xmit_pkts": tx.out_packets,
            "rcv_pkts": rx.in_packets,
        }
        relayed = [(drop, error.packets) for drop, error in self._switch.errors_at(0).items()]
        return _add_drops(counts, [*_drops_of(self._port0), *relayed])

    def vl_counts(self) -> Sequence[Counts]:
        counts = self.counts()
        return [{name: counts[name] for name in VL_COUNTERS}]

    def errors(self) -> Errors:
        return {**self._port0.errors(), **self._switch.errors_at(0)}

    def forget_errors(self, reasons: Iterable[Drop]) -> None:
        reasons = tuple(reasons)
        self._port0.forget_errors(reasons)
        self._switch.forget_errors_at(0, reasons)

    def link_quality(self) -> int:
        return EXCELLENT

    def flit_times(self, wait_ns: int) -> int:
        return 0


def _drops_of(port: EndPort) -> list[tuple[Drop, int]]:
    return [*port.tx.drops.items(), *port.rx.drops.items()]


def _add_drops(counts: Counts, drops: Iterable[tuple[Drop, int]]) -> Counts:
    for drop, packets in drops:
        if (name := COUNTED_AS.get(drop)) is not None:
            counts[name] += packets
    return counts


def counted_hfi(port: HfiPort) -> Mapping[int, CountedPort]:
    """Return the port that the agent of an HFI port answers for."""
    return {port.opa_port_num: CountedPort(port)}


def counted_switch(switch: Switch) -> Mapping[int, CountedPort]:
    """Return the ports that the agent of a switch answers for: all, port 0 included."""
    return {0: CountedPort0(switch.port0)} | {
        port_num: CountedPort(port) for port_num, port in switch.ports.items()
    }


_PORT_SELECT: Final = 1
"""Where the number of the port stands in the data."""
_CAPABILITIES: Final = slice(ib.DATA_AT + 2, ib.DATA_AT + 4)
"""CapabilityMask of ClassPortInfo."""
_FORMS: Final[Mapping[int, Header]] = {
    IbPmAttrId.PORT_COUNTERS: ib.PORT_COUNTERS,
    IbPmAttrId.PORT_COUNTERS_EXTENDED: ib.PORT_COUNTERS_EXTENDED,
}


def sysfs_counters(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the counters of a port by the names of sysfs, as the IB core reads them by MADs of this form."""
    shown = {name: counts[register] for name, register in ib.REGISTERS.items()}
    return {name: min(shown.get(name, 0), limit) for name, limit in ib.LIMITS.items()}


def answer_in_ib_form(
    header: MadHeader, data: bytes, port_num: int, counts: Callable[[], Mapping[str, int]]
) -> tuple[int, bytes]:
    """Return the status of a response in InfiniBand's form and its data, of a port that counts `counts`.

    PortCounters has errors only, each at most what its field holds; data and packets are in PortCountersExtended, and
    data count flits of 8 bytes, where InfiniBand counts words of 4.

    Source: process_perf(), pma_get_ib_portcounters() and pma_get_ib_portcounters_ext() of Linux, hfi1/mad.c.
    Args:  data: what follows the header of the request, filled up with zeros; what an attribute leaves comes back.
    """
    if header.class_version != ib.CLASS_VERSION_IB:
        return MadStatus.BAD_VERSION, data
    if header.method == Method.GET and header.attr_id == IbPmAttrId.CLASS_PORT_INFO:
        info = bytearray(data)
        info[_CAPABILITIES] = ib.CAP_EXTENDED.to_bytes(2, "big")
        return MadStatus.OK, bytes(info)
    if header.method not in (Method.GET, Method.SET):
        return MadStatus.UNSUPPORTED_METHOD, data
    form = _FORMS.get(header.attr_id)
    if header.method != Method.GET or form is None:
        return MadStatus.UNSUPPORTED, data
    if header.attr_mod or data[ib.DATA_AT + _PORT_SELECT] != port_num:
        return MadStatus.INVALID, data
    values = sysfs_counters(counts())
    if form is ib.PORT_COUNTERS:
        values |= dict.fromkeys(ib.ONLY_EXTENDED, 0)
        links, overruns = values["local_link_integrity_errors"], values["excessive_buffer_overrun_errors"]
        values["link_overrun_errors"] = links << 4 | overruns
    asked = form.codec.unpack(data[ib.DATA_AT : ib.DATA_AT + form.size])
    told = form.codec.pack(*(values.get(name, was) for name, was in zip(form.fields, asked, strict=True)))
    return MadStatus.OK, data[: ib.DATA_AT] + told + data[ib.DATA_AT + form.size :]
