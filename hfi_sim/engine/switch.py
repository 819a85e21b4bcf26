"""A switch in the Python engine: it forwards by DLID, using the tables that it was given.

The switch itself sends and receives at port 0, a port like that of an HFI whose cable leads into the switch.
"""

from __future__ import annotations

from collections.abc import Mapping

from hfi_sim.base.counters import Drop, PacketCounters
from hfi_sim.base.types import LID_NONE, LID_PERMISSIVE, PKEY_FULL_MANAGEMENT, PortState, is_multicast_lid
from hfi_sim.engine.api import PortErrors
from hfi_sim.engine.config import PortConfig, SwitchPortConfig
from hfi_sim.engine.events.queue import EngineState, Space
from hfi_sim.engine.forwarding import is_astray, is_management, lets_pass, path_of, sc_leaving
from hfi_sim.engine.link.direction import Direction
from hfi_sim.engine.port import EnginePort
from hfi_sim.routing.table import EMPTY_TABLE, LinearTable
from hfi_sim.wire.lrh16b import SIZE, dlid_of, entropy_of, is_9b, is_16b, pkey_of, sc_of, with_sc


class EngineSwitchPort:
    """One external port of a switch."""

    def __init__(self, switch: EngineSwitch, number: int) -> None:
        self.number = number
        self.config = SwitchPortConfig()
        self.errors = PortErrors()
        """Its drops, which the switch counts too; without packets that came while it was not ACTIVE."""
        self.leaving: Direction | None = None
        """The direction in which it sends; None: it has no cable."""
        self.arriving: Direction | None = None
        """The direction that ends at it."""
        self.is_open_in = False
        """Whether every packet may come in."""
        self.is_open_out = False
        """Whether every packet may leave."""
        self._switch = switch
        self._pkeys_in: frozenset[int] | None = None

    def receive(self, now: int, packet: bytes, hops: int, space: Space | None, /) -> None:
        """Receive a packet that the switch is to forward. Args: hops: switches visited before this one."""
        switch = self._switch
        switch.counters.in_packets += 1
        switch.counters.in_bytes += len(packet)
        drop = None if self.is_open_in and switch.up else self._refusal_in(packet)
        if drop is None:
            switch.forward(now, self, packet, hops + 1, space)
        elif drop is Drop.SW_PKEY_IN:
            switch.drop(self.number, packet, drop)
        else:
            switch.counters.drop(drop)

    def configure(self, now: int, config: SwitchPortConfig) -> None:
        """Apply a new configuration."""
        self.config = config
        is_active = config.state is PortState.ACTIVE
        self.is_open_in = is_active and config.pkeys_in is None
        self.is_open_out = is_active and config.pkeys_out is None and not config.egress.vl_mtus
        self._pkeys_in = None if config.pkeys_in is None else config.pkeys_in.borne
        if self.leaving is not None:
            self.leaving.set_egress(now, config.egress)

    def _refusal_in(self, packet: bytes) -> Drop | None:
        """Return why a packet may not come in, or None."""
        if not self._switch.up:
            return Drop.SW_DOWN
        if self.is_open_in:
            return None
        if not lets_pass(self.config.state, packet):
            return Drop.SW_PORT_DOWN
        if self._pkeys_in is None or len(packet) < SIZE or pkey_of(packet) in self._pkeys_in:
            return None
        may_come = is_management(packet) and pkey_of(packet) != PKEY_FULL_MANAGEMENT
        return None if may_come else Drop.SW_PKEY_IN

    def refusal_out(self, packet: bytes) -> Drop | None:
        """Return why a packet may not leave, or None."""
        if self.leaving is None or not lets_pass(self.config.state, packet):
            return Drop.SW_PORT_DOWN
        pkeys = self.config.pkeys_out
        if pkeys is not None and not is_management(packet) and not pkeys.admits(pkey_of(packet)):
            return Drop.SW_PKEY_OUT
        return Drop.SW_MTU if self.leaving.discards(self.config.egress, packet) else None


