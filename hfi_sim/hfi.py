"""The host fabric interface: a node with one or two ports, where packets enter and leave the fabric.

A port enforces what hardware enforces: its own LID as SLID, its partition table in both directions, complete and
undamaged packets on receipt. Above it, handlers take packets by L4 type.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from hfi_sim.cable import Link
from hfi_sim.counters import CongestionCounters, Drop, PacketCounters
from hfi_sim.engine.config import HfiEnd, PortConfig
from hfi_sim.engine.driver import Driver
from hfi_sim.engine.outputs import BufferToken
from hfi_sim.errors import FabricError, NetdevError
from hfi_sim.netdev.base import Netdev
from hfi_sim.pkeys import PkeyTable
from hfi_sim.port_state import CapabilityMask3, PortEvent, PortEventHandler, PortEventKind, PortState
from hfi_sim.types import LID_NONE, Guid, Lid
from hfi_sim.wire.icrc import Icrc
from hfi_sim.wire.lrh16b import l4_of, length_of_16b, route_of
from hfi_sim.wire.packet import MAX_PACKET, MIN_PACKET

if TYPE_CHECKING:
    from hfi_sim.mad.stack import MadStack

log = logging.getLogger("hfi_sim.hfi")

NetdevFactory = Callable[[int], Netdev]
"""Creates the network device of a vport, given its number, on the host of the HFI, and chooses its name."""

L4Handler = Callable[["HfiPort", bytes, BufferToken | None], Drop | None]
"""Takes a whole packet, and the room that it occupies in the port's buffer, on a link with credits (`HfiPort.keep`).

