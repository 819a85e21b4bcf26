"""Attributes of congestion control. Big-endian.

Source: stl_sm_types.h of opa-ff.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from hfi_sim.wire.field import BYTES, HEX, Field
from hfi_sim.wire.header import WireHeader, declared

_SOURCE: Final = "stl_sm_types.h of opa-ff"
_RW: Final = "RW"

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
