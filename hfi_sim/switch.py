"""A switch: ports, a linear forwarding table for unicast, a multicast table for groups.

Both tables are immutable snapshots that the subnet manager swaps whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sized
from types import MappingProxyType

from hfi_sim.counters import Drop, PacketCounters
from hfi_sim.forwarding import is_astray
from hfi_sim.link import Link
from hfi_sim.port_state import PortState
from hfi_sim.routing.table import EMPTY_TABLE, GROUP_BASE, LinearTable
from hfi_sim.types import LID_NONE, Guid, Lid, is_multicast_lid
from hfi_sim.wire.lrh16b import L2_16B, SIZE, dlid_of, entropy_of, l2_of


class SwitchPort:
    """One external port of a switch, numbered from 1."""

    forwards = True

    def __init__(self, switch: Switch, port_num: int) -> None:
        self.switch = switch
        self.port_num = port_num
        self.name = f"{switch.name}:{port_num}"
        self.link: Link | None = None
        self.state = PortState.DOWN

    def receive(self, packet: bytes, hops: int = 0, /) -> None:
        """Take a packet from the link: the switch forwards it."""
        self.switch.forward(self, packet, hops + 1)

    def link_changed(self, up: bool) -> None:
        """Follow the link: DOWN without it, INIT with it, until the subnet manager activates the port."""
        self.state = PortState.INIT if up and self.switch.up else PortState.DOWN

    def tx_congested(self, stopped: bool) -> None:
        """Do nothing: waiting packets fill the buffer of the port where they arrived, which stops their sender."""


class Switch:
    """Forwards by DLID; has a node GUID and, once swept, a LID of its own (port 0)."""

    def __init__(
        self, name: str, node_guid: Guid, ports: int, *, switches: Sized, on_program: Callable[[Switch], None]
    ) -> None:
        """Make a switch. Args: switches: all of the fabric; on_program: called after new tables are swapped in."""
        self.name = name
        self.node_guid = node_guid
        self.lid: Lid = LID_NONE
        self.up = True
        self.ports = {num: SwitchPort(self, num) for num in range(1, ports + 1)}
        self.counters = PacketCounters()
        self.lft: LinearTable = EMPTY_TABLE
        """DLID -> port number, or a group of equivalent ports."""
        self.mft: Mapping[int, frozenset[int]] = MappingProxyType({})
        """Multicast DLID -> port numbers of its spanning tree."""
        self._switches = switches
        self._on_program = on_program

    def program(self, lft: Mapping[int, int], mft: Mapping[int, frozenset[int]]) -> None:
        """Swap in new forwarding tables, both at once."""
        self.lft = lft if isinstance(lft, LinearTable) else LinearTable.of(lft)
        self.mft = MappingProxyType(dict(mft))
        self._on_program(self)

    def forward(self, in_port: SwitchPort, packet: bytes, hops: int) -> None:
        """Forward `packet` to the ports given by the tables, or count its drop.

        Args:  hops: switches visited, including this one.
        """
        counters = self.counters
        counters.in_packets += 1
        counters.in_bytes += len(packet)
        if not self.up:
            counters.drop(Drop.SW_DOWN)
            return
        if in_port.state is not PortState.ACTIVE:
            counters.drop(Drop.SW_PORT_DOWN)
            return
        if len(packet) < SIZE or l2_of(packet) != L2_16B:
            counters.drop(Drop.SW_MALFORMED)
            return
        dlid = dlid_of(packet)
        if is_multicast_lid(dlid):
            self._replicate(in_port, dlid, packet, hops)
            return
        entries = self.lft.entries
        port_num = entries[dlid] if dlid < len(entries) else 0
        if not port_num or is_astray(hops, len(self._switches)):
            counters.drop(Drop.SW_NO_ROUTE)
            return
        if port_num >= GROUP_BASE:
            group = self.lft.groups[port_num - GROUP_BASE]
            port_num = group[entropy_of(packet) % len(group)]
        self._send(port_num, packet, hops)

    def _replicate(self, in_port: SwitchPort, dlid: int, packet: bytes, hops: int) -> None:
        group = self.mft.get(dlid, frozenset())
        targets = [num for num in sorted(group) if num != in_port.port_num]
        if not targets or in_port.port_num not in group or is_astray(hops, len(self._switches)):
            # a port outside the tree may not inject into it: its copy would reach members twice on a loop
            self.counters.drop(Drop.SW_NO_GROUP)
            return
        self.counters.copies += len(targets) - 1
        for num in targets:
            self._send(num, packet, hops)

    def _send(self, port_num: int, packet: bytes, hops: int) -> None:
        counters = self.counters
        port = self.ports[port_num]
        if port.state is not PortState.ACTIVE or port.link is None:
            counters.drop(Drop.SW_PORT_DOWN)
            return
        counters.out_packets += 1
        counters.out_bytes += len(packet)
        port.link.direction_from(port).transmit(packet, hops)
