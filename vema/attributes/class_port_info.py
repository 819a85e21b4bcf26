"""ClassPortInfo, attribute 0x0001: what the agent can do, and where its traps go. Big-endian, 80 bytes.

Source: the IB architecture's ClassPortInfo in OPA's form with 32-bit LIDs; the public driver's
vema_get_class_port_info() and vema_set_class_port_info().
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, fields
from typing import ClassVar, Final, Self

import construct

from vema.attributes.fields import KEPT, READ_ONLY, READ_WRITE, check_size, misfit, note

CAPABILITY_TRAPS: Final = 0x0001
"""Bit of cap_mask: the agent sends traps."""

LAYOUT: Final = construct.Struct(
    "base_version" / construct.Int8ub * note(READ_ONLY, "0x80"),
    "class_version" / construct.Int8ub * note(READ_ONLY, "0x80"),
    "cap_mask" / construct.Int16ub * note(READ_ONLY, "bit 0: sends traps; bits 8-15: vports, 255"),
    "cap_mask2_resp_time" / construct.Int32ub * note(READ_ONLY, "response time, 4.096 us * 2**18"),
    "redirect_gid" / construct.Bytes(16) * note(KEPT, "redirection GID; not used"),
    "redirect_tc_fl" / construct.Int32ub * note(KEPT, "redirection traffic class and flow label; not used"),
    "redirect_lid" / construct.Int32ub * note(KEPT, "redirection LID; not used"),
    "redirect_sl_qp" / construct.Int32ub * note(KEPT, "redirection SL and queue pair; not used"),
    "redirect_qkey" / construct.Int32ub * note(KEPT, "redirection Q_Key; not used"),
    "trap_gid" / construct.Bytes(16) * note(KEPT, "GID of the trap sink; not used"),
    "trap_tc_fl" / construct.Int32ub * note(KEPT, "traffic class and flow label of traps; not used"),
    "trap_lid" / construct.Int32ub * note(READ_WRITE, "LID of the trap sink; 0: send no traps"),
    "trap_hl_qp" / construct.Int32ub * note(KEPT, "hop limit and queue pair of traps; not used, it is QP 1"),
    "trap_qkey" / construct.Int32ub * note(KEPT, "Q_Key of traps; not used"),
    "trap_pkey"
    / construct.Int16ub
    * note(KEPT, "P_Key of traps; not used, it is the port's management P_Key"),
    "redirect_pkey" / construct.Int16ub * note(KEPT, "redirection P_Key; not used"),
    "trap_sl_rsvd" / construct.Int8ub * note(READ_WRITE, "bits 3-7: service level of traps; bits 0-2 kept"),
    "reserved_77" / construct.Bytes(3) * note(KEPT, "reserved"),
)
"""The layout in document order."""

_CODEC: Final = struct.Struct(">BBHI16sIIII16sIIIIHHB3s")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassPortInfo:
    """One per HFI port. The first four fields are the agent's own."""

    SIZE: ClassVar[int] = 80

    base_version: int = 0
    class_version: int = 0
    cap_mask: int = 0
    cap_mask2_resp_time: int = 0
    redirect_gid: bytes = bytes(16)
    redirect_tc_fl: int = 0
    redirect_lid: int = 0
    redirect_sl_qp: int = 0
    redirect_qkey: int = 0
    trap_gid: bytes = bytes(16)
    trap_tc_fl: int = 0
    trap_lid: int = 0
    """Where traps go; 32 bits on the wire, a LID has 24. 0: nowhere."""
    trap_hl_qp: int = 0
    trap_qkey: int = 0
    trap_pkey: int = 0
    redirect_pkey: int = 0
    trap_sl_rsvd: int = 0
    """Bits 3-7: service level of traps."""
    reserved_77: bytes = bytes(3)

    @property
    def trap_sl(self) -> int:
        """Service level of traps, 0-31."""
        return self.trap_sl_rsvd >> 3

    @property
    def max_vports(self) -> int:
        """How many vports the port can hold."""
        return self.cap_mask >> 8

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read the attribute at the start of `data`.

        Raises:  WireError: fewer than 80 bytes. No value of the fields is refused.
        """
        check_size("ClassPortInfo", data, cls.SIZE)
        return cls(**dict(zip(_NAMES, _CODEC.unpack_from(data), strict=True)))

    def build(self) -> bytes:
        """Return the 80 bytes.

        Raises:  ValueError: a value does not fit its field.
        """
        try:
            return _CODEC.pack(*(getattr(self, name) for name in _NAMES))
        except struct.error:
            raise misfit("ClassPortInfo", LAYOUT, self) from None


_NAMES: Final = tuple(field.name for field in fields(ClassPortInfo))
