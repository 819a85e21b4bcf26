"""Numbers shared by the Ethernet Manager and its agents, and types for some of them."""

from __future__ import annotations

from typing import Final, NewType

from hfi_sim.wire.field import BITS_PER_BYTE, BYTES, Code, Field
from hfi_sim.wire.mad.header import EMA_OUI as EMA_OUI
from hfi_sim.wire.mad.header import MadStatus as MadStatus

VportNum = NewType("VportNum", int)
"""Number of a vport on its HFI port, 0 to 255: the low byte of the attribute modifier."""

MAX_VPORT_NUM: Final = 0xFF
MAX_VESW_ID: Final = 0xFFF
"""12 bits; 0 is no virtual switch, so a fabric has as many at most."""
MAX_FABRIC_ID: Final = 0x3FF
"""10 bits; a part of every locally administered MAC address."""

EMA_CLASS_VERSION: Final = 0x80

MAX_VPORTS: Final = 255
"""Vports that a port announces in ClassPortInfo."""
MAC_TABLE_ENTRIES: Final = 2048
"""Entries of the MAC table of one vport, source entries included."""
TABLE_REWRITTEN: Final = 1
"""The digest that our EM gives a MAC table that is being rewritten."""
SMAC_ENTRIES: Final = 256
"""Entries of the MAC table that may be source entries."""


class ConfigState(Code):
    """The state of a vport that the EM requests and, in oper_state, its current one; other values act as DROP_ALL."""

    DROP_ALL = 1, "dropping all"
    FORWARDING = 3, "forwarding"


class EthLinkStatus(Code):
    """The Ethernet link of a vport as the EM sees it; 0 if the vport does not exist."""

    UP = 1, "up"
    DOWN = 2, "down"


class TrapOpcode(Code):
    """The reason for a trap of a vport."""

    UCAST_MACS_CHANGED = 1, "unicast list changed"
    MCAST_MACS_CHANGED = 2, "multicast list changed"
    ETH_LINK_STATUS_CHANGED = 3, "link status changed"


READ_WRITE: Final = "RW"
"""Set by the EM; a Get returns the value that was set."""
READ_ONLY: Final = "RO"
"""Set by the agent; ignored in a Set."""
KEPT: Final = "kept"
"""Reserved, but stored and returned as the EM sent it."""
ZERO: Final = "zero"
"""Reserved: zero in every response."""


def reserved(size: int, access: str = KEPT) -> Field:
    """Declare `size` reserved bytes. Their name contains their offset, as in `reserved_92`."""
    return Field(size * BITS_PER_BYTE, "reserved", BYTES, access=access)
