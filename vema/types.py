"""Numbers that the Ethernet manager and its agents share, and names for the plain integers among them."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NewType

from hfi_sim.mad.header import EMA_OUI as EMA_OUI

VportNum = NewType("VportNum", int)
"""Number of a vport on its HFI port, 0 to 255: the low byte of the attribute modifier."""

EMA_CLASS_VERSION: Final = 0x80

MAX_VPORTS: Final = 255
"""Vports that a port announces in ClassPortInfo."""
MAC_TABLE_ENTRIES: Final = 2048
"""Entries of the MAC table of one vport, source entries included."""
SMAC_ENTRIES: Final = 256
"""Entries of the MAC table that may be source entries."""


class AttrId(IntEnum):
    """Attributes of the EMA class; others stay plain ints."""

    CLASS_PORT_INFO = 0x0001
    NOTICE = 0x0002
    VESW_PORT_INFO = 0x0011
    MAC_ENTRIES = 0x0012
    IFACE_UCAST_MACS = 0x0013
    IFACE_MCAST_MACS = 0x0014
    DELETE_VESW = 0x0015
    SUMMARY_COUNTERS = 0x0020
    ERROR_COUNTERS = 0x0022


class MadStatus(IntEnum):
    """Status of a response, 16 bits."""

    OK = 0x0000
    UNSUPPORTED = 0x000C
    """The method, the attribute, or the two together are not supported."""
    INVALID = 0x001C
    """A value of the attribute or of its modifier is invalid: no such vport, a range outside the table."""
    DENIED = 0x0700
    """The sender may not do that: a Set not from a full member of the management partition, a Get from outside it.

    Source: the subnet administration's "request denied"; the driver knows no such refusal.
    """


class ConfigState(IntEnum):
    """What the EM wants a vport to do, and (oper_state) what it does; other values act as DROP_ALL."""

    DROP_ALL = 1
    FORWARDING = 3


class EthLinkStatus(IntEnum):
    """The Ethernet link of a vport as the EM sees it; 0 where the vport does not exist."""

    UP = 1
    DOWN = 2


class TrapOpcode(IntEnum):
    """What a trap of a vport is about."""

    UCAST_MACS_CHANGED = 1
    MCAST_MACS_CHANGED = 2
    ETH_LINK_STATUS_CHANGED = 3
