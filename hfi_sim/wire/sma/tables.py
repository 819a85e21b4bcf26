"""Attributes of subnet management that are tables, those of congestion control among them. Big-endian."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final

from hfi_sim.wire.field import BYTES, HEX, Field
from hfi_sim.wire.header import Header, WireHeader, declared, layout

_SOURCE: Final = "stl_sm_types.h of opa-ff"
_RW: Final = "RW"

PKEYS_PER_BLOCK: Final = 32
LIDS_PER_BLOCK: Final = 64
"""Of a linear forwarding table."""
GROUPS_PER_BLOCK: Final = 8
"""Of a multicast forwarding table."""
PORTS_PER_POSITION: Final = 64
"""A multicast forwarding table has 4 positions, of 64 ports each."""
NO_PORT: Final = 0xFF
"""In a linear forwarding table: no route."""
BUFFER_CONTROL_BLOCK: Final = 136
"""Bytes from one BufferControl to the next."""
CABLE_INFO_SIZE: Final = 64
CCT_BLOCK: Final = 64
"""Entries of a block of the HFI congestion control table."""
LOG_ENTRIES: Final = 96


def _table(name: str, fields: Mapping[str, Field], title: str = "") -> Header:
    return layout(name, title or name, fields, module=__name__, source=_SOURCE)


def _of_channels(meaning: str) -> Field:
    return Field(8, meaning, count=32, access=_RW)


PARTITION_TABLE: Final = _table(
    "PartitionTable", {"pkeys": Field(16, "P_Keys; 0: none", HEX, count=PKEYS_PER_BLOCK, access=_RW)}
)
"""Attribute 0x0016, 64 bytes a block."""
SL_TO_SC: Final = _table("SLtoSC", {"scs": _of_channels("service channel of each service level")})
"""Attribute 0x0017, 32 bytes."""
SC_TO_SC: Final = _table("SCtoSC", {"scs": _of_channels("service channel that each leaves on")})
"""Attribute 0x0081 of a switch, 32 bytes for a pair of ports."""
SC_TO_SC_MULTISET: Final = _table(
    "SCtoSCMultiSet",
    {
        "ingress": Field(256, "ports by which packets come in: bit n is port n", BYTES, access=_RW),
        "egress": Field(256, "ports by which they leave, likewise", BYTES, access=_RW),
        "scs": _of_channels("service channel that each leaves on"),
    },
)
"""Attribute 0x0094 of a switch, set only, 96 bytes a block: one table for many pairs of ports."""
SC_TO_SL: Final = _table("SCtoSL", {"sls": _of_channels("service level of each service channel")})
"""Attribute 0x0082, 32 bytes."""
SC_TO_VL: Final = _table(
    "SCtoVL", {"vls": _of_channels("virtual lane of each service channel")}, "SCtoVLr, SCtoVLt, SCtoVLnt"
)
"""Attributes 0x0083, 0x0084 and 0x0085, 32 bytes a port: to receive, to send, and as the neighbour sends."""
_VL_ARB_ENTRY: Final = _table(
    "VLArbEntry",
    {
        "reserved": Field(3, "reserved"),
        "vl": Field(5, "virtual lane", access=_RW),
        "weight": Field(8, "its weight; 0: no turn", access=_RW),
    },
    "entry of VLArb",
)
VL_ARB: Final = _table("VLArb", {"entries": Field(16, "turns", count=128, record=_VL_ARB_ENTRY, access=_RW)})
"""Attribute 0x0018, 256 bytes a port and section: low, high, preempting; the fourth is a matrix of 32 words."""
LINEAR_BLOCK: Final = _table(
    "LFT",
    {"ports": Field(8, "port to each LID; 255: none", count=LIDS_PER_BLOCK, access=_RW)},
    "linear forwarding table",
)
"""Attribute 0x0019, 64 bytes a block."""
MULTICAST_BLOCK: Final = _table(
    "MFT",
    {"masks": Field(64, "ports of each group, 64 of them", HEX, count=GROUPS_PER_BLOCK, access=_RW)},
    "multicast forwarding table",
)
"""Attribute 0x001B, 64 bytes a block and position."""
LED_INFO: Final = _table(
    "LedInfo",
    {
        "led_mask": Field(32, "bit 31: the beacon is on", HEX, access=_RW),
        "reserved": Field(32, "reserved", HEX),
    },
)
"""Attribute 0x0031, 8 bytes: the beacon of a port."""
CONGESTION_INFO: Final = _table(
    "CongestionInfo",
    {
        "congestion_info": Field(16, "bit 0: credit starvation", HEX),
        "control_table_cap": Field(8, "blocks of the congestion control table"),
        "log_length": Field(8, "entries of the congestion log"),
    },
)
"""Attribute 0x008B, 4 bytes."""
SWITCH_CONGESTION_SETTING: Final = _table(
    "SwitchCongestionSetting",
    {
        "control_map": Field(32, "which of the following count", HEX, access=_RW),
        "victim_mask": Field(256, "ports", BYTES, access=_RW),
        "credit_mask": Field(256, "ports", BYTES, access=_RW),
        "threshold": Field(8, "bits 4-7: how early it marks", HEX, access=_RW),
        "packet_size": Field(8, "what is shorter is not marked, in 64 bytes", access=_RW),
        "cs_threshold": Field(8, "bits 4-7: of credit starvation", HEX, access=_RW),
        "reserved": Field(8, "reserved", HEX),
        "cs_return_delay": Field(16, "delay of credits", access=_RW),
        "marking_rate": Field(16, "packets between two marks", access=_RW),
    },
    "switch congestion setting",
)
"""Attribute 0x008D, 76 bytes."""
HFI_CONGESTION_CONTROL: Final = _table(
    "HfiCongestionControl",
    {
        "ccti_limit": Field(16, "the highest step", access=_RW),
        "entries": Field(16, "delay of each step", HEX, count=CCT_BLOCK, access=_RW),
    },
    "HFI congestion control table",
)
"""Attribute 0x0091, 130 bytes with one block; further blocks follow without a limit of their own."""
_BUFFER_CONTROL_VL: Final = _table(
    "BufferControlVl",
    {
        "dedicated": Field(16, "its own, in units", access=_RW),
        "shared": Field(16, "of the shared, in units", access=_RW),
    },
    "buffer of a VL",
)
_HFI_CONGESTION_ENTRY: Final = _table(
    "HfiCongestionEntry",
    {
        "ccti_increase": Field(8, "steps for each mark", access=_RW),
        "reserved": Field(8, "reserved", HEX),
        "ccti_timer": Field(16, "time of a step back", access=_RW),
        "trigger_threshold": Field(8, "step that is logged", access=_RW),
        "ccti_min": Field(8, "the lowest step", access=_RW),
    },
    "HFI congestion setting of an SL",
)


@declared("SMInfo", "SMInfo", "big", source=_SOURCE, names_itself=True)
@dataclass(frozen=True, slots=True, kw_only=True)
class SmInfo(WireHeader):
    """Attribute 0x0020, 26 bytes: a subnet manager speaks of itself."""

    port_guid: Annotated[int, Field(64, "GUID of its port", HEX)] = 0
    sm_key: Annotated[int, Field(64, "its key; shown to managers only", HEX)] = 0
    act_count: Annotated[int, Field(32, "grows with what it does")] = 0
    elapsed_time: Annotated[int, Field(32, "seconds that it has been master, or heard of one")] = 0
    priority: Annotated[int, Field(4, "priority now")] = 0
    elevated_priority: Annotated[int, Field(4, "priority once it is master")] = 0
    initial_priority: Annotated[int, Field(4, "priority at its start")] = 0
    state: Annotated[
        int,
        Field(
            4,
            "1: discovering, 2: standby, 3: master",
            codes={0: "not active", 1: "discovering", 2: "standby", 3: "master"},
        ),
    ] = 0


@declared("BufferControl", "BufferControl", "big", source=_SOURCE, names_itself=True)
@dataclass(frozen=True, slots=True)
class BufferControl(WireHeader):
    """Attribute 0x008A, 132 bytes a port; they follow each other after 136."""

    reserved: Annotated[int, Field(16, "reserved", HEX)]
    overall_shared: Annotated[int, Field(16, "shared by all VLs, in units", access=_RW)]
    vls: Annotated[
        tuple[dict[str, int], ...], Field(32, "each VL", count=32, record=_BUFFER_CONTROL_VL, access=_RW)
    ]


@declared("HfiCongestionSetting", "HFI congestion setting", "big", source=_SOURCE, names_itself=True)
@dataclass(frozen=True, slots=True)
class HfiCongestionSetting(WireHeader):
    """Attribute 0x0090, 198 bytes."""

    control_map: Annotated[int, Field(32, "service levels that it is for", HEX, access=_RW)]
    port_control: Annotated[int, Field(16, "bit 0: by service level", HEX, access=_RW)]
    entries: Annotated[
        tuple[dict[str, int], ...],
        Field(48, "each service level", count=32, record=_HFI_CONGESTION_ENTRY, access=_RW),
    ]
