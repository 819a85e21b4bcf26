"""Notices of subnet management, and what those say that an agent sends. Big-endian.

Source: stl_mad_types.h of opa-ff: STL_NOTICE; stl_sm_types.h: STL_TRAP_*.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from hfi_sim.wire.field import BYTES, FLAG, HEX, Code, Field
from hfi_sim.wire.header import WireHeader, declared

_SOURCE: Final = "stl_mad_types.h and stl_sm_types.h of opa-ff"
NOTICE_DATA: Final = 64
"""Bytes of what a notice says."""


class TrapNumber(Code):
    """What happened."""

    GID_IN_SERVICE = 64, "a port is in service"
    GID_OUT_OF_SERVICE = 65, "a port is out of service"
    GROUP_ADDED = 66, "there is a new multicast group"
    GROUP_DELETED = 67, "a multicast group is gone"
    LINK_STATE_CHANGE = 128, "a port of a switch has changed its state"
    LINK_INTEGRITY = 129, "too many errors on a link"
    BUFFER_OVERRUN = 130, "a buffer has overrun"
    FLOW_WATCHDOG = 131, "flow control has timed out"
    CAPABILITY_CHANGE = 144, "capabilities or the description have changed"
    SYSTEM_GUID_CHANGE = 145, "the system image GUID has changed"
    BAD_MKEY = 256, "wrong M_Key"
    BAD_PKEY = 257, "wrong P_Key"
    BAD_QKEY = 258, "wrong Q_Key"
    SWITCH_BAD_PKEY = 259, "wrong P_Key at a switch"
    LINK_WIDTH = 2048, "the width of a link has changed"


class NoticeType(Code):
    """How grave it is."""

    FATAL = 0, "fatal"
    URGENT = 1, "urgent"
    SECURITY = 2, "security"
    MANAGEMENT = 3, "subnet management"
    INFORMATIONAL = 4, "informational"


class Producer(Code):
    """Kind of node that issued the notice."""

    HFI = 1, "HFI"
    SWITCH = 2, "switch"
    ROUTER = 3, "router"
    CLASS_MANAGER = 4, "class manager"


@declared("SmNotice", "Notice of subnet management", "big", source=_SOURCE, names_itself=True)
@dataclass(frozen=True, slots=True, kw_only=True)
class SubnetNotice(WireHeader):
    """Attribute 0x0002, 96 bytes."""

    is_generic: Annotated[bool, Field(1, "of the architecture, not of a vendor", FLAG)] = True
    type: Annotated[int, Field(7, "how grave it is", codes=NoticeType)] = NoticeType.URGENT
    producer: Annotated[int, Field(24, "kind of the issuer", codes=Producer)] = Producer.HFI
    trap_number: Annotated[int, Field(16, "what happened", codes=TrapNumber)]
    toggle: Annotated[bool, Field(1, "changes with each notice", FLAG)] = False
    count: Annotated[int, Field(15, "notices that wait")] = 0
    issuer_lid: Annotated[int, Field(32, "LID of the port that speaks", HEX)]
    reserved: Annotated[int, Field(32, "reserved", HEX)] = 0
    issuer_gid: Annotated[bytes, Field(128, "its GID", BYTES)] = bytes(16)
    data: Annotated[bytes, Field(8 * NOTICE_DATA, "by the number", BYTES)] = bytes(NOTICE_DATA)


@declared("LinkStateNotice", "data of trap 128", "big", source=_SOURCE, names_itself=True)
@dataclass(frozen=True, slots=True)
class LinkStateData(WireHeader):
    """What trap 128 says."""

    lid: Annotated[int, Field(32, "LID of the switch", HEX)]


@declared("CapabilityNotice", "data of trap 144", "big", source=_SOURCE, names_itself=True)
@dataclass(frozen=True, slots=True, kw_only=True)
class CapabilityData(WireHeader):
    """What trap 144 says."""

    lid: Annotated[int, Field(32, "LID of the port", HEX)]
    capability_mask: Annotated[int, Field(32, "its capabilities now", HEX)] = 0
    reserved: Annotated[int, Field(16, "reserved", HEX)] = 0
    capability_mask3: Annotated[int, Field(16, "its capabilities now", HEX)] = 0
    reserved_changes: Annotated[int, Field(12, "reserved")] = 0
    downgrade_changed: Annotated[bool, Field(1, "the widths to fall back to", FLAG)] = False
    speed_changed: Annotated[bool, Field(1, "the speeds enabled", FLAG)] = False
    width_changed: Annotated[bool, Field(1, "the widths enabled", FLAG)] = False
    description_changed: Annotated[bool, Field(1, "the node description", FLAG)] = False


@declared("BadMkeyNotice", "data of trap 256", "big", source=_SOURCE, names_itself=True)
@dataclass(frozen=True, slots=True, kw_only=True)
class BadMkeyData(WireHeader):
    """What trap 256 says."""

    lid: Annotated[int, Field(32, "LID of the sender", HEX)]
    dr_slid: Annotated[int, Field(32, "source LID of the directed route", HEX)] = 0
    method: Annotated[int, Field(8, "of the SMP", HEX)] = 0
    dr_notice: Annotated[bool, Field(1, "it came by a directed route", FLAG)] = False
    dr_path_truncated: Annotated[bool, Field(1, "not the whole path is here", FLAG)] = False
    dr_hop_count: Annotated[int, Field(6, "hops of the path")] = 0
    attr_id: Annotated[int, Field(16, "of the SMP", HEX)] = 0
    attr_mod: Annotated[int, Field(32, "of the SMP", HEX)] = 0
    mkey: Annotated[int, Field(64, "the wrong key", HEX)] = 0
    dr_return_path: Annotated[bytes, Field(240, "the way back", BYTES)] = bytes(30)


@declared("BadPkeyNotice", "data of traps 257 and 258", "big", source=_SOURCE, names_itself=True)
@dataclass(frozen=True, slots=True, kw_only=True)
class BadKeyData(WireHeader):
    """What traps 257 and 258 say."""

    lid1: Annotated[int, Field(32, "LID of the sender", HEX)]
    lid2: Annotated[int, Field(32, "LID of the receiver", HEX)]
    key: Annotated[int, Field(32, "the wrong key", HEX)]
    sl: Annotated[int, Field(5, "service level")] = 0
    reserved: Annotated[int, Field(27, "reserved")] = 0
    gid1: Annotated[bytes, Field(128, "GID of the sender", BYTES)] = bytes(16)
    gid2: Annotated[bytes, Field(128, "GID of the receiver", BYTES)] = bytes(16)
    qp1: Annotated[int, Field(32, "queue pair of the sender")] = 0
    qp2: Annotated[int, Field(32, "queue pair of the receiver")] = 0
