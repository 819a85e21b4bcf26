"""Numbers that the Ethernet manager and its agents share, and names for the plain integers among them."""

from __future__ import annotations

from typing import Final, NewType

from hfi_sim.mad.attributes import AttrId as AttrId
from hfi_sim.mad.header import EMA_OUI as EMA_OUI
from hfi_sim.mad.header import MadStatus as MadStatus
from hfi_sim.wire.field import Code

VportNum = NewType("VportNum", int)
"""Number of a vport on its HFI port, 0 to 255: the low byte of the attribute modifier."""

EMA_CLASS_VERSION: Final = 0x80

MAX_VPORTS: Final = 255
"""Vports that a port announces in ClassPortInfo."""
MAC_TABLE_ENTRIES: Final = 2048
"""Entries of the MAC table of one vport, source entries included."""
SMAC_ENTRIES: Final = 256
"""Entries of the MAC table that may be source entries."""


class ConfigState(Code):
    """What the EM wants a vport to do, and (oper_state) what it does; other values act as DROP_ALL."""

    DROP_ALL = 1, "dropping all"
    FORWARDING = 3, "forwarding"


class EthLinkStatus(Code):
    """The Ethernet link of a vport as the EM sees it; 0 where the vport does not exist."""

    UP = 1, "up"
    DOWN = 2, "down"


class TrapOpcode(Code):
    """What a trap of a vport is about."""

    UCAST_MACS_CHANGED = 1, "unicast list changed"
    MCAST_MACS_CHANGED = 2, "multicast list changed"
    ETH_LINK_STATUS_CHANGED = 3, "link status changed"
