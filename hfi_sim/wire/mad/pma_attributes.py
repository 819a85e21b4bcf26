"""The attributes of performance management, class 0x04, version 0x80. Big-endian; data begin at byte 24 of the MAD.

An attribute of several ports or VLs is a head, and then as many blocks as its masks have bits, the lowest bit first:
each port's block is followed by those of its VLs.

Source: stl_pm.h and stl_pa_types.h of the public Omni-Path host software (opa-ff); mad.c of opa-hfi1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final

from hfi_sim.wire.field import BYTES, HEX, Code, Field
from hfi_sim.wire.header import Header, WireHeader, declared

CLASS_VERSION: Final = 0x80
FLIT: Final = 8
"""Bytes of a flit, in which counters of data count."""
PORTS: Final = 256
"""Bits of a port select mask."""
VLS: Final = 16
"""VLs that there can be: bits 0 to 15 of a VL select mask."""
_SOURCE: Final = "stl_pm.h of opa-ff"


class PmStatus(Code):
    """What only a performance management agent answers as the status of a MAD."""

    TOO_LARGE = 0x0100, "the response does not fit in a MAD"
    WRONG_NUMBER = 0x0200, "the attribute modifier has another number of ports than the mask"


# --- counters ----------------------------------------------------------------------------------------------------


def _count(meaning: str, bits: int = 64) -> Field:
    return Field(bits, meaning)


def _reserved(size: int) -> Field:
    return Field(8 * size, "0", BYTES)


DATA_COUNTERS: Final[Mapping[str, Field]] = {
    "xmit_data": _count("flits of 8 bytes sent"),
    "rcv_data": _count("flits of 8 bytes received"),
    "xmit_pkts": _count("packets sent"),
    "rcv_pkts": _count("packets received"),
    "multicast_xmit_pkts": _count("packets sent to groups"),
    "multicast_rcv_pkts": _count("packets received for groups"),
    "xmit_wait": _count("flit times in which a packet waited and nothing of its VL was sent"),
    "sw_congestion": _count("packets of a switch dropped because the queue was full"),
    "rcv_fecn": _count("packets received with FECN"),
    "rcv_becn": _count("packets received with BECN"),
    "xmit_time_cong": _count("always 0 here"),
    "xmit_wasted_bw": _count("always 0 here"),
    "xmit_wait_data": _count("always 0 here"),
    "rcv_bubble": _count("always 0 here"),
    "mark_fecn": _count("packets that a switch marked with FECN as it sent them"),
}
"""Counters of what a port carries, in the order of the attributes and of the counter select mask."""
ERROR_COUNTERS: Final[Mapping[str, Field]] = {
    "rcv_constraint_errors": _count("packets received with a P_Key that does not fit"),
    "rcv_switch_relay_errors": _count("packets that a switch received and had no way for"),
    "xmit_discards": _count("packets not sent: port or link down, queue full, longer than the MTU"),
    "xmit_constraint_errors": _count("packets not sent for their P_Key or SLID"),
    "rcv_remote_physical_errors": _count("always 0 here"),
    "local_link_integrity_errors": _count("packets damaged or lost on the wire on their way here"),
    "rcv_errors": _count("packets received that are malformed, damaged, or not for this port"),
    "excessive_buffer_overruns": _count("packets received for which the buffer had no room"),
    "fm_config_errors": _count("always 0 here"),
    "link_error_recovery": _count("always 0 here", 32),
    "link_downed": _count("how often the link went down", 32),
    "uncorrectable_errors": _count("always 0 here", 8),
}
"""Counters of errors, likewise."""
COUNTERS: Final = (*DATA_COUNTERS, *ERROR_COUNTERS)
COUNTER_BITS: Final[Mapping[str, int]] = {name: 1 << 31 - place for place, name in enumerate(COUNTERS)}
"""The bit of each counter in a counter select mask."""
VL_DATA_COUNTERS: Final = tuple(name for name in DATA_COUNTERS if not name.startswith("multicast"))
VL_COUNTERS: Final = (*VL_DATA_COUNTERS, "xmit_discards")
"""Counters that each VL has as well."""

_PORT_NUM: Final = Field(8, "number of the port")
_LQI: Final = "link quality: 5 excellent, 4 very good, 3 good, 2 poor, 1 bad, 0 down"
_PORT_MASK: Final = Field(256, "ports: bit n is port n", BYTES)
_VL_MASK: Final = Field(32, "VLs: bit n is VL n", HEX)


def _header(name: str, fields: Mapping[str, Field]) -> Header:
    return Header(name, name, "big", fields, module=__name__, source=_SOURCE)


PORT_STATUS: Final = _header(
    "PortStatus",
    {
        "port_num": _PORT_NUM,
        "reserved_1": _reserved(3),
        "vl_mask": _VL_MASK,
        **DATA_COUNTERS,
        **ERROR_COUNTERS,
        "link_quality": Field(8, _LQI),
        "reserved_210": _reserved(6),
    },
)
PORT_STATUS_VL: Final = _header("PortStatusVl", {name: _count("of this VL") for name in VL_COUNTERS})
DATA_PORT: Final = _header(
    "DataPortCountersPort",
    {
        "port_num": _PORT_NUM,
        "reserved_1": _reserved(3),
        "link_quality": Field(32, _LQI),
        **DATA_COUNTERS,
        "error_summary": _count("sum of all error counters, some of them shifted by the resolutions"),
    },
)
DATA_PORT_VL: Final = _header("DataPortCountersVl", {name: _count("of this VL") for name in VL_DATA_COUNTERS})
ERROR_PORT: Final = _header(
    "ErrorPortCountersPort",
    {"port_num": _PORT_NUM, "reserved_1": _reserved(7), **ERROR_COUNTERS, "reserved_89": _reserved(7)},
)
ERROR_PORT_VL: Final = _header("ErrorPortCountersVl", {"xmit_discards": _count("of this VL")})


# --- requests ----------------------------------------------------------------------------------------------------


@declared("pm_port_status_request", "PortStatus request", "big", source=_SOURCE)
@dataclass(frozen=True, slots=True, kw_only=True)
class PortStatusRequest(WireHeader):
    """Get(PortStatus): one port."""

    port_num: Annotated[int, _PORT_NUM]
    reserved_1: Annotated[bytes, _reserved(3)] = bytes(3)
    vl_mask: Annotated[int, _VL_MASK] = 0


@declared("pm_clear_port_status", "ClearPortStatus", "big", source=_SOURCE)
@dataclass(frozen=True, slots=True, kw_only=True)
class ClearPortStatus(WireHeader):
    """Set(ClearPortStatus): several ports, some of their counters."""

    port_mask: Annotated[bytes, _PORT_MASK]
    counter_mask: Annotated[int, Field(32, "counters: bit 31 is xmit_data, the others follow downwards", HEX)]


@declared("pm_port_counters_request", "DataPortCounters request", "big", source=_SOURCE)
@dataclass(frozen=True, slots=True, kw_only=True)
class PortCountersRequest(WireHeader):
    """Get(DataPortCounters) and Get(ErrorPortCounters), and the head of their responses."""

    port_mask: Annotated[bytes, _PORT_MASK]
    vl_mask: Annotated[int, _VL_MASK] = 0
    reserved_36: Annotated[bytes, _reserved(3)] = bytes(3)
    resolutions: Annotated[
        int,
        Field(
            8,
            "how far two errors are shifted down in the sum; DataPortCounters only",
            HEX,
            parts={
                "local_link_integrity": (0xF0, "bits, less 8"),
                "link_error_recovery": (0x0F, "bits, less 2"),
            },
        ),
    ] = 0


@declared("pm_error_info_request", "ErrorInfo request", "big", source=_SOURCE)
@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorInfoRequest(WireHeader):
    """Get(ErrorInfo) and Set(ErrorInfo), which clears, and the head of the response."""

    port_mask: Annotated[bytes, _PORT_MASK]
    info_mask: Annotated[int, Field(32, "bits 31 to 25: in the order of the block", HEX)] = 0
    reserved_36: Annotated[bytes, _reserved(4)] = bytes(4)


# --- the first packet of each kind of error ----------------------------------------------------------------------

HAPPENED: Final = 0x80
"""The status bit of each part of ErrorInfo."""


class RcvErrorCode(Code):
    """Codes of PortRcvErrorInfo that occur here."""

    BAD_LENGTH = 1, "Length does not match the size"
    TOO_SHORT = 3, "too short"
    BAD_DLID = 5, "not for this port"
    BAD_L2 = 6, "no 16B packet"


PKEY_VIOLATION: Final = 1
"""Code of PortRcvConstraintErrorInfo: the P_Key does not fit."""
BAD_DLID_RANGE: Final = 0
"""Code of PortRcvSwitchRelayErrorInfo: no way for the DLID."""
BAD_SC2SC: Final = 3
"""Code of PortRcvSwitchRelayErrorInfo: no service channel to leave on."""

_CONSTRAINT_PARTS: Final = {"happened": (HAPPENED, ""), "code": (0x0F, "1: the P_Key does not fit")}


@declared("pm_error_info", "ErrorInfo", "big", source=_SOURCE)
@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorInfoPort(WireHeader):
    """One port: of each kind of error the first packet since it was cleared."""

    port_num: Annotated[int, _PORT_NUM]
    reserved_1: Annotated[bytes, _reserved(7)] = bytes(7)
    rcv_status: Annotated[
        int,
        Field(
            8,
            "PortRcvErrorInfo",
            HEX,
            parts={"happened": (HAPPENED, ""), "code": (0x0F, "1 Length, 3 too short, 5 DLID, 6 L2")},
        ),
    ] = 0
    rcv_flit_1: Annotated[bytes, Field(64, "the packet's first 8 bytes", BYTES)] = bytes(8)
    rcv_flit_2: Annotated[bytes, Field(64, "the packet's next 8 bytes", BYTES)] = bytes(8)
    rcv_flit_bits: Annotated[int, Field(8, "bits 64 of both flits; 0 here", HEX)] = 0
    reserved_26: Annotated[bytes, _reserved(6)] = bytes(6)
    overrun_status: Annotated[
        int,
        Field(
            8,
            "ExcessiveBufferOverrunInfo",
            HEX,
            parts={"happened": (HAPPENED, ""), "sc": (0x7C, "the packet's service channel")},
        ),
    ] = 0
    reserved_33: Annotated[bytes, _reserved(7)] = bytes(7)
    xmit_constraint_status: Annotated[
        int, Field(8, "PortXmitConstraintErrorInfo", HEX, parts={"happened": (HAPPENED, "")})
    ] = 0
    reserved_41: Annotated[bytes, _reserved(1)] = bytes(1)
    xmit_constraint_pkey: Annotated[int, Field(16, "the packet's P_Key", HEX)] = 0
    xmit_constraint_slid: Annotated[int, Field(32, "the packet's SLID", HEX)] = 0
    rcv_constraint_status: Annotated[
        int, Field(8, "PortRcvConstraintErrorInfo", HEX, parts=_CONSTRAINT_PARTS)
    ] = 0
    reserved_49: Annotated[bytes, _reserved(1)] = bytes(1)
    rcv_constraint_pkey: Annotated[int, Field(16, "the packet's P_Key", HEX)] = 0
    rcv_constraint_slid: Annotated[int, Field(32, "the packet's SLID", HEX)] = 0
    relay_status: Annotated[
        int,
        Field(
            8,
            "PortRcvSwitchRelayErrorInfo",
            HEX,
            parts={
                "happened": (HAPPENED, ""),
                "rc": (0x70, "the packet's routing control"),
                "code": (0x0F, "0: no way for the DLID"),
            },
        ),
    ] = 0
    relay_slid: Annotated[int, Field(24, "the packet's SLID", HEX)] = 0
    relay_sc: Annotated[int, Field(8, "the packet's service channel")] = 0
    relay_dlid: Annotated[int, Field(24, "the packet's DLID", HEX)] = 0
    uncorrectable_status: Annotated[int, Field(8, "UncorrectableErrorInfo; 0 here", HEX)] = 0
    reserved_65: Annotated[bytes, _reserved(1)] = bytes(1)
    fm_config_status: Annotated[int, Field(8, "FMConfigErrorInfo; 0 here", HEX)] = 0
    fm_config_info: Annotated[int, Field(8, "0 here", HEX)] = 0
    reserved_68: Annotated[bytes, _reserved(4)] = bytes(4)


class ErrorInfoBit(Code):
    """Bits of the mask of ErrorInfo, for kinds of errors that occur here."""

    RCV = 1 << 31, "PortRcvErrorInfo"
    OVERRUN = 1 << 30, "ExcessiveBufferOverrunInfo"
    XMIT_CONSTRAINT = 1 << 29, "PortXmitConstraintErrorInfo"
    RCV_CONSTRAINT = 1 << 28, "PortRcvConstraintErrorInfo"
    RELAY = 1 << 27, "PortRcvSwitchRelayErrorInfo"
