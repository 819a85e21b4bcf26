"""Where packets enter and leave the fabric: what HFI ports and port 0 of a switch have in common.

A port enforces what hardware enforces: its own LID as SLID, its partition table in both directions, complete and
undamaged packets on receipt. Above it, handlers take packets by L4 type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Final, Self, TypeVar

from hfi_sim.base.counters import CongestionCounters, Drop, PacketCounters
from hfi_sim.base.errors import FabricError
from hfi_sim.base.pkeys import PkeyTable
from hfi_sim.base.types import SC_MANAGEMENT, Guid, Lid, PortState
from hfi_sim.engine.api import PortError
from hfi_sim.engine.config import HfiEnd, PortConfig
from hfi_sim.engine.driver import Driver
from hfi_sim.engine.events.outputs import BufferToken, PortId
from hfi_sim.wire.icrc import Icrc
from hfi_sim.wire.lrh16b import L4_BYTE
from hfi_sim.wire.sma.port_info import LinkInitReason, PhysicalState, PortInfo

SERVICE_LEVELS: Final = 32
ONE_TO_ONE: Final = tuple(range(SERVICE_LEVELS))


class PortSettings:
    """What a subnet manager has told a port, and nothing but the agent there knows: one place for each.

    What the engine or the port itself holds (LID, state, P_Keys, tables) stands there, and is not repeated here.
    """

    def __init__(self) -> None:
        self.info = PortInfo(speed_enabled=0, width_enabled=0, downgrade_enabled=0)
        """What was set last, and what a port has from the beginning; the rest of the fields is not looked at.

        Of speeds and widths that are enabled, 0 is those of the plan.
        """
        self.sl_to_sc = ONE_TO_ONE
        """SLtoSC; SC15 there means that the service level carries no data (`sc_of`)."""
        self.sc_to_sl = ONE_TO_ONE
        self.pkeys: tuple[int, ...] = ()
        """The partition table of a switch's port with a cable; 0: an empty place."""
        self.pkey_violations = 0
        """What is added to the packets that the port has dropped for their P_Key: it was set to something else."""
        self.tables: dict[tuple[int, int], bytes] = {}
        """Tables as they were set, where nothing else has all of them, by attribute and by what else names one."""
        self.physical_state = PhysicalState.POLLING
        """The physical state that was set while it has no link: POLLING or DISABLED."""
        self.trap_lid = 0
        """Where traps go, once a manager has said so in an SMP; 0: no manager awaits any."""

    def link_changed(self) -> None:
        """Begin anew: the link came up or went down."""
        self.info = replace(
            self.info, is_sm_configuration_started=False, link_init_reason=LinkInitReason.LINK_UP
        )

    def sc_of(self, sl: int) -> int | None:
        """Return the service channel of data of a service level; None: it carries none."""
        sc = self.sl_to_sc[sl] if sl < SERVICE_LEVELS else SC_MANAGEMENT
        return None if sc == SC_MANAGEMENT or sc >= SERVICE_LEVELS else sc


_Port = TypeVar("_Port")

L4Handler = Callable[[_Port, bytes, BufferToken | None], Drop | None]
"""Takes a whole packet, and the room that it occupies in the port's buffer, on a link with credits (`EndPort.keep`).

A returned Drop is counted by the port; None means that the handler took the packet.
"""

AddPort = Callable[[PacketCounters, PacketCounters, CongestionCounters], PortId]
"""Adds a port to an engine, which counts there what the port sends, what it receives, and congestion."""


