"""A port of the fabric that belongs to Linux's own hfi1: the switch's end of a cable to a virtual HFI. Sans-IO.

hfi1 speaks 16B to a port whose LID 16 bits do not hold (`FIRST_LID`), and answers SMPs as they came: so all that passes
is 16B, as on the rest of the fabric. The fabric's subnet manager sets the port up by SMPs to the SMA of hfi1
(`hfi1_setup`).

Source: hfi1_get_packet_type, hfi1_get_hdr_type of hfi1.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import ClassVar, Final

from hfi_sim.base.clock import Clock
from hfi_sim.base.counters import PacketCounters
from hfi_sim.base.port_state import PortEvent
from hfi_sim.management.sma.facts import node_of, port_num_of
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.nodes.switch import SwitchPort
from hfi_sim.wire.icrc import TRAILER_SIZE
from hfi_sim.wire.l4 import L4
from hfi_sim.wire.lrh16b import L4_BYTE
from hfi_sim.wire.packet import seal_packet
from opavnic.kernel.hfi1_setup import Hfi1Setup
from opavnic.kernel.port import PortOfKernel
from opavnic.kernel.wire import IDLE, LINK, NEIGHBOUR, PhysicalLink, WireKind, build_frame, parse_frame

FIRST_LID: Final = 0xC000
"""The lowest LID with which hfi1 sends nothing but 16B packets."""
_SHORTEST: Final = 32
_LT_AT: Final = 7
_HEAD_FLIT: Final = 0x80
"""LT in that byte of a packet."""
_FM_PAD: Final = 3
"""Bytes behind a MAD that hfi1 does not count in the last byte: a MAD is a multiple of 8 bytes."""


class SmaMessage(IntEnum):
    """What SMAs tell their neighbours by the 8051."""

    ARM = 0x103
    ACTIVE = 0x203


OnLink = Callable[[bool], None]
"""Told whether the HFI has its link up."""


class Hfi1Port(PortOfKernel):
    """A port whose driver is hfi1."""

    L4_TYPES: ClassVar[tuple[int, ...]] = (L4.ETHERNET, L4.IB_LOCAL, L4.IB_GLOBAL)
    HAS_PMA: ClassVar = True

    def __init__(
        self,
        port: HfiPort,
        send: Callable[[bytes], bool],
        *,
        attached: dict[str, PacketCounters] | None = None,
        on_link: OnLink,
        holder: str,
        clock: Clock,
    ) -> None:
        """Give a port to a kernel.

        Args:    on_link: brings the link of the fabric up, or takes it down. holder: the name under which it does.
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
        self._setup = Hfi1Setup(port, self._send_packet, self._activate, clock)
        self._tell()

    @property
    def _is_plugged(self) -> bool:
        """Whether nothing but the HFI itself holds the link down."""
        link = self._port.link
        return link is not None and not link.downed_by - {self._holder}

    def close(self) -> None:
        """Take the port back. May be called twice."""
        self._setup.end()
        super().close()

    def _changed(self, _event: PortEvent) -> None:
        self._tell()
        if self._is_up:
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
        self._send(build_frame(WireKind.PACKET, packet))

    def _activate(self) -> None:
        """Tell the HFI's SMA that its neighbour is armed, which it waits for."""
        self._send(build_frame(WireKind.IDLE, IDLE.build(message=SmaMessage.ARM)))

    def take(self, frame: bytes) -> None:
        """Take a frame of the kernel; frames of another kind are passed over."""
        self.go_on()
        found = parse_frame(frame)
        if found is None or self._closed:
            return
        if found.kind == WireKind.PACKET:
            self._from_kernel(found.body)
        elif found.kind == WireKind.PACKET_9B:
            self.counters.from_kernel += 1
            self.counters.malformed += 1
        elif found.kind == WireKind.LINK and len(found.body) == LINK.size:
            self._hear_link(LINK.parse(found.body).state)

    def _hear_link(self, state: int) -> None:
        was_up, self._is_up = self._is_up, state == PhysicalLink.LINK_UP
        if self._is_up:
            self._on_link(True)
            self._setup.begin()
        elif was_up or state == PhysicalLink.OFFLINE:
            self._setup.end()
            if self._told:
                self._on_link(False)

    def _from_kernel(self, body: bytes) -> None:
        self.counters.from_kernel += 1
        if len(body) < _SHORTEST or len(body) % 8:
            self.counters.malformed += 1
            return
        pad = _FM_PAD if body[L4_BYTE] == L4.FM else 0
        whole = bytearray(body[: len(body) - TRAILER_SIZE - pad])
        whole[_LT_AT] |= _HEAD_FLIT  # which hfi1 leaves to its hardware
        packet = seal_packet(bytes(whole), self._port.icrc)
        if not self._setup.take(packet):
            self._leaves(packet)
