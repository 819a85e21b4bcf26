"""What follows the 16B header: the Ethernet L4 header (little-endian), the FM header of MADs (big-endian).

Source: seed 000, quad word 2 of the packet table; for the FM header, the public hfi1 driver: two words,
destination and source queue pair, 24 bits of each used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from hfi_sim.wire.field import HEX, Code, Field
from hfi_sim.wire.header import WireHeader, declared


class L4(Code):
    """The L4 types of a 16B packet that have a name here; others stay plain ints."""

    FM = 0x08, "management: FM header and MAD"
    IB_LOCAL = 0x09, "InfiniBand, no global route header"
    IB_GLOBAL = 0x0A, "InfiniBand with global route header"
    ETHERNET = 0x78, "Ethernet of a virtual switch"
    EEPH = 0x79, "encapsulated Ethernet of another kind"
    VENDOR_RC = 0x7A, "this project's reliable connections"


QP_TEXTS: Final = {0: "the subnet manager's QP", 1: "the management QP"}
"""The queue pairs that have a name."""


@declared("ethernet_l4", "Ethernet L4 header", "little", source="seed 000, the packet table, quad word 2")
@dataclass(frozen=True, slots=True)
class EthernetL4(WireHeader):
    """The 4 bytes between the 16B header and the Ethernet frame."""

    vesw_id: Annotated[int, Field(16, "virtual Ethernet switch id, 12 bits used", at=16)]
    reserved: Annotated[int, Field(16, "0; given on as received", HEX)] = 0


@declared("fm_header", "FM header", "big", source="the public hfi1 driver: two words, 24 bits of each used")
@dataclass(frozen=True, slots=True)
class FmHeader(WireHeader):
    """The 8 bytes between the 16B header and a MAD."""

    dest_qp: Annotated[
        int,
        Field(24, "destination queue pair: 0 the subnet manager's, 1 everything else", codes=QP_TEXTS, at=8),
    ]
    src_qp: Annotated[int, Field(24, "source queue pair", codes=QP_TEXTS, at=40)]
    dest_reserved: Annotated[int, Field(8, "0; given on as received", HEX)] = 0
    src_reserved: Annotated[int, Field(8, "0; given on as received", HEX)] = 0