class EndPort:
    """A port with LIDs and a partition table."""

    send_smp: Callable[[bytes, int, int], Drop | None]
    """Sends an SMP of a program of this node, given its DLID and P_Key; queue pair 0 puts itself here."""

    def __init__(self, name: str, guid: Guid, icrc: Icrc, driver: Driver, add: AddPort) -> None:
        """Make a port that is DOWN."""
        self.name = name
        self.guid = guid
        self.icrc = icrc
        self.settings = PortSettings()
        """What only the subnet management agent knows of it."""
        self._tx = PacketCounters()
        self._rx = PacketCounters()
        self._congestion = CongestionCounters()
        self.number = add(self._tx, self._rx, self._congestion)
        """Its number in the engine."""
        self._driver = driver
        self._config = PortConfig()
        self._l4_handlers: dict[int, L4Handler[Any]] = {}
        self.on_configured: Callable[[], None] = lambda: None
        """Called when it is set up in another way: on the machine that carries it, that is to follow."""

    def _configure(self, **changes: object) -> None:
        self._config = replace(self._config, **changes)  # type: ignore[arg-type]
        self._driver.engine.set_port(self._driver.now, self.number, self._config)
        self._driver.run_soon()
        self.on_configured()

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

    def errors(self) -> Mapping[Drop, PortError]:
        """Return what the engine has dropped here, by reason, with the first packet of each."""
        driver = self._driver
        errors = driver.engine.port_errors(driver.now, HfiEnd(self.number))
        driver.run_soon()
        return errors

    def forget_errors(self, reasons: Iterable[Drop]) -> None:
        """Forget the first packet dropped for each of these reasons."""
        self._driver.engine.forget_errors(self._driver.now, HfiEnd(self.number), reasons)
        self._driver.run_soon()

    # --- sending -------------------------------------------------------------------------------------------

    def send(self, packet: bytes) -> Drop | None:
        """Send arbitrary bytes; return why they were dropped, or None once they are on the link.

        For packets from elsewhere: the engine reads the fields that it checks from the bytes. Code that has just built
        a packet knows them and calls `send_built` instead.
        """
        return self._driver.send(self.number, packet)

    def send_built(self, packet: bytes, slid: int, dlid: int, pkey: int) -> Drop | None:
        """Send a sealed 16B packet built by this process; return why the port refused it, or None.

        Args:  slid, dlid, pkey: as in the packet, with LIDs of 24 bits; they are not read from it again.
        """
        return self._driver.inject(self.number, packet, slid, dlid, pkey)

    def burst(self) -> AbstractContextManager[object]:
        """Let packets that are sent in the body go through the fabric together, when the body ends."""
        return self._driver.burst()

    # --- receiving -----------------------------------------------------------------------------------------

    def deliver(self, packet: bytes, token: BufferToken | None, _in_port: int = 0) -> None:
        """Pass a packet that the engine has received and checked to the handler of its L4 type."""
        handler = self._l4_handlers.get(packet[L4_BYTE])
        drop = Drop.RX_L4 if handler is None else handler(self, packet, token)
        rx = self._rx
        rx.in_flight -= 1
        if drop is None:
            rx.out_packets += 1
            rx.out_bytes += len(packet)
        else:
            rx.drop(drop)
        if token is not None:
            self.release(token)

    def keep(self, token: BufferToken) -> None:
        """Keep the room of a packet in the port's buffer beyond the return of its handler, until `release`."""
        self._driver.engine.keep(token)

    def release(self, token: BufferToken) -> None:
        """Release the room of a packet; its credit goes back to the sender once every holder has."""
        self._driver.engine.release(self._driver.now, token)
        self._driver.run()

    def register_l4(self, l4: int, handler: L4Handler[Self]) -> None:
        """Pass packets of one L4 type to `handler`.

        Raises:  FabricError: the type has a handler already.
        """
        if l4 in self._l4_handlers:
            raise FabricError(f"{self.name}: L4 type {l4:#04x} already has a handler")
        self._l4_handlers[l4] = handler

    def unregister_l4(self, l4: int) -> None:
        """Remove the handler of one L4 type; its packets are dropped as rx_l4 again."""
        self._l4_handlers.pop(l4, None)

    # --- what the subnet manager sets ----------------------------------------------------------------------

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

    def has_lid(self, lid: int) -> bool:
        """Return whether a LID is one of its 2**lmc."""
        return lid >> self.lmc == self.lid >> self.lmc

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

    def take_any_group(self) -> None:
        """Accept every multicast group; the switches filter."""
        self._configure(any_group=True)

    def set_state(self, state: PortState) -> None:
        """Enter the state set by the subnet manager. In INIT and ARMED only management packets (SC15) pass."""
        if state is not self.state:
            self._configure(state=state)

    def set_lid(self, lid: Lid, lmc: int = 0) -> None:
        """Take the base LID that the subnet manager assigned, and 2**lmc LIDs from it."""
        if (lid, lmc) != (self.lid, self.lmc):
            self._configure(lid=lid, lmc=lmc)

    def set_pkeys(self, pkeys: Iterable[int] | PkeyTable) -> None:
        """Take a new partition table."""
        table = pkeys if isinstance(pkeys, PkeyTable) else PkeyTable.of(pkeys)
        if table != self.pkeys:
            self._configure(pkeys=table)
