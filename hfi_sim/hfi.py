"""The host fabric interface: a node with one or two ports, where packets enter and leave the fabric.

A port enforces what hardware enforces: its own LID as SLID, its partition table in both directions, complete and
undamaged packets on receipt. Above it, handlers take packets by L4 type.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hfi_sim.conveyor import Hold
from hfi_sim.counters import Drop, PacketCounters
from hfi_sim.errors import FabricError, NetdevError
from hfi_sim.link import Link
from hfi_sim.netdev.base import Netdev
from hfi_sim.pkeys import PkeyTable
from hfi_sim.port_state import CapabilityMask3, PortEvent, PortEventHandler, PortEventKind, PortState
from hfi_sim.types import LID_NONE, LID_PERMISSIVE, Guid, Lid, is_multicast_lid
from hfi_sim.wire.icrc import Icrc
from hfi_sim.wire.lrh16b import (
    BECN_BYTE3,
    FECN_BYTE7,
    L2_16B,
    dlid_of,
    l2_of,
    l4_of,
    length_qw_of,
    pkey_of,
    slid_of,
    with_becn,
)
from hfi_sim.wire.packet import MAX_PACKET, MIN_PACKET, check_packet

if TYPE_CHECKING:
    from hfi_sim.mad.stack import MadStack

log = logging.getLogger("hfi_sim.hfi")

RX_BUFFER_BYTES: Final = 1 << 20
"""Bytes that a stalled port queues from a link without credits; more is dropped (rx_overflow)."""

NetdevFactory = Callable[[int], Netdev]
"""Creates the network device of a vport, given its number, on the host of the HFI, and chooses its name."""

L4Handler = Callable[["HfiPort", bytes], Drop | None]
"""Takes a whole packet. A returned Drop is counted by the port; None means that the handler took the packet."""


@dataclass(slots=True)
class CongestionCounters:
    """Congestion counters of a port."""

    fecn_received: int = 0
    """Packets received that were marked by a congested switch (FECN)."""
    becn_sent: int = 0
    """Packets sent with BECN, which tells their receiver about it."""
    becn_received: int = 0
    """Packets received with BECN."""
    tx_stops: int = 0
    """How often the link stopped this port for lack of credits."""


class HfiPort:
    """One port of an HFI, numbered from 1."""

    forwards = False

    mad: MadStack
    """The MAD stack of this port."""

    def __init__(self, hfi: Hfi, opa_port_num: int, guid: Guid, icrc: Icrc) -> None:
        self.hfi = hfi
        self.opa_port_num = opa_port_num
        self.name = f"{hfi.name}:{opa_port_num}"
        self.guid = guid
        self.lid: Lid = LID_NONE
        self.lmc = 0
        self.sm_lid: Lid = LID_NONE
        self.state = PortState.DOWN
        self.pkeys = PkeyTable()
        self.multicast_lids: frozenset[int] = frozenset()
        self.capability_mask3 = CapabilityMask3(0)
        self.link: Link | None = None
        self.tx = PacketCounters()
        self.rx = PacketCounters()
        self.congestion = CongestionCounters()
        self.tx_stopped = False
        """The link has no credits and its queue is filling: a sender that can wait should wait."""
        self.icrc = icrc
        self._flow_handlers: list[Callable[[bool], None]] = []
        self._becn_due: set[int] = set()
        self._stalled = False
        self._waiting: deque[tuple[bytes, Hold | None]] = deque()
        self._waiting_bytes = 0
        self._l4_handlers: dict[int, L4Handler] = {}
        self._event_handlers: list[PortEventHandler] = []
        self._capability_handlers: list[Callable[[HfiPort], None]] = []

    # --- sending -------------------------------------------------------------------------------------------

    def send(self, packet: bytes) -> Drop | None:
        """Send arbitrary bytes; return why they were dropped, or None once they are on the link.

        For packets from elsewhere: the port reads the fields that it checks from the bytes. Code that has just built a
        packet knows them and calls `send_built` instead.
        """
        drop = _shape_fault(packet) if self.state is PortState.ACTIVE else Drop.TX_PORT_DOWN
        if drop is None:
            return self.send_built(packet, slid_of(packet), dlid_of(packet), pkey_of(packet))
        self.tx.in_packets += 1
        self.tx.in_bytes += len(packet)
        self.tx.drop(drop)
        return drop

    def send_built(self, packet: bytes, slid: int, dlid: int, pkey: int) -> Drop | None:
        """Send a sealed 16B packet built by this process; return why it was dropped, or None.

        Args:  slid, dlid, pkey: as in the packet, with LIDs of 24 bits; they are not read from it again.
        """
        tx = self.tx
        size = len(packet)
        tx.in_packets += 1
        tx.in_bytes += size
        if self.state is not PortState.ACTIVE:
            drop = Drop.TX_PORT_DOWN
        elif slid >> self.lmc != self.lid >> self.lmc:
            drop = Drop.TX_SLID
        elif dlid == LID_NONE:
            drop = Drop.TX_DLID
        elif not self.pkeys.may_send(pkey):
            drop = Drop.TX_PKEY
        else:
            tx.out_packets += 1
            tx.out_bytes += size
            assert self.link is not None  # noqa: S101 - an ACTIVE port has a link
            self.link.direction_from(self).transmit(self.answer_congestion(packet))
            return None
        tx.drop(drop)
        return drop

    def answer_congestion(self, packet: bytes) -> bytes:
        """Return a packet in its form on the link: with BECN set, if its receiver is to get one."""
        if self._becn_due and (dlid := dlid_of(packet)) in self._becn_due:
            self._becn_due.discard(dlid)
            self.congestion.becn_sent += 1
            return with_becn(packet)
        return packet

    @property
    def arriving(self) -> Hold | None:
        """Buffer space of the packet being received, on a link with credits; a handler may hold it."""
        return self.link.conveyor.arriving if self.link is not None else None

    # --- receiving -----------------------------------------------------------------------------------------

    def receive(self, packet: bytes, _hops: int = 0, /) -> None:
        """Receive a packet from the link: check it, then pass it to the handler of its L4 type."""
        rx = self.rx
        rx.in_packets += 1
        rx.in_bytes += len(packet)
        if self._stalled:
            self._wait(packet)
            return
        drop = self._ingress_refusal(packet)
        if drop is None:
            if packet[7] & FECN_BYTE7 or packet[3] & BECN_BYTE3:
                self._note_congestion(packet)
            handler = self._l4_handlers.get(l4_of(packet))
            drop = Drop.RX_L4 if handler is None else handler(self, packet)
        if drop is not None:
            rx.drop(drop)
            return
        rx.out_packets += 1
        rx.out_bytes += len(packet)

    def _note_congestion(self, packet: bytes) -> None:
        if packet[7] & FECN_BYTE7:
            self.congestion.fecn_received += 1
            if not is_multicast_lid(dlid_of(packet)):
                self._becn_due.add(slid_of(packet))
        if packet[3] & BECN_BYTE3:
            self.congestion.becn_received += 1

    def _ingress_refusal(self, packet: bytes) -> Drop | None:
        if self.state is not PortState.ACTIVE:
            return Drop.RX_PORT_DOWN
        drop = check_packet(packet, self.icrc)
        if drop is not None:
            return drop
        dlid = dlid_of(packet)
        if is_multicast_lid(dlid):
            if dlid not in self.multicast_lids:
                return Drop.RX_DLID
        elif dlid >> self.lmc != self.lid >> self.lmc and dlid != LID_PERMISSIVE:
            return Drop.RX_DLID
        if not self.pkeys.admits(pkey_of(packet)):
            return Drop.RX_PKEY
        return None

    def register_l4(self, l4: int, handler: L4Handler) -> None:
        """Pass packets of one L4 type to `handler`.

        Raises:  FabricError: the type has a handler already.
        """
        if l4 in self._l4_handlers:
            raise FabricError(f"{self.name}: L4 type {l4:#04x} already has a handler")
        self._l4_handlers[l4] = handler

    def unregister_l4(self, l4: int) -> None:
        """Remove the handler of one L4 type; its packets are dropped as rx_l4 again."""
        self._l4_handlers.pop(l4, None)

    # --- flow control --------------------------------------------------------------------------------------

    def tx_congested(self, stopped: bool) -> None:
        """Record that the link stops this port or lets it continue, and tell the subscribers."""
        self.tx_stopped = stopped
        self.congestion.tx_stops += stopped
        for handler in tuple(self._flow_handlers):
            handler(stopped)

    def on_flow(self, handler: Callable[[bool], None]) -> Callable[[], None]:
        """Call `handler(True)` when the link stops this port, `handler(False)` when it may send again."""
        self._flow_handlers.append(handler)
        return lambda: self._flow_handlers.remove(handler)

    def stall(self) -> None:
        """Receive nothing until `resume`, as if the host were busy. Credits then stop the senders."""
        self._stalled = True

    def resume(self) -> None:
        """Receive the waiting packets in order, and continue."""
        self._stalled = False
        while self._waiting and not self._stalled:
            packet, hold = self._waiting.popleft()
            self._waiting_bytes -= len(packet)
            self.rx.in_flight -= 1
            self.rx.in_packets -= 1  # it was counted when it came, and `receive` counts it again
            self.rx.in_bytes -= len(packet)
            self.receive(packet)
            if hold is not None:
                hold.release()

    def _wait(self, packet: bytes) -> None:
        hold = self.arriving
        if hold is not None:
            hold.keep()
        elif self._waiting_bytes + len(packet) > RX_BUFFER_BYTES:
            self.rx.drop(Drop.RX_OVERFLOW)
            return
        self._waiting.append((packet, hold))
        self._waiting_bytes += len(packet)
        self.rx.in_flight += 1

    # --- state and events ----------------------------------------------------------------------------------

    def subscribe(self, handler: PortEventHandler) -> Callable[[], None]:
        """Call `handler` for each event of this port; the returned function unsubscribes it."""
        self._event_handlers.append(handler)
        return lambda: self._event_handlers.remove(handler)

    def report(self, kind: PortEventKind) -> None:
        """Tell all subscribers of an event."""
        log.info("[%s] %s, lid %#x", self.name, kind.value, self.lid)
        event = PortEvent(kind, self)
        for handler in tuple(self._event_handlers):
            handler(event)

    def link_changed(self, up: bool) -> None:
        """Follow the link: INIT when it comes up, DOWN and PORT_ERR when an ACTIVE port loses it."""
        was_active = self.state is PortState.ACTIVE
        self.state = PortState.INIT if up else PortState.DOWN
        if was_active and not up:
            self.report(PortEventKind.PORT_ERR)

    def set_state(self, state: PortState) -> None:
        """Enter the state set by the subnet manager; becoming ACTIVE raises PORT_ACTIVE, leaving it PORT_ERR."""
        before, self.state = self.state, state
        if state is PortState.ACTIVE and before is not PortState.ACTIVE:
            self.report(PortEventKind.PORT_ACTIVE)
        elif before is PortState.ACTIVE and state is not PortState.ACTIVE:
            self.report(PortEventKind.PORT_ERR)

    def set_lid(self, lid: Lid, lmc: int = 0) -> None:
        """Take the base LID that the subnet manager assigned, and 2**lmc LIDs from it."""
        if (lid, lmc) == (self.lid, self.lmc):
            return
        self.lid, self.lmc = lid, lmc
        if self.state is PortState.ACTIVE:
            self.report(PortEventKind.LID_CHANGE)

    def set_pkeys(self, pkeys: Iterable[int]) -> None:
        """Take a new partition table."""
        table = PkeyTable.of(pkeys)
        if table == self.pkeys:
            return
        self.pkeys = table
        if self.state is PortState.ACTIVE:
            self.report(PortEventKind.PKEY_CHANGE)

    def announce(self, capability: CapabilityMask3) -> None:
        """Set bits of capability mask 3 and tell the subnet manager."""
        if capability in self.capability_mask3:
            return
        self.capability_mask3 |= capability
        for handler in tuple(self._capability_handlers):
            handler(self)

    def withdraw(self, capability: CapabilityMask3) -> None:
        """Clear bits of capability mask 3 whose service has ended, and tell the subnet manager."""
        if not self.capability_mask3 & capability:
            return
        self.capability_mask3 &= ~capability
        for handler in tuple(self._capability_handlers):
            handler(self)

    def on_capability(self, handler: Callable[[HfiPort], None]) -> None:
        """Call `handler` when the port announces a new capability (the subnet manager's trap 144)."""
        self._capability_handlers.append(handler)

    def alloc_rdma_netdev(self, vport_num: int) -> Netdev:
        """Allocate the network device of a vport on the host of this HFI.

        Raises:  NetdevError: the host of the HFI cannot create one, or refused.
        Source:  seed 000, "verbs to allocate and free the OPA_VNIC RDMA netdev"
        """
        if self.hfi.netdevs is None:
            raise NetdevError(f"{self.hfi.name} has no host to allocate the netdev of vport {vport_num} on")
        return self.hfi.netdevs(vport_num)


class Hfi:
    """A host fabric interface with its ports."""

    def __init__(
        self, name: str, node_guid: Guid, *, ports: int, icrc: Icrc, netdevs: NetdevFactory | None = None
    ) -> None:
        if not 1 <= ports <= 2:
            raise FabricError(f"HFI {name}: {ports} ports; an HFI has 1 or 2")
        self.name = name
        self.node_guid = node_guid
        self.netdevs = netdevs
        self.ports = {num: HfiPort(self, num, Guid(node_guid + num), icrc) for num in range(1, ports + 1)}


def _shape_fault(packet: bytes) -> Drop | None:
    """Return why bytes are not a packet that could leave a port, or None."""
    size = len(packet)
    if size > MAX_PACKET:
        return Drop.TX_MTU
    if size < MIN_PACKET or l2_of(packet) != L2_16B or length_qw_of(packet) * 8 != size:
        return Drop.TX_MALFORMED
    return None
