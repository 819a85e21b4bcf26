"""The Notice, attribute 0x0002: the content of a trap of the agent. Big-endian, 48 bytes at byte 40 of the MAD.

Source: the public driver's opa_vnic_vema_send_trap().
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from hfi_sim.wire.field import BYTES, DECIMAL, HEX, Field, Shown
from hfi_sim.wire.header import WireHeader, declared
from vema.attributes.access import READ_ONLY, ZERO, reserved
from vema.base.types import EMA_OUI, TrapOpcode

GENERIC_TYPE: Final = 0x08
"""generic_type of the driver's notices: type 4 (informational), not generic."""

_OUI: Final = {int.from_bytes(EMA_OUI): "the OUI of the VNIC's management"}


def _said(bits: int, meaning: str, shown: Shown = DECIMAL) -> Field:
    return Field(bits, meaning, shown, access=READ_ONLY)


@declared("Notice", "Notice", "big", names_itself=True)
@dataclass(frozen=True, slots=True, kw_only=True)
class Notice(WireHeader):
    """One notice of one vport."""

    generic_type: Annotated[int, _said(8, "0x08: notice type 4, vendor specific", HEX)] = GENERIC_TYPE
    oui: Annotated[bytes, Field(24, "00066a", BYTES, codes=_OUI, access=READ_ONLY)] = EMA_OUI
    trap_num: Annotated[int, _said(16, "0")] = 0
    toggle_count: Annotated[int, _said(16, "0")] = 0
    issuer_lid: Annotated[int, _said(32, "encap_slid of the vport", HEX)]
    reserved_12: Annotated[bytes, reserved(4, ZERO)] = bytes(4)
    issuer_gid: Annotated[bytes, _said(128, "0", BYTES)] = bytes(16)
    fabric_id: Annotated[int, _said(16, "of the vport", HEX)]
    vesw_id: Annotated[int, _said(16, "of the vport")]
    vesw_port_num: Annotated[int, _said(32, "of the vport")]
    opa_port_num: Annotated[int, _said(16, "number of the HFI port")]
    vport_num: Annotated[int, _said(8, "number of the vport")]
    opcode: Annotated[
        int,
        Field(8, "1 unicast list, 2 multicast list, 3 link status", codes=TrapOpcode, access=READ_ONLY),
    ]
    """A `TrapOpcode`; other values stay plain ints."""
    reserved_44: Annotated[bytes, reserved(4, ZERO)] = bytes(4)
