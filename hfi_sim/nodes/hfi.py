"""The host fabric interface: a node with one or two ports, where packets of hosts enter and leave the fabric."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from hfi_sim.base.counters import Drop
from hfi_sim.base.errors import FabricError, NetdevError
from hfi_sim.base.pkeys import PkeyTable
from hfi_sim.base.types import LID_NONE, CapabilityMask3, Guid, Lid, PortEvent, PortState
from hfi_sim.engine.config import BoundaryEnd, HfiEnd, PortConfig
from hfi_sim.engine.driver import Driver
from hfi_sim.netdev.base import Netdev
from hfi_sim.nodes.cable import Link, LinkPort, OfGeneration
from hfi_sim.nodes.end_port import EndPort
from hfi_sim.wire.icrc import Icrc
from hfi_sim.wire.mad.attributes import SubnetAttrId

if TYPE_CHECKING:
    from hfi_sim.management.mad.stack import MadStack

log = logging.getLogger("hfi_sim.nodes.hfi")

_PORT_BITS: Final = 30
"""The lowest of the two bits of a GUID that number the ports of an HFI."""

NetdevFactory = Callable[[int], Netdev]
"""Creates the network device of a vport, given its number, on the host of the HFI, and chooses its name."""


class HfiPort(EndPort, LinkPort):
    """One port of an HFI, numbered from 1."""

    _config: PortConfig
    mad: MadStack
    """The MAD stack of this port."""
    read_counts: Callable[[], dict[str, int]]
    """Reads its counters since they were cleared; waits as flit times. Its performance management agent is asked."""
    read_vl_counts: Callable[[Sequence[int]], Iterator[dict[str, int]]]
    """Yields those of some VLs likewise; of a VL that does not exist none."""

    def __init__(self, hfi: Hfi, opa_port_num: int, guid: Guid, icrc: Icrc, driver: Driver) -> None:
        super().__init__(f"{hfi.name}:{opa_port_num}", guid, icrc, driver, driver.engine.add_port)
        self.hfi = hfi
        self.opa_port_num = opa_port_num
        self.sm_lid: Lid = LID_NONE
        self.capability_mask3 = CapabilityMask3(0)
        self.is_sm = False
        """Whether a subnet manager runs on the port (bit IsSM of its capabilities)."""
        self.link: Link | None = None
        self._told_to_stop = False
        self._flow_handlers: list[Callable[[bool], None]] = []
        self._event_handlers: list[Callable[[PortEvent], None]] = []
        self.mgmt_allowed = True
        """Whether the switch at the other end allows a fabric manager on the port."""
        self._announcement_handlers: list[Callable[[HfiPort, bool], None]] = []
        self.netdevs: NetdevFactory | None = None
        """Makes the network device of a vport on the host of the HFI; None: it has no host."""
        self.break_register: Callable[[], None] | None = None
        """Lets the hardware find an error in itself; None: it is simulated, without registers."""

    @property
    def node(self) -> Hfi:
        return self.hfi

    @property
    def sm_sl(self) -> int:
        """The service level of requests to the subnet manager, as it has told the port."""
        return self.settings.info.master_sm_sl

    @property
    def management_pkey(self) -> int:
        """The P_Key of the management partition in its table."""
        return int(self.pkeys.management)

    @property
    def engine_end(self) -> HfiEnd | BoundaryEnd:
        return BoundaryEnd() if self.hfi.is_remote else HfiEnd(self.number)

    # --- flow control --------------------------------------------------------------------------------------

    def send(self, packet: bytes) -> Drop | None:
        drop = self._driver.send(self.number, packet)
        if self.link is not None and self.link.direction_from(self).has_credits:
            self.update_flow_control()  # at once: a sender that empties its queue now must notice
        return drop

    def send_built(self, packet: bytes, slid: int, dlid: int, pkey: int) -> Drop | None:
        drop = self._driver.inject(self.number, packet, slid, dlid, pkey)
        if self.link is not None and self.link.direction_from(self).has_credits:
            self.update_flow_control()
        return drop

    @property
    def tx_stopped(self) -> bool:
        """Whether the link has no credits and its queue is filling: a sender that can wait should wait."""
        return self._driver.engine.is_stopped(self.number)

    def update_flow_control(self) -> None:
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

    def subscribe(self, handler: Callable[[PortEvent], None]) -> Callable[[], None]:
        """Call `handler` for each event of this port; the returned function unsubscribes it."""
        self._event_handlers.append(handler)
        return lambda: self._event_handlers.remove(handler)

    def report(self, kind: PortEvent) -> None:
        """Tell all subscribers of an event."""
        log.info("[%s] %s, lid %#x", self.name, kind.value, self.lid)
        for handler in tuple(self._event_handlers):
            handler(kind)

    def speed_changed(self) -> None:
        """Report that the rate of the link has changed, if the port is in use."""
        if self.state is PortState.ACTIVE:
            self.report(PortEvent.SPEED_CHANGE)

    def link_changed(self, up: bool) -> None:
        """Follow the link: INIT when it comes up, DOWN and PORT_ERR when an ACTIVE port loses it.

        A manager has to say again how the buffers at the other end are shared.
        """
        self.settings.link_changed()
        if self.settings.tables.pop((int(SubnetAttrId.BUFFER_CONTROL), 0), None) is not None:
            self.set_buffers(None)
        self.set_state(PortState.INIT if up else PortState.DOWN)

    def set_state(self, state: PortState) -> None:
        """Enter the state set by the subnet manager; becoming ACTIVE raises PORT_ACTIVE, leaving it PORT_ERR."""
        before = self.state
        super().set_state(state)
        if state is PortState.ACTIVE and before is not PortState.ACTIVE:
            self.report(PortEvent.PORT_ACTIVE)
        elif before is PortState.ACTIVE and state is not PortState.ACTIVE:
            self.report(PortEvent.PORT_ERR)

    def set_lid(self, lid: Lid, lmc: int = 0) -> None:
        if (lid, lmc) == (self.lid, self.lmc):
            return
        super().set_lid(lid, lmc)
        if self.state is PortState.ACTIVE:
            self.report(PortEvent.LID_CHANGE)

    def set_pkeys(self, pkeys: Iterable[int] | PkeyTable) -> None:
        before = self.pkeys
        super().set_pkeys(pkeys)
        if self.pkeys != before and self.state is PortState.ACTIVE:
            self.report(PortEvent.PKEY_CHANGE)

    def announce(self, capability: CapabilityMask3) -> None:
        """Set bits of capability mask 3 and tell the subnet manager."""
        if capability in self.capability_mask3:
            return
        self.capability_mask3 |= capability
        self.tell_announcement()

    def withdraw(self, capability: CapabilityMask3) -> None:
        """Clear bits of capability mask 3 whose service has ended, and tell the subnet manager."""
        if not self.capability_mask3 & capability:
            return
        self.capability_mask3 &= ~capability
        self.tell_announcement()

    def set_sm(self, is_sm: bool) -> None:
        """Set whether a subnet manager runs on the port, and notify the fabric's subnet manager."""
        if is_sm == self.is_sm:
            return
        self.is_sm = is_sm
        self.tell_announcement()

    def on_announcement(self, handler: Callable[[HfiPort, bool], None]) -> None:
        """Call `handler` when the port's capabilities, or (True) its node's description, change: trap 144."""
        self._announcement_handlers.append(handler)

    def tell_announcement(self, *, described: bool = False) -> None:
        """Tell the subnet manager that the capabilities or the node description have changed."""
        for handler in tuple(self._announcement_handlers):
            handler(self, described)

    def alloc_rdma_netdev(self, vport_num: int) -> Netdev:
        """Allocate the network device of a vport on the host of this HFI.

        Raises:  NetdevError: the host of the HFI cannot create one, or refused.
        Source:  seed 000, "verbs to allocate and free the OPA_VNIC RDMA netdev"
        """
        if self.netdevs is None:
            raise NetdevError(f"{self.name} has no host to allocate the netdev of vport {vport_num} on")
        return self.netdevs(vport_num)


