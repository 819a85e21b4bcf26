"""What a subnet manager has told a port or a switch, and nothing but the agent there knows: one place for each.

What the engine or the port itself holds (LID, state, P_Keys, tables) stands there, and is not repeated here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from hfi_sim.base.types import SC_MANAGEMENT
from hfi_sim.wire.sma.node import SwitchInfo
from hfi_sim.wire.sma.port_info import LinkInitReason, PhysicalState, PortInfo

SERVICE_LEVELS: Final = 32
ONE_TO_ONE: Final = tuple(range(SERVICE_LEVELS))
LINEAR_CAP: Final = 0xC000
MULTICAST_CAP: Final = 0x2000


class PortSettings:
    """Of one port."""

    __slots__ = (
        "info",
        "physical_state",
        "pkey_violations",
        "pkeys",
        "sc_to_sl",
        "sl_to_sc",
        "tables",
        "trap_lid",
    )

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


class SwitchSettings:
    """Of one switch."""

    __slots__ = ("info",)

    def __init__(self) -> None:
        self.info = SwitchInfo(
            linear_fdb_cap=LINEAR_CAP,
            multicast_fdb_cap=MULTICAST_CAP,
            port_group_fdb_cap=MULTICAST_CAP,
            life_time_value=18,
            partition_enforcement_cap=64,
            port_group_cap=16,
            enhanced_port0=True,
        )
        """What was set last."""
