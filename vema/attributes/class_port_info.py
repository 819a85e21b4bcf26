"""ClassPortInfo, attribute 0x0001, and Notice, 0x0002: what the agent can do, who gets its traps, and what those say.

Big-endian; 80 bytes, and 48 bytes at byte 40 of the MAD.

Source: the IB architecture's ClassPortInfo in OPA's form with 32-bit LIDs; the public driver's
vema_get_class_port_info(), vema_set_class_port_info() and opa_vnic_vema_send_trap().
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from hfi_sim.wire.field import BYTES, DECIMAL, HEX, Field, Shown
from hfi_sim.wire.header import WireHeader, declared
from vema.base.types import EMA_OUI, KEPT, READ_ONLY, READ_WRITE, ZERO, TrapOpcode, reserved

CAPABILITY_TRAPS: Final = 0x0001
"""Bit of cap_mask: the agent sends traps."""

_CAPABILITIES: Final = {"traps": (CAPABILITY_TRAPS, ""), "vports": (0xFF00, "")}
_TRAP_SL: Final = {"trap_sl": (0xF8, "")}


def _kept(bits: int, meaning: str) -> Field:
    return Field(bits, meaning, HEX, access=KEPT)


def _gid(meaning: str) -> Field:
    return Field(128, meaning, BYTES, access=KEPT)


@declared("ClassPortInfo", "ClassPortInfo", "big", names_itself=True)
@dataclass(frozen=True, slots=True, kw_only=True)
class ClassPortInfo(WireHeader):
    """The attribute, one for each HFI port. The first four fields are the agent's; an EM may set the others."""

    base_version: Annotated[int, Field(8, "0x80", HEX, access=READ_ONLY)] = 0
    class_version: Annotated[int, Field(8, "0x80", HEX, access=READ_ONLY)] = 0
    cap_mask: Annotated[
        int,
        Field(16, "bit 0: sends traps; bits 8-15: vports, 255", HEX, parts=_CAPABILITIES, access=READ_ONLY),
    ] = 0
    cap_mask2_resp_time: Annotated[
        int, Field(32, "response time, 4.096 us * 2**18", HEX, access=READ_ONLY)
    ] = 0
    redirect_gid: Annotated[bytes, _gid("redirection GID; not used")] = bytes(16)
    redirect_tc_fl: Annotated[int, _kept(32, "redirection traffic class and flow label; not used")] = 0
    redirect_lid: Annotated[int, _kept(32, "redirection LID; not used")] = 0
    redirect_sl_qp: Annotated[int, _kept(32, "redirection SL and queue pair; not used")] = 0
    redirect_qkey: Annotated[int, _kept(32, "redirection Q_Key; not used")] = 0
    trap_gid: Annotated[bytes, _gid("GID of the trap sink; not used")] = bytes(16)
    trap_tc_fl: Annotated[int, _kept(32, "traffic class and flow label of traps; not used")] = 0
    trap_lid: Annotated[int, Field(32, "LID of the trap sink; 0: send no traps", HEX, access=READ_WRITE)] = 0
    """32 bits on the wire, of which a LID uses 24."""
    trap_hl_qp: Annotated[int, _kept(32, "hop limit and queue pair of traps; not used, it is QP 1")] = 0
    trap_qkey: Annotated[int, _kept(32, "Q_Key of traps; not used")] = 0
    trap_pkey: Annotated[int, _kept(16, "P_Key of traps; not used, it is the port's management P_Key")] = 0
    redirect_pkey: Annotated[int, _kept(16, "redirection P_Key; not used")] = 0
    trap_sl_rsvd: Annotated[
        int,
        Field(8, "bits 3-7: service level of traps; bits 0-2 kept", HEX, parts=_TRAP_SL, access=READ_WRITE),
    ] = 0
    reserved_77: Annotated[bytes, reserved(3)] = bytes(3)

    @property
    def response_time(self) -> int:
        """The agent answers within 4.096 us * 2**this, 0-31."""
        return self.cap_mask2_resp_time & 0x1F

    @property
    def trap_sl(self) -> int:
        """Service level of traps, 0-31."""
        return self.trap_sl_rsvd >> 3


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