def port_guid(node_guid: Guid, port_num: int) -> Guid:
    """Return the GUID of a port of an HFI: bits 30 and 31 of the node's count the ports from 0.

    Fabric managers derive it likewise, and take no port that has another.

    Source: stl_helper.h of opa-fm: NodeGUIDtoPortGUID.
    """
    return Guid(system_guid(node_guid) | port_num - 1 << _PORT_BITS)


def system_guid(guid: int) -> Guid:
    """Return a node's GUID without the bits that number its ports."""
    return Guid(guid & ~(3 << _PORT_BITS))


class Hfi(OfGeneration):
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
        is_remote: bool = False,
    ) -> None:
        if not 1 <= ports <= 2:
            raise FabricError(f"HFI {name}: {ports} ports; an HFI has 1 or 2")
        self.name = name
        self.description = name
        """What it says of itself in NodeDescription, until `describe`: its name on this fabric."""
        self.node_guid = node_guid
        self.is_remote = is_remote
        """Whether another engine carries it: what is known here is what its machine says."""
        self.ports = {
            num: HfiPort(self, num, port_guid(node_guid, num), icrc, driver) for num in range(1, ports + 1)
        }
        for port in self.ports.values():
            port.netdevs = netdevs

    def describe(self, description: str) -> None:
        """Change the node description and notify the subnet manager on every port."""
        if description == self.description:
            return
        self.description = description
        for port in self.ports.values():
            port.tell_announcement(described=True)
