"""The Notice, attribute 0x0002: what a trap of the agent says. Big-endian, 48 bytes at byte 40 of the MAD.

Source: the public driver's opa_vnic_vema_send_trap().
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, fields
from typing import ClassVar, Final, Self

import construct

from vema.attributes.fields import READ_ONLY, ZERO, check_size, misfit, note
from vema.types import EMA_OUI

GENERIC_TYPE: Final = 0x08
"""generic_type of the driver's notices: type 4 (informational), not generic."""

LAYOUT: Final = construct.Struct(
    "generic_type" / construct.Int8ub * note(READ_ONLY, "0x08: notice type 4, vendor specific"),
    "oui" / construct.Bytes(3) * note(READ_ONLY, "00066a"),
    "trap_num" / construct.Int16ub * note(READ_ONLY, "0"),
    "toggle_count" / construct.Int16ub * note(READ_ONLY, "0"),
    "issuer_lid" / construct.Int32ub * note(READ_ONLY, "encap_slid of the vport"),
    "reserved_12" / construct.Bytes(4) * note(ZERO, "reserved"),
    "issuer_gid" / construct.Bytes(16) * note(READ_ONLY, "0"),
    "fabric_id" / construct.Int16ub * note(READ_ONLY, "of the vport"),
    "vesw_id" / construct.Int16ub * note(READ_ONLY, "of the vport"),
    "vesw_port_num" / construct.Int32ub * note(READ_ONLY, "of the vport"),
    "opa_port_num" / construct.Int16ub * note(READ_ONLY, "number of the HFI port"),
    "vport_num" / construct.Int8ub * note(READ_ONLY, "number of the vport"),
    "opcode" / construct.Int8ub * note(READ_ONLY, "1 unicast list, 2 multicast list, 3 link status"),
    "reserved_44" / construct.Bytes(4) * note(ZERO, "reserved"),
)
"""The layout in document order."""

_CODEC: Final = struct.Struct(">B3sHHI4s16sHHIHBB4s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One notice of one vport."""

    SIZE: ClassVar[int] = 48

    generic_type: int = GENERIC_TYPE
    oui: bytes = EMA_OUI
    trap_num: int = 0
    toggle_count: int = 0
    issuer_lid: int
    reserved_12: bytes = bytes(4)
    issuer_gid: bytes = bytes(16)
    fabric_id: int
    vesw_id: int
    vesw_port_num: int
    opa_port_num: int
    vport_num: int
    opcode: int
    """What has changed: see `TrapOpcode`; others stay plain ints."""
    reserved_44: bytes = bytes(4)

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read the attribute at the start of `data`.

        Raises:  WireError: fewer than 48 bytes. No value of the fields is refused.
        """
        check_size("Notice", data, cls.SIZE)
        return cls(**dict(zip(_NAMES, _CODEC.unpack_from(data), strict=True)))

    def build(self) -> bytes:
        """Return the 48 bytes.

        Raises:  ValueError: a value does not fit its field.
        """
        try:
            return _CODEC.pack(*(getattr(self, name) for name in _NAMES))
        except struct.error:
            raise misfit("Notice", LAYOUT, self) from None


_NAMES: Final = tuple(field.name for field in fields(Notice))
