"""Traps of the agent: the MAD, and the rate limit of a vport.

Source: the public driver's opa_vnic_vema_send_trap().
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from hfi_sim.wire.mad.header import DATA_OFFSET_VENDOR, MadClass, MadHeader, Method, RmppHeader, VendorHeader
from vema.attributes.attr_id import AttrId
from vema.attributes.class_port_info import Notice
from vema.attributes.vesw_port_info import VeswPortInfo
from vema.base.types import TrapOpcode, VportNum

TRAP_SIZE: Final = 272
"""Bytes of a trap: the header of a vendor-class MAD and 232 bytes, less than a MAD may have."""
TRAP_WINDOW_MS: Final = 1074
"""Length of a window of the rate limit: 1073741 us in ticks of 1 ms."""
TRAP_BURST: Final = 4
"""Traps allowed in a window after the one that opened it."""
_EPSILON_MS: Final = 1e-6

_VENDOR_PREFIX: Final = RmppHeader().build() + VendorHeader().build()


@dataclass(frozen=True, slots=True)
class Trap:
    """A trap on its way to the sink. It goes to queue pair 1."""

    mad: bytes
    """272 bytes."""
    dlid: int
    """The sink, as set by the EM: up to 32 bits, although a LID has 24."""
    sl: int
    """Service level, 0-31."""


TrapSink = Callable[[Trap], None]
"""Sends a trap."""


def build_trap(
    tid: int, info: VeswPortInfo, vport_num: VportNum, opa_port_num: int, opcode: TrapOpcode
) -> bytes:
    """Return the MAD of a trap, 272 bytes, for the configuration `info` of a vport."""
    header = MadHeader(mgmt_class=MadClass.EMA, method=Method.TRAP, tid=tid, attr_id=AttrId.NOTICE)
    notice = Notice(
        issuer_lid=info.encap_slid,
        fabric_id=info.fabric_id,
        vesw_id=info.vesw_id,
        vesw_port_num=info.vesw_port_num,
        opa_port_num=opa_port_num,
        vport_num=vport_num,
        opcode=opcode,
    )
    return (header.build() + _VENDOR_PREFIX + notice.build()).ljust(TRAP_SIZE, b"\0")


def notice_of(mad: bytes) -> Notice:
    """Return the notice in a trap.

    Raises:  WireError: truncated.
    """
    return Notice.parse(mad[DATA_OFFSET_VENDOR:])


class TrapLimiter:
    """The rate limit of one vport: five traps in a window, which opens with the first of them."""

    __slots__ = ("_count", "_window_end_ms")

    def __init__(self) -> None:
        self._count = 0
        self._window_end_ms: int | None = None

    def admit(self, now_s: float, has_sink: bool) -> bool:
        """Return whether a trap may be sent at `now_s`. Without a sink it may not, but the attempt may still count.

        Source: the driver checks the rate before it looks for a sink. Without a sink it opens no window, but in an
        open window the attempt counts.
        """
        now_ms = int(now_s * 1000 + _EPSILON_MS)
        if self._window_end_ms is None or now_ms >= self._window_end_ms:
            if has_sink:
                self._count = 0
                self._window_end_ms = now_ms + TRAP_WINDOW_MS
            return has_sink
        if self._count == TRAP_BURST:
            return False
        self._count += 1
        return has_sink
