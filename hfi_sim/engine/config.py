"""The configuration of ports as an engine sees it: immutable, replaced whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from hfi_sim.base.errors import FabricError
from hfi_sim.base.pkeys import PkeyTable
from hfi_sim.base.types import LID_NONE, LID_PERMISSIVE, Lid, PortState, is_multicast_lid
from hfi_sim.engine.events.outputs import PortId, SwitchId
from hfi_sim.engine.link.arbiter import Egress
from hfi_sim.engine.link.config import SERVICE_CHANNELS


@dataclass(frozen=True, slots=True)
class PortConfig:
    """An HFI port as an engine sees it."""

    state: PortState = PortState.DOWN
    lid: Lid = LID_NONE
    lmc: int = 0
    """It has 2**lmc LIDs."""
    pkeys: PkeyTable = field(default_factory=PkeyTable)
    multicast_lids: frozenset[int] = frozenset()
    """The multicast groups that it has joined."""
    any_group: bool = False
    """Accept packets to any group: the switches only send those of joined groups here."""
    egress: Egress = field(default_factory=Egress)

    def has_lid(self, lid: int) -> bool:
        """Return whether a LID is one of the port's own."""
        return lid >> self.lmc == self.lid >> self.lmc

    def accepts(self, dlid: int) -> bool:
        """Return whether packets to a LID are for this port: its own, a group of its, or the permissive LID."""
        if is_multicast_lid(dlid):
            return self.any_group or dlid in self.multicast_lids
        return self.has_lid(dlid) or dlid == LID_PERMISSIVE


@dataclass(frozen=True, slots=True)
class SwitchPortConfig:
    """A port of a switch as an engine sees it."""

    state: PortState = PortState.DOWN
    egress: Egress = field(default_factory=Egress)
    pkeys_in: PkeyTable | None = None
    """The neighbour's table: only packets with P_Keys that it may use come in (`PkeyTable.borne`). None: any P_Key.

    Of management packets (SC15) only those with full management (0xffff) are checked: otherwise a node that gives
    itself that P_Key would be obeyed as the fabric manager.
    """
    pkeys_out: PkeyTable | None = None
    """The neighbour's table: only packets that it admits, and management packets, leave. None: any P_Key."""
    sc_to_sc: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """SCtoSC: the service channel on which a packet that came in here leaves, by leaving port and incoming service
    channel; SC15: the packet is dropped (sw_sc). Without a table for a port the service channel stays.

    Raises:  FabricError: a table of another size, a service channel that is not 0 to 31.
    """

    def __post_init__(self) -> None:
        for port_num, table in self.sc_to_sc.items():
            if len(table) != SERVICE_CHANNELS:
                raise FabricError(
                    f"the SC to SC table to port {port_num} has {len(table)} entries; "
                    f"there are {SERVICE_CHANNELS} service channels"
                )
            for sc, leaving in enumerate(table):
                if not 0 <= leaving < SERVICE_CHANNELS:
                    raise FabricError(
                        f"the SC to SC table to port {port_num} sends SC {sc} on as SC {leaving}; "
                        f"SCs are 0 to {SERVICE_CHANNELS - 1}"
                    )


class HfiEnd(NamedTuple):
    """The end of a link at an HFI port."""

    port: PortId


class SwitchEnd(NamedTuple):
    """The end of a link at a port of a switch."""

    switch: SwitchId
    port_num: int


class BoundaryEnd(NamedTuple):
    """The end of a link at a port in another engine: packets that reach it leave, and its packets are passed to
    `arrive`.
    """


End = HfiEnd | SwitchEnd | BoundaryEnd
