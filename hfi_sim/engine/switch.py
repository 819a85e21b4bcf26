"""A switch in the Python engine: it forwards by DLID, using the tables that it was given.

The switch itself sends and receives at port 0, a port like that of an HFI whose cable leads into the switch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from hfi_sim.base.counters import Drop, PacketCounters
from hfi_sim.base.port_state import PortState
from hfi_sim.base.types import (
    LID_MULTICAST_FIRST,
    LID_NONE,
    LID_PERMISSIVE,
    PKEY_FULL_MANAGEMENT,
    is_multicast_lid,
)
from hfi_sim.engine.config import PortConfig, SwitchPortConfig
from hfi_sim.engine.events.state import EngineState, Space
from hfi_sim.engine.forwarding import is_astray, is_management, lets_pass, path_of, sc_leaving
from hfi_sim.engine.link.direction import Direction
from hfi_sim.engine.port_errors import PortErrors
from hfi_sim.routing.table import EMPTY_TABLE, GROUP_BASE, LinearTable
from hfi_sim.wire.lrh16b import L2_16B_BYTE7, L2_BYTE7, SIZE, dlid_of, entropy_of, pkey_of, sc_of, with_sc


class Port0(Protocol):
    """Port 0, as far as its switch knows it."""

    config: PortConfig

    def receive(self, now: int, packet: bytes, hops: int, space: Space | None, in_port: int = 0, /) -> None:
        """Receive a packet that came to the switch by `in_port`."""


class EngineSwitchPort:
    """One external port of a switch."""

    __slots__ = (
        "_pkeys_in",
        "arriving",
        "config",
        "errors",
        "is_open_in",
        "is_open_out",
        "leaving",
        "number",
        "switch",
        "turns",
    )

    def __init__(self, switch: EngineSwitch, number: int) -> None:
        self.switch = switch
        self.number = number
        self.config = SwitchPortConfig()
        self.errors = PortErrors()
        """Its drops, which the switch counts too; without packets that came while it was not ACTIVE."""
        self._pkeys_in: frozenset[int] | None = None
        self.is_open_in = False
        """Whether every packet may come in."""
        self.is_open_out = False
        """Whether every packet may leave."""
        self.turns = self.config.sc_to_sc
        """SCtoSC tables of `config` for packets that come in."""
        self.leaving: Direction | None = None
        """The direction in which it sends; None: it has no cable."""
        self.arriving: Direction | None = None
        """The direction that ends at it."""

    def receive(self, now: int, packet: bytes, hops: int, space: Space | None, /) -> None:
        """Forward a packet to the ports given by the tables, or count its drop.

        Args:  hops: switches visited before this one.
        """
        switch = self.switch
        counters = switch.counters
        counters.in_packets += 1
        counters.in_bytes += len(packet)
        if not switch.up:
            counters.drop(Drop.SW_DOWN)
            return
        if not self.is_open_in and (drop := self.refusal_in(packet)) is not None:
            if drop is Drop.SW_PORT_DOWN:
                counters.drop(drop)
            else:
                switch.drop(self.number, packet, drop)
            return
        if len(packet) < SIZE or packet[7] & L2_BYTE7 != L2_16B_BYTE7:
            switch.drop(self.number, packet, Drop.SW_MALFORMED)
            return
        hops += 1
        dlid = dlid_of(packet)
        if dlid >= LID_MULTICAST_FIRST and is_multicast_lid(dlid):
            switch.replicate(now, self, dlid, packet, hops, space)
            return
        if is_astray(hops, switch.state.switches):
            switch.drop(self.number, packet, Drop.SW_NO_ROUTE)
            return
        entries = switch.lft.entries
        port_num = entries[dlid] if dlid < len(entries) else 0
        if not port_num:
            switch.take(now, self.number, dlid, packet, space)
            return
        if port_num >= GROUP_BASE:
            group = switch.lft.groups[port_num - GROUP_BASE]
            port_num = group[path_of(entropy_of(packet), len(group), hops)]
        if self.turns:
            switch.pass_on(now, self, port_num, packet, hops, space)
        else:
            switch.send(now, port_num, packet, hops, space)

    def configure(self, now: int, config: SwitchPortConfig) -> None:
        """Apply a new configuration."""
        self.config = config
        is_active = config.state is PortState.ACTIVE
        self.is_open_in = is_active and config.pkeys_in is None
        self.is_open_out = is_active and config.pkeys_out is None and not config.egress.vl_mtus
        self.turns = config.sc_to_sc
        self._pkeys_in = None if config.pkeys_in is None else config.pkeys_in.borne
        if self.leaving is not None:
            self.leaving.set_egress(now, config.egress)

    def refusal_in(self, packet: bytes) -> Drop | None:
        """Return why a packet may not come in, or None."""
        config = self.config
        if not lets_pass(config.state, packet):
            return Drop.SW_PORT_DOWN
        pkeys = self._pkeys_in
        if pkeys is None or len(packet) < SIZE or (pkey := pkey_of(packet)) in pkeys:
            return None
        may_come = is_management(packet) and pkey != PKEY_FULL_MANAGEMENT
        return None if may_come else Drop.SW_PKEY_IN

    def refusal_out(self, packet: bytes) -> Drop | None:
        """Return why a packet may not leave, or None."""
        config = self.config
        if self.leaving is None or not lets_pass(config.state, packet):
            return Drop.SW_PORT_DOWN
        pkeys = config.pkeys_out
        if pkeys is not None and not is_management(packet) and not pkeys.admits(pkey_of(packet)):
            return Drop.SW_PKEY_OUT
        return Drop.SW_MTU if self.leaving.discards(config.egress, packet) else None


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
        self.port0: Port0 | None = None
        """Where packets for the switch itself end; None: there is no port 0, or it is DOWN."""
        self.state = state
        self._inside = EngineSwitchPort(self, 0)
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

    def replicate(
        self, now: int, in_port: EngineSwitchPort, dlid: int, packet: bytes, hops: int, space: Space | None
    ) -> None:
        """Send a packet that came in by a port to the other ports of its multicast group."""
        in_num = in_port.number
        group = self.mft.get(dlid, frozenset())
        targets = [num for num in sorted(group) if num != in_num]
        if not targets or in_num not in group or is_astray(hops, self.state.switches):
            # a port outside the tree may not inject into it: its copy would reach members twice on a loop
            if in_num in group:
                self.counters.drop(Drop.SW_NO_GROUP)  # the group has no other member, which is not an error
            else:
                self.drop(in_num, packet, Drop.SW_NO_GROUP)
            return
        self.counters.copies += len(targets) - 1
        for num in targets:
            if num or self.port0 is None:
                self.pass_on(now, in_port, num, packet, hops, space)
            else:
                self._leave_to(self.port0, now, in_num, packet, space)

    def from_port0(self, now: int, packet: bytes) -> None:
        """Forward a packet that port 0 sends."""
        self._inside.receive(now, packet, 0, None)

    def directed(self, now: int, port_num: int, packet: bytes) -> None:
        """Send a packet of port 0 out of one port, past the tables."""
        counters = self.counters
        counters.in_packets += 1
        counters.in_bytes += len(packet)
        if self.up:
            self.send(now, port_num, packet, 1, None)
        else:
            counters.drop(Drop.SW_DOWN)

    def take(self, now: int, in_num: int, dlid: int, packet: bytes, space: Space | None) -> None:
        """Pass a packet to port 0 if it is addressed to it; otherwise there is no route for it."""
        port0 = self.port0
        if port0 is None or not _is_for(port0.config, dlid, packet):
            self.drop(in_num, packet, Drop.SW_NO_ROUTE)
            return
        self._leave_to(port0, now, in_num, packet, space)

    def _leave_to(self, port0: Port0, now: int, in_num: int, packet: bytes, space: Space | None) -> None:
        self.counters.out_packets += 1
        self.counters.out_bytes += len(packet)
        port0.receive(now, packet, 0, space, in_num)

    def pass_on(
        self,
        now: int,
        in_port: EngineSwitchPort,
        port_num: int,
        packet: bytes,
        hops: int,
        space: Space | None,
    ) -> None:
        """Send a packet that came by another port, on the service channel that the two ports' table gives."""
        if (table := in_port.turns.get(port_num)) is not None:
            sc = sc_leaving(sc_of(packet), table)
            if sc is None:
                self.drop(in_port.number, packet, Drop.SW_SC)
                return
            packet = with_sc(packet, sc)
        self.send(now, port_num, packet, hops, space)

    def send(self, now: int, port_num: int, packet: bytes, hops: int, space: Space | None) -> None:
        """Send a packet out of a port, if the port is up and does not refuse it."""
        counters = self.counters
        port = self.ports.get(port_num)
        if port is None or port.leaving is None:
            self.drop(port_num, packet, Drop.SW_PORT_DOWN)
            return
        if not port.is_open_out and (drop := port.refusal_out(packet)) is not None:
            self.drop(port_num, packet, drop)
            return
        counters.out_packets += 1
        counters.out_bytes += len(packet)
        port.leaving.enter(now, packet, hops, space)


def _is_for(port0: PortConfig, dlid: int, packet: bytes) -> bool:
    if dlid == LID_PERMISSIVE:
        return is_management(packet)
    return dlid != LID_NONE and dlid >> port0.lmc == port0.lid >> port0.lmc
