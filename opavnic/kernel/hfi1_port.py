"""A port of the fabric that belongs to Linux's own hfi1: the switch's end of a cable to a virtual HFI. Sans-IO.

All its packets are the kernel's, 9B and 16B, SMPs among them. What hfi1's own SMA has taken of a fabric manager holds
for the port here, too: its LID, its P_Keys, its state. The fabric's built-in subnet manager, which sets ports by calls,
has them told to hfi1 by SMPs (`hfi1_setup`).
Source: hfi1_get_packet_type, hfi1_get_hdr_type of hfi1.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import ClassVar, Final

from hfi_sim.base.clock import Clock
from hfi_sim.base.counters import Drop, PacketCounters
from hfi_sim.base.errors import WireError
from hfi_sim.base.types import SC_MANAGEMENT, PortEvent, PortState
from hfi_sim.management.sma.answers import answer
from hfi_sim.management.sma.facts import node_of, port_num_of
from hfi_sim.management.sma.node import AttributeRequest, SmaNode
from hfi_sim.nodes.cable import Link
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.nodes.switch import SwitchPort
from hfi_sim.wire.icrc import TRAILER_SIZE
from hfi_sim.wire.lrh16b import L4, L4_BYTE, is_9b, l4_of, sc_of
from hfi_sim.wire.mad.attributes import SubnetAttrId
from hfi_sim.wire.mad.fm_packet import parse_mad_packet
from hfi_sim.wire.mad.header import MadHeader, Method
from hfi_sim.wire.mad.smp_header import Smp
from hfi_sim.wire.packet import check_packet, seal_packet
from hfi_sim.wire.packet_9b import bare_9b, carry_9b
from opavnic.kernel.hfi1_setup import Hfi1Setup
from opavnic.kernel.port import PortOfKernel
from opavnic.kernel.wire import ERROR, IDLE, LINK, NEIGHBOUR, PhysicalLink, WireKind, build_frame, parse_frame

_SHORTEST: Final = 32
_LT_AT: Final = 7
_HEAD_FLIT: Final = 0x80
"""LT in that byte of a packet."""
_FM_PAD: Final = 3
"""Bytes behind a MAD that hfi1 does not count in the last byte: a MAD is a multiple of 8 bytes."""
FM_TAIL: Final = TRAILER_SIZE + _FM_PAD
"""Bytes behind a MAD of hfi1."""
_STATUS: Final = 0x7FFF
_MAY_BEGIN: Final = (SubnetAttrId.PORT_INFO, SubnetAttrId.PORT_STATE_INFO, SubnetAttrId.AGGREGATE)
"""Of these a Get may be that with which a manager begins to set the port up (bit 9 of its modifier)."""
_PIO: Final = 4
_WRITE_ADDR_PARITY: Final = 1 << 1
"""Of SEND_PIO_ERR_STATUS: an error with which the hardware freezes."""
OPEN_MAX: Final = 256
"""Requests that hfi1 may have to answer; of more, the oldest are not followed."""


ARM: Final = 0x103
"""What an SMA tells its neighbour by the 8051: it is ARMED."""

OnLink = Callable[[bool], None]
"""Told whether the HFI has its link up."""


class Hfi1Port(PortOfKernel):
    """A port whose driver is hfi1."""

    L4_TYPES: ClassVar[tuple[int, ...]] = (L4.ETHERNET, L4.IB_LOCAL, L4.IB_GLOBAL)
    HAS_ALL_MADS: ClassVar = True

    def __init__(
        self,
        port: HfiPort,
        send: Callable[[bytes], bool],
        *,
        attached: dict[str, PacketCounters] | None = None,
        on_link: OnLink,
        holder: str,
        clock: Clock,
        is_set_up: bool = True,
    ) -> None:
        """Give a port to a kernel.

        Args:    on_link: brings the link of the fabric up, or takes it down. holder: the name under which it does.
                 is_set_up: what the port has been set to by calls is told to hfi1; else a fabric manager does all.
                 Others, Raises: as of `PortOfKernel`.
        """
        super().__init__(port, send, attached=attached)
        self.ready = True
        self._on_link = on_link
        self._holder = holder
        self._is_up = False
        """Whether the HFI says that its link is up."""
        self._told: bool | None = None
        """Whether the HFI was told that this end is ready."""
        self._setup = Hfi1Setup(port, self._send_packet, self._arm, clock)
        self._is_set_up = is_set_up
        self._node = SmaNode(port, _links_are_its_own)
        self._open: OrderedDict[tuple[int, int], AttributeRequest] = OrderedDict()
        """What may change the port and hfi1 has not answered yet, by transaction id and attribute."""
        port.break_register = self._break_register
        self._tell()

    @property
    def _is_plugged(self) -> bool:
        """Whether nothing but the HFI itself holds the link down."""
        link = self._port.link
        return link is not None and not link.downed_by - {self._holder}

    def close(self) -> None:
        """Take the port back. May be called twice."""
        self._setup.end()
        self._port.break_register = None
        super().close()

    def fabric_changed(self, name: str) -> None:
        """Let the HFI know whether its link is up, or may be, where it is the element of this name that has changed."""
        link = self._port.link
        if link is not None and link.name == name:
            self._tell()

    def _changed(self, _event: PortEvent) -> None:
        self._tell()
        if self._is_up:
            self._begin()

    def _begin(self) -> None:
        if self._is_set_up:
            self._setup.begin()

    def _tell(self) -> None:
        if self._told == self._is_plugged:
            return
        self._told = self._is_plugged
        state = PhysicalLink.LINK_UP if self._told else PhysicalLink.OFFLINE
        far = self._port if self._port.link is None else self._port.link.far_end(self._port)
        assert isinstance(far, HfiPort | SwitchPort)  # noqa: S101 - there are no others
        body = LINK.build(
            **NEIGHBOUR,
            guid=node_of(far).node_guid,
            port=port_num_of(far),
            type=int(isinstance(far, SwitchPort)),
            state=state,
            lni=int(self._port.mgmt_allowed) << 23,
        )
        self._send(build_frame(WireKind.LINK, body))

    def _send_packet(self, packet: bytes) -> None:
        self._send(self._frame_of(packet))

    def _frame_of(self, packet: bytes) -> bytes:
        if is_9b(packet):
            return build_frame(WireKind.PACKET_9B, bare_9b(packet))
        return build_frame(WireKind.PACKET, packet)

    def _arm(self) -> None:
        """Tell the HFI's SMA that its neighbour is armed, which it waits for."""
        self._send(build_frame(WireKind.IDLE, IDLE.build(message=ARM)))

    def _break_register(self) -> None:
        self._send(build_frame(WireKind.ERROR, ERROR.build(block=_PIO, bits=_WRITE_ADDR_PARITY)))

    def take(self, frame: bytes) -> None:
        """Take a frame of the kernel; frames of another kind are passed over."""
        self.go_on()
        found = parse_frame(frame)
        if found is None or self._closed:
            return
        if found.kind in (WireKind.PACKET, WireKind.PACKET_9B):
            self._from_kernel(found.body, is_9b=found.kind == WireKind.PACKET_9B)
        elif found.kind == WireKind.LINK and len(found.body) == LINK.size:
            self._hear_link(LINK.parse(found.body).state)

    def _hear_link(self, state: int) -> None:
        was_up, self._is_up = self._is_up, state == PhysicalLink.LINK_UP
        if self._is_up:
            self._on_link(True)
            self._begin()
        elif was_up or state == PhysicalLink.OFFLINE:
            self._setup.end()
            self._open.clear()
            if self._told:
                self._on_link(False)

    # --- packets -------------------------------------------------------------------------------------------

    def _from_kernel(self, body: bytes, *, is_9b: bool) -> None:
        self.counters.from_kernel += 1
        packet = self._of_9b(body) if is_9b else self._of_16b(body)
        if packet is None:
            self.counters.malformed += 1
        elif not self._setup.take(packet):
            if sc_of(packet) == SC_MANAGEMENT:
                self._follow(packet)
            self._leaves(packet)

    def _of_16b(self, body: bytes) -> bytes | None:
        """Return a 16B packet as links carry it; None: it is none."""
        if len(body) < _SHORTEST or len(body) % 8:
            return None
        pad = _FM_PAD if body[L4_BYTE] == L4.FM else 0
        whole = bytearray(body[: len(body) - TRAILER_SIZE - pad])
        whole[_LT_AT] |= _HEAD_FLIT  # which hfi1 leaves to its hardware
        return seal_packet(bytes(whole), self._port.icrc)

    def _of_9b(self, body: bytes) -> bytes | None:
        try:
            packet = carry_9b(body, self._port.icrc)
        except WireError:
            return None
        return None if check_packet(packet, None) else packet

    # --- subnet management ---------------------------------------------------------------------------------

    def _mad_to_kernel(self, packet: bytes) -> Drop | None:
        if sc_of(packet) == SC_MANAGEMENT and (found := _smp_of(packet)) is not None:
            header, smp = found
            is_set = header.method == Method.SET
            if is_set or header.attr_id in _MAY_BEGIN:
                asked = AttributeRequest(
                    header.attr_id, header.attr_mod, is_set, bytes(smp.data), self._port.opa_port_num
                )
                self._open[header.tid, header.attr_id] = asked
                if len(self._open) > OPEN_MAX:
                    self._open.popitem(last=False)
        return super()._mad_to_kernel(packet)

    def _follow(self, packet: bytes) -> None:
        """Let the port be as hfi1 is, if this is its answer to a Set, or to a Get with which a manager begins."""
        found = _smp_of(packet)
        if found is None or found[0].method != Method.GET_RESP:
            return
        header = found[0]
        asked = self._open.pop((header.tid, header.attr_id), None)
        if asked is None or header.status & _STATUS:
            return
        answer(self._node, asked)
        if self._port.state is PortState.ARMED:
            self._arm()


def _smp_of(packet: bytes) -> tuple[MadHeader, Smp] | None:
    """Return an SMP that a packet on SC15 holds, or None."""
    if l4_of(packet) != L4.FM:
        return None
    try:
        _, mad = parse_mad_packet(packet)
        return MadHeader.parse(mad), Smp(mad)
    except WireError:
        return None


def _links_are_its_own(_links: Iterable[Link], _up: bool, _by: str) -> None:
    """Take no link down or up: hfi1 does that itself, and says so."""