class EngineSwitch:
    """Ports, tables, counters."""

    def __init__(self, state: EngineState, counters: PacketCounters) -> None:
        self.up = True
        self.ports: dict[int, EngineSwitchPort] = {}
        self.counters = counters
        self.lft: LinearTable = EMPTY_TABLE
        """DLID -> port number, or a group of equivalent ports."""
        self.mft: Mapping[int, frozenset[int]] = {}
        """Multicast DLID -> port numbers of its spanning tree."""
        self.port0: EnginePort | None = None
        """Where packets for the switch itself end; None: there is no port 0, or it is DOWN."""
        self._state = state
        self._inside = EngineSwitchPort(self, 0)
        """The port at which packets of port 0 come in."""
        self._inside.is_open_in = True

    def port(self, number: int) -> EngineSwitchPort:
        """Return a port, created at its first use."""
        port = self.ports.get(number)
        if port is None:
            port = self.ports[number] = EngineSwitchPort(self, number)
        return port

    def errors_of(self, number: int) -> PortErrors:
        """Return what a port has dropped; port 0 stands for packets without an incoming or outgoing port."""
        return self.port(number).errors if number else self._inside.errors

    def drop(self, number: int, packet: bytes, drop: Drop) -> None:
        """Drop a packet at a port."""
        self.counters.drop(drop)
        self.errors_of(number).note(drop, packet)

    def forward(
        self, now: int, in_port: EngineSwitchPort, packet: bytes, hops: int, space: Space | None
    ) -> None:
        """Forward a packet that came in by a port to those given by the tables, or count its drop.

        Args:  hops: switches visited, this one included.
        """
        if len(packet) < SIZE or not (is_16b(packet) or is_9b(packet)):
            self.drop(in_port.number, packet, Drop.SW_MALFORMED)
            return
        dlid = dlid_of(packet)
        if is_multicast_lid(dlid):
            self._replicate(now, in_port, dlid, packet, hops, space)
        elif is_astray(hops, self._state.switches):
            self.drop(in_port.number, packet, Drop.SW_NO_ROUTE)
        elif ports := self.lft.next_hops(dlid):
            path = 0 if len(ports) == 1 else path_of(entropy_of(packet), len(ports), hops)
            self._send(now, in_port, ports[path], packet, hops, space)
        else:
            self._take(now, in_port.number, dlid, packet, space)

    def _replicate(
        self, now: int, in_port: EngineSwitchPort, dlid: int, packet: bytes, hops: int, space: Space | None
    ) -> None:
        """Send a packet that came in by a port to the other ports of its multicast group."""
        in_num = in_port.number
        group = self.mft.get(dlid, frozenset())
        targets = [num for num in sorted(group) if num != in_num]
        if not targets or in_num not in group or is_astray(hops, self._state.switches):
            # a port outside the tree may not inject into it: its copy would reach members twice on a loop
            if in_num in group:
                self.counters.drop(Drop.SW_NO_GROUP)  # the group has no other member, which is not an error
            else:
                self.drop(in_num, packet, Drop.SW_NO_GROUP)
            return
        self.counters.copies += len(targets) - 1
        for num in targets:
            if num or self.port0 is None:
                self._send(now, in_port, num, packet, hops, space)
            else:
                self._leave_to(self.port0, now, in_num, packet, space)

    def from_port0(self, now: int, packet: bytes) -> None:
        """Forward a packet that port 0 sends."""
        self._inside.receive(now, packet, 0, None)

    def directed(self, now: int, port_num: int, packet: bytes) -> None:
        """Send a packet of port 0 out of one port, past the tables."""
        self.counters.in_packets += 1
        self.counters.in_bytes += len(packet)
        if self.up:
            self._send(now, self._inside, port_num, packet, 1, None)
        else:
            self.counters.drop(Drop.SW_DOWN)

    def _take(self, now: int, in_num: int, dlid: int, packet: bytes, space: Space | None) -> None:
        """Pass a packet to port 0 if it is addressed to it; otherwise there is no route for it."""
        if self.port0 is not None and _is_for(self.port0.config, dlid, packet):
            self._leave_to(self.port0, now, in_num, packet, space)
        else:
            self.drop(in_num, packet, Drop.SW_NO_ROUTE)

    def _leave_to(self, port0: EnginePort, now: int, in_num: int, packet: bytes, space: Space | None) -> None:
        self.counters.out_packets += 1
        self.counters.out_bytes += len(packet)
        port0.receive(now, packet, 0, space, in_num)

    def _send(
        self,
        now: int,
        in_port: EngineSwitchPort,
        port_num: int,
        packet: bytes,
        hops: int,
        space: Space | None,
    ) -> None:
        """Send a packet that came in by a port out of another one, if that is up and does not refuse it.

        Its service channel becomes what the table of the two ports gives.
        """
        table = in_port.config.sc_to_sc.get(port_num)
        if table is not None:
            sc = sc_leaving(sc_of(packet), table)
            if sc is None:
                self.drop(in_port.number, packet, Drop.SW_SC)
                return
            packet = with_sc(packet, sc)
        port = self.ports.get(port_num)
        if port is None or port.leaving is None:
            self.drop(port_num, packet, Drop.SW_PORT_DOWN)
            return
        if not port.is_open_out and (drop := port.refusal_out(packet)) is not None:
            self.drop(port_num, packet, drop)
            return
        self.counters.out_packets += 1
        self.counters.out_bytes += len(packet)
        port.leaving.enter(now, packet, hops, space)


def _is_for(port0: PortConfig, dlid: int, packet: bytes) -> bool:
    if dlid == LID_PERMISSIVE:
        return is_management(packet)
    return dlid != LID_NONE and port0.has_lid(dlid)
