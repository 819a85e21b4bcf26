"""States of a port and kinds of its events, in the IB core's words."""

from __future__ import annotations

from enum import Enum, IntEnum, IntFlag


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
