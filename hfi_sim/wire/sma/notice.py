"""Notices of subnet management, and what those say that an agent sends. Big-endian.

Source: stl_mad_types.h of opa-ff: STL_NOTICE; stl_sm_types.h: STL_TRAP_*.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final

from hfi_sim.wire.field import BYTES, FLAG, HEX, Code, Field
from hfi_sim.wire.header import Header, WireHeader, declared, layout

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


def _data(name: str, trap: str, fields: Mapping[str, Field]) -> Header:
    return layout(name, f"data of {trap}", fields, module=__name__, source=_SOURCE)


LINK_STATE: Final = _data("LinkStateNotice", "trap 128", {"lid": Field(32, "LID of the switch", HEX)})
CAPABILITIES: Final = _data(
    "CapabilityNotice",
    "trap 144",
    {
        "lid": Field(32, "LID of the port", HEX),
        "capability_mask": Field(32, "its capabilities now", HEX),
        "reserved": Field(16, "reserved", HEX),
        "capability_mask3": Field(16, "its capabilities now", HEX),
        "reserved_changes": Field(12, "reserved"),
        "downgrade_changed": Field(1, "the widths to fall back to", FLAG),
        "speed_changed": Field(1, "the speeds enabled", FLAG),
        "width_changed": Field(1, "the widths enabled", FLAG),
        "description_changed": Field(1, "the node description", FLAG),
    },
)
BAD_MKEY: Final = _data(
    "BadMkeyNotice",
    "trap 256",
    {
        "lid": Field(32, "LID of the sender", HEX),
        "dr_slid": Field(32, "source LID of the directed route", HEX),
        "method": Field(8, "of the SMP", HEX),
        "dr_notice": Field(1, "it came by a directed route", FLAG),
        "dr_path_truncated": Field(1, "not the whole path is here", FLAG),
        "dr_hop_count": Field(6, "hops of the path"),
        "attr_id": Field(16, "of the SMP", HEX),
        "attr_mod": Field(32, "of the SMP", HEX),
        "mkey": Field(64, "the wrong key", HEX),
        "dr_return_path": Field(240, "the way back", BYTES),
    },
)
BAD_KEY: Final = _data(
    "BadPkeyNotice",
    "traps 257 and 258",
    {
        "lid1": Field(32, "LID of the sender", HEX),
        "lid2": Field(32, "LID of the receiver", HEX),
        "key": Field(32, "the wrong key", HEX),
        "sl": Field(5, "service level"),
        "reserved": Field(27, "reserved"),
        "gid1": Field(128, "GID of the sender", BYTES),
        "gid2": Field(128, "GID of the receiver", BYTES),
        "qp1": Field(32, "queue pair of the sender"),
        "qp2": Field(32, "queue pair of the receiver"),
    },
)
