"""Names for the plain integers and bytes that cross the fabric, so that a LID is no P_Key; limits; states of a port."""

from __future__ import annotations

from enum import Enum, IntEnum, IntFlag
from typing import Final, NewType

Lid = NewType("Lid", int)
"""24-bit local identifier of a port (unicast) or of a group (multicast, 0xF00000 and up)."""

Pkey = NewType("Pkey", int)
"""16-bit partition key: bit 15 says full member, the low 15 bits name the partition."""

Guid = NewType("Guid", int)
"""64-bit globally unique identifier of a node or of a port."""

MacAddr = NewType("MacAddr", bytes)
"""6 bytes, in transmission order."""

LID_NONE: Final = Lid(0)
"""Never a destination, and the LID of a port that the subnet manager has not seen."""

LID_MAX: Final = 0xFFFFFF
"""The largest number of 24 bits."""

LID_PERMISSIVE: Final = Lid(LID_MAX)
"""The destination of a packet whose sender knows no LID."""

LID_MULTICAST_FIRST: Final = Lid(0xF00000)
"""The first multicast LID: DLID[23:20] = 0xF."""

LIDS_OF_JOINED_GROUPS: Final = range(0xF01000, 0xF01400)
"""The multicast LIDs that subnet administration gives only to groups that programs make by joining."""

SC_MANAGEMENT: Final = 15
"""The service channel of subnet management: SMPs, to and from QP0. Nothing else travels on it."""

ETH_MTU_MIN: Final = 68
ETH_MTU_DEFAULT: Final = 1500
ETH_MTU_MAX: Final = 10240
"""Limits and default of the MTU of Ethernet on a network device of a host, in bytes."""

PKEY_FULL_MANAGEMENT: Final = Pkey(0xFFFF)
PKEY_LIMITED_MANAGEMENT: Final = Pkey(0x7FFF)
PKEY_DEFAULT: Final = Pkey(0x8001)
"""The partition of data that a port is in before a subnet manager says otherwise."""
PKEY_FULL_MEMBER: Final = 0x8000
"""The membership bit of a P_Key."""


def is_multicast_lid(lid: int) -> bool:
    """Return whether `lid` names a group; the permissive LID does not."""
    return LID_MULTICAST_FIRST <= lid < LID_PERMISSIVE


def mac_text(mac: bytes) -> str:
    """Return 6 bytes as people write them: `06:2c:00:05:00:00`."""
    return mac.hex(":")


def parse_mac(text: str) -> MacAddr:
    """Read `06:2c:00:05:00:00` (or with dashes).

    Raises:  ValueError: not six two-digit hex numbers.
    """
    parts = text.replace("-", ":").split(":")
    if len(parts) != 6 or not all(len(part) == 2 for part in parts):
        raise ValueError(f"MAC address {text!r} is not six two-digit hex numbers such as 06:2c:00:05:00:00")
    try:
        return MacAddr(bytes(int(part, 16) for part in parts))
    except ValueError:
        raise ValueError(
            f"MAC address {text!r} is not six two-digit hex numbers such as 06:2c:00:05:00:00"
        ) from None


class PortState(IntEnum):
    """Logical port state, with InfiniBand's numbers."""

    DOWN = 1
    INIT = 2
    ARMED = 3
    ACTIVE = 4


class CapabilityMask3(IntFlag):
    """Bits of OPA's third capability mask that matter here."""

    ETH_ON_FABRIC_SUPPORTED = 1 << 13
    """The port carries Ethernet: an EM may make VNICs on it."""


class PortEvent(Enum):
    """What happened to a port (IB_EVENT_*)."""

    PORT_ACTIVE = "PORT_ACTIVE"
    PORT_ERR = "PORT_ERR"
    LID_CHANGE = "LID_CHANGE"
    PKEY_CHANGE = "PKEY_CHANGE"
    SM_CHANGE = "SM_CHANGE"
    CLIENT_REREGISTER = "CLIENT_REREGISTER"
    DEVICE_FATAL = "DEVICE_FATAL"
    SPEED_CHANGE = "SPEED_CHANGE"
    """The link has another rate while it stays up. Not an event of InfiniBand: hfi1 says nothing of a narrower link."""
