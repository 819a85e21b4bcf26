"""Attributes of subnet management that are tables, those of congestion control among them. Big-endian."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from hfi_sim.wire.field import BYTES, HEX, Field
from hfi_sim.wire.header import WireHeader, declared

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


@declared("PartitionTable", "PartitionTable", "big", source=_SOURCE, names_itself=True)
@dataclass(frozen=True, slots=True)
class PartitionTable(WireHeader):
    """Attribute 0x0016, 64 bytes a block."""

    pkeys: Annotated[tuple[int, ...], Field(16, "P_Keys; 0: none", HEX, count=PKEYS_PER_BLOCK, access=_RW)]


@declared("SLtoSC", "SLtoSC", "big", source=_SOURCE, names_itself=True)
@dataclass(frozen=True, slots=True)
class SlToSc(WireHeader):
    """Attribute 0x0017, 32 bytes."""

    scs: Annotated[tuple[int, ...], Field(8, "service channel of each service level", count=32, access=_RW)]


@declared("SCtoSC", "SCtoSC", "big", source=_SOURCE, names_itself=True)
@dataclass(frozen=True, slots=True)
class ScToSc(WireHeader):
    """Attribute 0x0081 of a switch, 32 bytes for a pair of ports."""

    scs: Annotated[tuple[int, ...], Field(8, "service channel that each leaves on", count=32, access=_RW)]


@declared("SCtoSCMultiSet", "SCtoSCMultiSet", "big", source=_SOURCE, names_itself=True)
@dataclass(frozen=True, slots=True)
class ScToScMultiSet(WireHeader):
    """Attribute 0x0094 of a switch, set only, 96 bytes a block: one table for many pairs of ports."""

    ingress: Annotated[
        bytes, Field(256, "ports by which packets come in: bit n is port n", BYTES, access=_RW)
    ]
    egress: Annotated[bytes, Field(256, "ports by which they leave, likewise", BYTES, access=_RW)]
    scs: Annotated[tuple[int, ...], Field(8, "service channel that each leaves on", count=32, access=_RW)]


@declared("SCtoSL", "SCtoSL", "big", source=_SOURCE, names_itself=True)
@dataclass(frozen=True, slots=True)
class ScToSl(WireHeader):
    """Attribute 0x0082, 32 bytes."""

    sls: Annotated[tuple[int, ...], Field(8, "service level of each service channel", count=32, access=_RW)]


@declared("SCtoVL", "SCtoVLr, SCtoVLt, SCtoVLnt", "big", source=_SOURCE, names_itself=True)
@dataclass(frozen=True, slots=True)
class ScToVl(WireHeader):
    """Attributes 0x0083, 0x0084 and 0x0085, 32 bytes a port: to receive, to send, and as the neighbour sends."""

    vls: Annotated[tuple[int, ...], Field(8, "virtual lane of each service channel", count=32, access=_RW)]


@declared("VLArbEntry", "entry of VLArb", "big", source=_SOURCE, names_itself=True)
@dataclass(frozen=True, slots=True)
class VlArbEntry(WireHeader):
    """A turn of a VL."""

    reserved: Annotated[int, Field(3, "reserved")]
    vl: Annotated[int, Field(5, "virtual lane", access=_RW)]
    weight: Annotated[int, Field(8, "its weight; 0: no turn", access=_RW)]


@declared("VLArb", "VLArb", "big", source=_SOURCE, names_itself=True)
@dataclass(frozen=True, slots=True)
class VlArb(WireHeader):
    """Attribute 0x0018, 256 bytes a port and section: low, high, preempting; the fourth is a matrix of 32 words."""

    entries: Annotated[
        tuple[dict[str, int], ...], Field(16, "turns", count=128, record=VlArbEntry.HEADER, access=_RW)
    ]


@declared("LFT", "linear forwarding table", "big", source=_SOURCE, names_itself=True)
@dataclass(frozen=True, slots=True)
class LinearBlock(WireHeader):
    """Attribute 0x0019, 64 bytes a block."""

    ports: Annotated[
        tuple[int, ...], Field(8, "port to each LID; 255: none", count=LIDS_PER_BLOCK, access=_RW)
    ]


@declared("MFT", "multicast forwarding table", "big", source=_SOURCE, names_itself=True)
@dataclass(frozen=True, slots=True)
class MulticastBlock(WireHeader):
    """Attribute 0x001B, 64 bytes a block and position."""

    masks: Annotated[
        tuple[int, ...], Field(64, "ports of each group, 64 of them", HEX, count=GROUPS_PER_BLOCK, access=_RW)
    ]


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


@declared("LedInfo", "LedInfo", "big", source=_SOURCE, names_itself=True)
@dataclass(frozen=True, slots=True)
class LedInfo(WireHeader):
    """Attribute 0x0031, 8 bytes: the beacon of a port."""

    led_mask: Annotated[int, Field(32, "bit 31: the beacon is on", HEX, access=_RW)] = 0
    reserved: Annotated[int, Field(32, "reserved", HEX)] = 0


@declared("BufferControlVl", "buffer of a VL", "big", source=_SOURCE, names_itself=True)
@dataclass(frozen=True, slots=True)
class BufferControlVl(WireHeader):
    """Buffer of one VL at the neighbour."""

    dedicated: Annotated[int, Field(16, "its own, in units", access=_RW)]
    shared: Annotated[int, Field(16, "of the shared, in units", access=_RW)]


@declared("BufferControl", "BufferControl", "big", source=_SOURCE, names_itself=True)
@dataclass(frozen=True, slots=True)
class BufferControl(WireHeader):
    """Attribute 0x008A, 132 bytes a port; they follow each other after 136."""

    reserved: Annotated[int, Field(16, "reserved", HEX)]
    overall_shared: Annotated[int, Field(16, "shared by all VLs, in units", access=_RW)]
    vls: Annotated[
        tuple[dict[str, int], ...], Field(32, "each VL", count=32, record=BufferControlVl.HEADER, access=_RW)
    ]


CCT_BLOCK: Final = 64
"""Entries of a block of the HFI congestion control table."""
LOG_ENTRIES: Final = 96


@declared("CongestionInfo", "CongestionInfo", "big", source=_SOURCE, names_itself=True)
@dataclass(frozen=True, slots=True)
class CongestionInfo(WireHeader):
    """Attribute 0x008B, 4 bytes."""

    congestion_info: Annotated[int, Field(16, "bit 0: credit starvation", HEX)] = 0
    control_table_cap: Annotated[int, Field(8, "blocks of the congestion control table")] = 0
    log_length: Annotated[int, Field(8, "entries of the congestion log")] = LOG_ENTRIES


@declared("SwitchCongestionSetting", "switch congestion setting", "big", source=_SOURCE, names_itself=True)
@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchCongestionSetting(WireHeader):
    """Attribute 0x008D, 76 bytes."""

    control_map: Annotated[int, Field(32, "which of the following count", HEX, access=_RW)] = 0
    victim_mask: Annotated[bytes, Field(256, "ports", BYTES, access=_RW)] = bytes(32)
    credit_mask: Annotated[bytes, Field(256, "ports", BYTES, access=_RW)] = bytes(32)
    threshold: Annotated[int, Field(8, "bits 4-7: how early it marks", HEX, access=_RW)] = 0
    packet_size: Annotated[int, Field(8, "what is shorter is not marked, in 64 bytes", access=_RW)] = 0
    cs_threshold: Annotated[int, Field(8, "bits 4-7: of credit starvation", HEX, access=_RW)] = 0
    reserved: Annotated[int, Field(8, "reserved", HEX)] = 0
    cs_return_delay: Annotated[int, Field(16, "delay of credits", access=_RW)] = 0
    marking_rate: Annotated[int, Field(16, "packets between two marks", access=_RW)] = 0


@declared("HfiCongestionEntry", "HFI congestion setting of an SL", "big", source=_SOURCE, names_itself=True)
@dataclass(frozen=True, slots=True)
class HfiCongestionEntry(WireHeader):
    """How an HFI reacts to congestion on one service level."""

    ccti_increase: Annotated[int, Field(8, "steps for each mark", access=_RW)] = 0
    reserved: Annotated[int, Field(8, "reserved", HEX)] = 0
    ccti_timer: Annotated[int, Field(16, "time of a step back", access=_RW)] = 0
    trigger_threshold: Annotated[int, Field(8, "step that is logged", access=_RW)] = 0
    ccti_min: Annotated[int, Field(8, "the lowest step", access=_RW)] = 0


@declared("HfiCongestionSetting", "HFI congestion setting", "big", source=_SOURCE, names_itself=True)
@dataclass(frozen=True, slots=True)
class HfiCongestionSetting(WireHeader):
    """Attribute 0x0090, 198 bytes."""

    control_map: Annotated[int, Field(32, "service levels that it is for", HEX, access=_RW)]
    port_control: Annotated[int, Field(16, "bit 0: by service level", HEX, access=_RW)]
    entries: Annotated[
        tuple[dict[str, int], ...],
        Field(48, "each service level", count=32, record=HfiCongestionEntry.HEADER, access=_RW),
    ]


@declared("HfiCongestionControl", "HFI congestion control table", "big", source=_SOURCE, names_itself=True)
@dataclass(frozen=True, slots=True)
class HfiCongestionControl(WireHeader):
    """Attribute 0x0091, 130 bytes with one block; further blocks follow without a limit of their own."""

    ccti_limit: Annotated[int, Field(16, "the highest step", access=_RW)]
    entries: Annotated[tuple[int, ...], Field(16, "delay of each step", HEX, count=CCT_BLOCK, access=_RW)]
