"""A switch: ports, a linear forwarding table for unicast, a multicast table for groups.

Both tables are immutable snapshots that the subnet manager swaps whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from hfi_sim.cable import Link
from hfi_sim.counters import PacketCounters
from hfi_sim.engine.config import SwitchEnd, SwitchPortConfig
from hfi_sim.engine.driver import Driver
from hfi_sim.port_state import PortState
from hfi_sim.routing.table import EMPTY_TABLE, LinearTable
from hfi_sim.types import LID_NONE, Guid, Lid


class SwitchPort:
    """One external port of a switch, numbered from 1."""

    def __init__(self, switch: Switch, port_num: int) -> None:
        self.switch = switch
        self.port_num = port_num
        self.name = f"{switch.name}:{port_num}"
        self.link: Link | None = None
        self._config = SwitchPortConfig()

    @property
    def engine_end(self) -> SwitchEnd:
        """The port, as the engine knows it."""
        return SwitchEnd(self.switch.number, self.port_num)

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

    def link_changed(self, up: bool) -> None:
        """Follow the link."""
        self.state = PortState.INIT if up and self.switch.up else PortState.DOWN


class Switch:
    """Forwards by DLID; has a node GUID and, once swept, a LID of its own (port 0)."""

    def __init__(
        self,
        name: str,
        node_guid: Guid,
        ports: int,
        *,
        driver: Driver,
        on_program: Callable[[Switch], None],
    ) -> None:
        """Make a switch. Args: driver: of the engine that carries it; on_program: called after new tables are in."""
        self.name = name
        self.node_guid = node_guid
        self.lid: Lid = LID_NONE
        self._counters = PacketCounters()
        self.number = driver.engine.add_switch(self._counters)
        """Its number in the engine."""
        self.ports = {num: SwitchPort(self, num) for num in range(1, ports + 1)}
        self.lft: LinearTable = EMPTY_TABLE
        """DLID -> port number, or a group of equivalent ports."""
        self.mft: Mapping[int, frozenset[int]] = MappingProxyType({})
        """Multicast DLID -> port numbers of its spanning tree."""
        self._up = True
        self._driver = driver
        self._on_program = on_program

    @property
    def counters(self) -> PacketCounters:
        """What has passed it so far."""
        self._driver.count()
        return self._counters

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
        self._on_program(self)

    def configure_port(self, port_num: int, config: SwitchPortConfig) -> None:
        """Tell the engine how a port is set up now; the port calls this."""
        self._driver.engine.set_switch_port(self._driver.now, self.number, port_num, config)
        self._driver.run_soon()
