"""Reliable connections between HFI ports: in-order messages over 16B packets that may be lost.

`RcEndpoint` decides and does no I/O; `ReliableService` puts it on an `HfiPort`. What InfiniBand's reliable
connected transport promises, this does: a message arrives once and in order, or the connection is closed.
"""

from __future__ import annotations

from hfi_sim.management.reliable.config import (
    Closed,
    CloseReason,
    ConnectRequest,
    Established,
    MessageReceived,
    MessageSent,
    RcConfig,
    RcEvent,
    Rejected,
)
from hfi_sim.management.reliable.endpoint import RcCounters, RcEndpoint
from hfi_sim.wire.reliable_header import RcFlags, RcHeader, RcOpcode

__all__ = [
    "CloseReason",
    "Closed",
    "ConnectRequest",
    "Established",
    "MessageReceived",
    "MessageSent",
    "RcConfig",
    "RcCounters",
    "RcEndpoint",
    "RcEvent",
    "RcFlags",
    "RcHeader",
    "RcOpcode",
    "Rejected",
]