A returned Drop is counted by the port; None means that the handler took the packet.
"""


class HfiPort:
    """One port of an HFI, numbered from 1."""

    mad: MadStack
    """The MAD stack of this port."""

    def __init__(self, hfi: Hfi, opa_port_num: int, guid: Guid, icrc: Icrc, driver: Driver) -> None:
        self.hfi = hfi
        self.opa_port_num = opa_port_num
        self.name = f"{hfi.name}:{opa_port_num}"
        self.guid = guid
        self.sm_lid: Lid = LID_NONE
        self.capability_mask3 = CapabilityMask3(0)
        self.link: Link | None = None
        self._tx = PacketCounters()
        self._rx = PacketCounters()
        self._congestion = CongestionCounters()
        self.icrc = icrc
        self.number = driver.engine.add_port(self._tx, self._rx, self._congestion)
        """Its number in the engine."""
        self._driver = driver
        self._config = PortConfig()
        self._told_to_stop = False
        self._flow_handlers: list[Callable[[bool], None]] = []
        self._l4_handlers: dict[int, L4Handler] = {}
        self._event_handlers: list[PortEventHandler] = []
        self._capability_handlers: list[Callable[[HfiPort], None]] = []

    @property
    def engine_end(self) -> HfiEnd:
        """The port, as the engine knows it."""
        return HfiEnd(self.number)

    def _configure(self, **changes: object) -> None:
        self._config = replace(self._config, **changes)  # type: ignore[arg-type]
        self._driver.engine.set_port(self._driver.now, self.number, self._config)
        self._driver.run_soon()

    # --- counters ------------------------------------------------------------------------------------------

    @property
    def tx(self) -> PacketCounters:
        """What was sent so far."""
        self._driver.count()
        return self._tx

    @property
    def rx(self) -> PacketCounters:
        """What was received so far."""
        self._driver.count()
        return self._rx

    @property
    def congestion(self) -> CongestionCounters:
        """What was marked by congested switches, and answered, so far."""
        self._driver.count()
        return self._congestion

    # --- sending -------------------------------------------------------------------------------------------

    def send(self, packet: bytes) -> Drop | None:
        """Send arbitrary bytes; return why they were dropped, or None once they are on the link.

        For packets from elsewhere: the port reads the fields that it checks from the bytes. Code that has just built a
        packet knows them and calls `send_built` instead.
        """
        if self.state is PortState.DOWN:
            drop = Drop.TX_PORT_DOWN
        elif not MIN_PACKET <= (size := len(packet)) <= MAX_PACKET:
            drop = Drop.TX_MTU if size > MAX_PACKET else Drop.TX_MALFORMED
        elif length_of_16b(packet) != size:
            drop = Drop.TX_MALFORMED
        else:
            return self.send_built(packet, *route_of(packet))
        self._tx.in_packets += 1
        self._tx.in_bytes += len(packet)
        self._tx.drop(drop)
        return drop

    def send_built(self, packet: bytes, slid: int, dlid: int, pkey: int) -> Drop | None:
        """Send a sealed 16B packet built by this process; return why the port refused it, or None.

        Args:  slid, dlid, pkey: as in the packet, with LIDs of 24 bits; they are not read from it again.
        """
        drop = self._driver.inject(self.number, packet, slid, dlid, pkey)
        if self.link is not None and self.link.flow is not None:
            self.heed_flow()  # at once: a sender that empties its queue now must notice
        return drop

    # --- receiving -----------------------------------------------------------------------------------------

    def deliver(self, packet: bytes, token: BufferToken | None) -> None:
        """Pass a packet that the engine has received and checked to the handler of its L4 type."""
        handler = self._l4_handlers.get(l4_of(packet))
        drop = Drop.RX_L4 if handler is None else handler(self, packet, token)
        rx = self._rx
        rx.in_flight -= 1
        if drop is not None:
            rx.drop(drop)
        else:
            rx.out_packets += 1
            rx.out_bytes += len(packet)
        if token is not None:
            self.release(token)

    def keep(self, token: BufferToken) -> None:
        """Keep the room of a packet in the port's buffer beyond the return of its handler, until `release`."""
        self._driver.engine.keep(token)

    def release(self, token: BufferToken) -> None:
        """Release the room of a packet; its credit goes back to the sender once every holder has."""
        self._driver.engine.release(self._driver.now, token)
        self._driver.run()

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

    @property
    def tx_stopped(self) -> bool:
        """Whether the link has no credits and its queue is filling: a sender that can wait should wait."""
        return self._driver.engine.is_stopped(self.number)

    def heed_flow(self) -> None:
        """Tell the subscribers, unless they know, that the link stops this port or lets it continue."""
        stopped = self.tx_stopped
        if stopped != self._told_to_stop:
            self._told_to_stop = stopped
            for handler in tuple(self._flow_handlers):
                handler(stopped)

    def on_flow(self, handler: Callable[[bool], None]) -> Callable[[], None]:
        """Call `handler(True)` when the link stops this port, `handler(False)` when it may send again."""
        self._flow_handlers.append(handler)
        return lambda: self._flow_handlers.remove(handler)

    def stall(self) -> None:
        """Receive nothing until `resume`, as if the host were busy. Credits then stop the senders."""
        self._driver.engine.stall_port(self._driver.now, self.number, True)

    def resume(self) -> None:
        """Receive the waiting packets in order, and continue."""
        self._driver.engine.stall_port(self._driver.now, self.number, False)
        self._driver.run()

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

    @property
    def state(self) -> PortState:
        """The logical state."""
        return self._config.state

    @property
    def lid(self) -> Lid:
        """The base LID that the subnet manager assigned."""
        return self._config.lid

    @property
    def lmc(self) -> int:
        """The port has 2**lmc LIDs from `lid`."""
        return self._config.lmc

    @property
    def pkeys(self) -> PkeyTable:
        """The partition table."""
        return self._config.pkeys

    @property
    def multicast_lids(self) -> frozenset[int]:
        """The groups that the port has joined."""
        return self._config.multicast_lids

    @multicast_lids.setter
    def multicast_lids(self, lids: frozenset[int]) -> None:
        if lids != self._config.multicast_lids:
            self._configure(multicast_lids=lids)

    def link_changed(self, up: bool) -> None:
        """Follow the link: INIT when it comes up, DOWN and PORT_ERR when an ACTIVE port loses it."""
        self.set_state(PortState.INIT if up else PortState.DOWN)

    def set_state(self, state: PortState) -> None:
        """Enter the state set by the subnet manager; becoming ACTIVE raises PORT_ACTIVE, leaving it PORT_ERR."""
        before = self.state
        if state is not before:
            self._configure(state=state)
        if state is PortState.ACTIVE and before is not PortState.ACTIVE:
            self.report(PortEventKind.PORT_ACTIVE)
        elif before is PortState.ACTIVE and state is not PortState.ACTIVE:
            self.report(PortEventKind.PORT_ERR)

    def set_lid(self, lid: Lid, lmc: int = 0) -> None:
        """Take the base LID that the subnet manager assigned, and 2**lmc LIDs from it."""
        if (lid, lmc) == (self.lid, self.lmc):
            return
        self._configure(lid=lid, lmc=lmc)
        if self.state is PortState.ACTIVE:
            self.report(PortEventKind.LID_CHANGE)

    def set_pkeys(self, pkeys: Iterable[int]) -> None:
        """Take a new partition table."""
        table = PkeyTable.of(pkeys)
        if table == self.pkeys:
            return
        self._configure(pkeys=table)
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
        self,
        name: str,
        node_guid: Guid,
        *,
        ports: int,
        icrc: Icrc,
        driver: Driver,
        netdevs: NetdevFactory | None = None,
    ) -> None:
        if not 1 <= ports <= 2:
            raise FabricError(f"HFI {name}: {ports} ports; an HFI has 1 or 2")
        self.name = name
        self.node_guid = node_guid
        self.netdevs = netdevs
        self.ports = {
            num: HfiPort(self, num, Guid(node_guid + num), icrc, driver) for num in range(1, ports + 1)
        }
