"""A switch: ports, a linear forwarding table for unicast, a multicast table for groups.

Both tables are immutable snapshots that the subnet manager swaps whole. Port 0 is the switch itself, as an end point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Self

from hfi_sim.base.counters import Drop, PacketCounters
from hfi_sim.base.errors import FabricError
from hfi_sim.base.pkeys import PkeyTable
from hfi_sim.base.types import PKEY_FULL_MANAGEMENT, PKEY_LIMITED_MANAGEMENT, Guid, Lid, PortState
from hfi_sim.engine.api import PortError
from hfi_sim.engine.config import BoundaryEnd, SwitchEnd, SwitchPortConfig
from hfi_sim.engine.driver import Driver
from hfi_sim.engine.events.outputs import BufferToken
from hfi_sim.nodes.cable import Link, LinkPort, OfGeneration
from hfi_sim.nodes.end_port import ONE_TO_ONE, EndPort, L4Handler, PortSettings
from hfi_sim.routing.table import EMPTY_TABLE, MAX_PORTS, LinearTable
from hfi_sim.wire.icrc import Icrc
from hfi_sim.wire.sma.node import SwitchInfo

if TYPE_CHECKING:
    from hfi_sim.management.mad.stack import MadStack


LINEAR_CAP: Final = 0xC000
MULTICAST_CAP: Final = 0x2000


class SwitchPort(LinkPort):
    """One external port of a switch, numbered from 1."""

    _config: SwitchPortConfig

    def __init__(self, switch: Switch, port_num: int) -> None:
        self.switch = switch
        self.port_num = port_num
        self.name = f"{switch.name}:{port_num}"
        self.link: Link | None = None
        self.settings = PortSettings()
        """What only the subnet management agent knows of it."""
        self._config = SwitchPortConfig()

    @property
    def node(self) -> Switch:
        return self.switch

    @property
    def engine_end(self) -> SwitchEnd | BoundaryEnd:
        return BoundaryEnd() if self.switch.is_remote else SwitchEnd(self.switch.number, self.port_num)

    @property
    def state(self) -> PortState:
        """DOWN without a link, INIT with it, until the subnet manager activates the port."""
        return self._config.state

    @state.setter
    def state(self, state: PortState) -> None:
        self._configure(state=state)

    def _configure(self, **changes: object) -> None:
        config = replace(self._config, **changes)  # type: ignore[arg-type]
        if config != self._config:
            self._config = config
            self.switch.configure_port(self.port_num, config)

    def enforce_pkeys(self, pkeys: Iterable[int], *, inbound: bool = True, outbound: bool = True) -> None:
        """Enforce the partitions of the neighbour, whose table is `pkeys`, on what comes from it and goes to it.

        What it may not bear is dropped as sw_pkey_in, what it does not admit as sw_pkey_out. Management packets (SC15)
        are asked only for full management (0xffff), and only where they come in. With neither direction, the port
        enforces nothing, as in the beginning.
        """
        table = PkeyTable.of(entry for entry in pkeys if entry)
        self._configure(pkeys_in=table if inbound else None, pkeys_out=table if outbound else None)

    @property
    def enforces(self) -> tuple[bool, bool]:
        """Whether it enforces partitions on what comes in, and on what leaves."""
        return self._config.pkeys_in is not None, self._config.pkeys_out is not None

    @property
    def sc_to_sc(self) -> Mapping[int, Sequence[int]]:
        """The tables SCtoSC of what comes in here, by the port by which it leaves; none that changes nothing."""
        return self._config.sc_to_sc

    def set_sc_to_sc(self, tables: Mapping[int, Sequence[int]]) -> None:
        """Take tables SCtoSC of what comes in here, by the port by which it leaves; other ports keep theirs.

        Args:    tables: for each of 32 service channels that on which it leaves; 15: what came on it ends (sw_sc). SC15
                 itself stays. One of 0 to 31 in their order changes nothing.
        Raises:  FabricError: a table of another size, a service channel that is not 0 to 31.
        """
        merged = {**self._config.sc_to_sc, **{port: tuple(table) for port, table in tables.items()}}
        self._configure(
            sc_to_sc={port: table for port, table in sorted(merged.items()) if table != ONE_TO_ONE}
        )

    def errors(self) -> Mapping[Drop, PortError]:
        """Return what the switch has dropped at this port, by reason, with the first packet of each."""
        return self.switch.errors_at(self.port_num)

    def forget_errors(self, reasons: Iterable[Drop]) -> None:
        """Forget the first packet dropped for each of these reasons."""
        self.switch.forget_errors_at(self.port_num, reasons)

    def speed_changed(self) -> None:
        """Do nothing: a switch forwards at the rate of the link."""

    def link_changed(self, up: bool) -> None:
        self.state = PortState.INIT if up and self.switch.up else PortState.DOWN
        self.settings.link_changed()
        self.switch.info = replace(self.switch.info, port_state_change=True)
        self.switch.on_link(self)


class SwitchPort0(EndPort):
    """Port 0 of a switch: packets for the switch itself end here, and what it sends itself begins here.

    It is DOWN, and packets to its LID have no route, until something listens to them: the first handler of an L4 type
    brings it to ACTIVE.
    """

    mad: MadStack
    """The MAD stack of the switch."""

    def __init__(self, switch: Switch, icrc: Icrc, driver: Driver) -> None:
        add = partial(driver.engine.add_port0, switch.number)
        super().__init__(f"{switch.name}:0", switch.node_guid, icrc, driver, add)
        self.switch = switch
        self.in_port = 0
        """By which port of the switch the packet came that handlers are given now; 0: the switch sent it itself."""
        self.set_pkeys([PKEY_LIMITED_MANAGEMENT, PKEY_FULL_MANAGEMENT])

    @property
    def is_used(self) -> bool:
        """Whether anything has come or gone here."""
        return bool(self.tx.in_packets or self.rx.in_packets)

    def deliver(self, packet: bytes, token: BufferToken | None, in_port: int = 0) -> None:
        """Pass a packet that came to the switch by `in_port` to the handler of its L4 type."""
        self.in_port = in_port
        super().deliver(packet, token)

    def direct(self, packet: bytes, out_port: int) -> Drop | None:
        """Send a packet out of one port of the switch, past the tables: a hop of a directed route.

        Returns:  why port 0 refused it, or None; the switch counts what the other port does not let out.
        """
        driver = self._driver
        drop = driver.engine.direct(driver.now, self.number, out_port, packet)
        driver.run()
        return drop

    def register_l4(self, l4: int, handler: L4Handler[Self]) -> None:
        super().register_l4(l4, handler)
        if self.state is PortState.DOWN:
            self.set_state(PortState.ACTIVE)


class Switch(OfGeneration):
    """Forwards by DLID; has a node GUID and, once swept, a LID of its own (port 0)."""

    def __init__(
        self,
        name: str,
        node_guid: Guid,
        ports: int,
        *,
        icrc: Icrc,
        driver: Driver,
        on_program: Callable[[Switch], None],
        is_remote: bool = False,
    ) -> None:
        """Make a switch.

        Args:  icrc: checks what port 0 receives. driver: of the engine that carries it. on_program: called after new
               tables are in. is_remote: another engine carries it.
        """
        self.name = name
        self.description = name
        """What it says of itself (NodeDescription)."""
        self.is_remote = is_remote
        """Whether another engine carries it: what is known here is what its machine says."""
        self.node_guid = node_guid
        self._counters = PacketCounters()
        self.number = driver.engine.add_switch(self._counters)
        """Its number in the engine."""
        self.port0 = SwitchPort0(self, icrc, driver)
        self.ports = {num: SwitchPort(self, num) for num in range(1, ports + 1)}
        self.lft: LinearTable = EMPTY_TABLE
        """DLID -> port number, or a group of equivalent ports."""
        self.mft: Mapping[int, frozenset[int]] = MappingProxyType({})
        """Multicast DLID -> port numbers of its spanning tree."""
        self.info = SwitchInfo(
            linear_fdb_cap=LINEAR_CAP,
            multicast_fdb_cap=MULTICAST_CAP,
            port_group_fdb_cap=MULTICAST_CAP,
            life_time_value=18,
            partition_enforcement_cap=64,
            port_group_cap=16,
            enhanced_port0=True,
        )
        """What a subnet manager has set last; only the agent knows it."""
        self.on_link: Callable[[SwitchPort], None] = lambda _port: None
        """Called when a port has got or lost its link: the agent tells the subnet manager."""
        self.on_configured: Callable[[], None] = lambda: None
        """As that of a port: its tables, or one of its ports, are others now."""
        self._up = True
        self._driver = driver
        self._on_program = on_program

    def grow(self, ports: int) -> None:
        """Give it ports up to this number, as a larger switch in its place would have them.

        Raises:  FabricError: more than a forwarding table can hold.
        """
        if ports > MAX_PORTS:
            raise FabricError(f"switch {self.name}: {ports} ports; a switch has 1 to {MAX_PORTS}")
        for num in range(len(self.ports) + 1, ports + 1):
            self.ports[num] = SwitchPort(self, num)

    @property
    def counters(self) -> PacketCounters:
        """What has passed it so far."""
        self._driver.count()
        return self._counters

    @property
    def lid(self) -> Lid:
        """The LID that the subnet manager assigned, which is that of port 0."""
        return self.port0.lid

    @lid.setter
    def lid(self, lid: Lid) -> None:
        self.port0.set_lid(lid)

    @property
    def up(self) -> bool:
        """Whether it is on."""
        return self._up

    @up.setter
    def up(self, up: bool) -> None:
        self._up = up
        self._driver.engine.set_switch(self._driver.now, self.number, up)
        self._driver.run_soon()

    def program(self, lft: Mapping[int, int], mft: Mapping[int, frozenset[int]]) -> None:
        """Swap in new forwarding tables, both at once."""
        self.lft = lft if isinstance(lft, LinearTable) else LinearTable.of(lft)
        self.mft = MappingProxyType(dict(mft))
        self._driver.engine.set_tables(self._driver.now, self.number, self.lft, self.mft)
        self._driver.run_soon()
        self.on_configured()
        self._on_program(self)

    def errors_at(self, port_num: int) -> Mapping[Drop, PortError]:
        """Return what was dropped at a port.

        Args:  port_num: 0: what port 0 has sent, or what only it could have taken.
        """
        driver = self._driver
        errors = driver.engine.port_errors(driver.now, SwitchEnd(self.number, port_num))
        driver.run_soon()
        return errors

    def forget_errors_at(self, port_num: int, reasons: Iterable[Drop]) -> None:
        """Forget the first packet dropped at a port for each of these reasons."""
        driver = self._driver
        driver.engine.forget_errors(driver.now, SwitchEnd(self.number, port_num), reasons)
        driver.run_soon()

    def configure_port(self, port_num: int, config: SwitchPortConfig) -> None:
        """Tell the engine how a port is set up now; the port calls this."""
        self._driver.engine.set_switch_port(self._driver.now, self.number, port_num, config)
        self._driver.run_soon()
        self.on_configured()
