"""The headers of a 9B packet: LRH, BTH, DETH. Big-endian. `hfi_sim.wire.packet_9b` puts packets together.

Source: the InfiniBand architecture, chapters 7.7 (LRH), 9.2 (BTH), 9.3.2 (DETH), and what the public hfi1 driver makes
of them: a Length of 12 bits, FECN and BECN in the BTH; packets that it has sent, tests/vectors/hfi1-9b-1.jsonl.gz.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from hfi_sim.wire.field import FLAG, HEX, Code, Field
from hfi_sim.wire.header import WireHeader, declared
from hfi_sim.wire.l4 import QP_TEXTS


class Lnh(Code):
    """What follows the LRH; others are no packets of this fabric."""

    BTH = 2, "BTH"
    GRH = 3, "GRH, then BTH"


GRH_SIZE: Final = 40
"""Bytes of a global route header, that of IPv6."""
UD_SEND_ONLY: Final = 0x64
"""The opcode of every MAD."""


@declared("lrh9b", "9B header", "big", source="the InfiniBand architecture, 7.7")
@dataclass(frozen=True, slots=True)
class Lrh9B(WireHeader):
    """The local route header of a 9B packet."""

    sc: Annotated[int, Field(4, "service channel, its low four bits", may_change=True)] = 0
    lver: Annotated[int, Field(4, "link version")] = 0
    sl: Annotated[int, Field(4, "service level")] = 0
    reserved: Annotated[int, Field(2, "0; given on as received")] = 0
    lnh: Annotated[int, Field(2, "what follows: 2 BTH, 3 GRH and BTH", codes=Lnh)] = Lnh.BTH
    dlid: Annotated[int, Field(16, "destination LID; 0xC000 to 0xFFFE: a group", HEX)] = 0
    reserved2: Annotated[int, Field(4, "0; given on as received")] = 0
    length_dw: Annotated[int, Field(12, "whole packet in 4-byte units, from here to the ICRC")] = 0
    slid: Annotated[int, Field(16, "source LID", HEX)] = 0


@declared(
    "bth", "base transport header", "big", source="the InfiniBand architecture, 9.2; hfi1 for FECN and BECN"
)
@dataclass(frozen=True, slots=True)
class Bth(WireHeader):
    """The base transport header."""

    opcode: Annotated[int, Field(8, "service and operation; 0x64 is a datagram", HEX)] = UD_SEND_ONLY
    se: Annotated[bool, Field(1, "solicited event", FLAG)] = False
    migreq: Annotated[bool, Field(1, "migration state", FLAG)] = False
    pad_count: Annotated[int, Field(2, "pad bytes behind the payload")] = 0
    tver: Annotated[int, Field(4, "header version")] = 0
    pkey: Annotated[int, Field(16, "partition key; bit 15 says full member", HEX)] = 0xFFFF
    fecn: Annotated[bool, Field(1, "forward explicit congestion notification", FLAG, may_change=True)] = False
    becn: Annotated[bool, Field(1, "backward explicit congestion notification", FLAG, may_change=True)] = (
        False
    )
    reserved: Annotated[int, Field(6, "0; given on as received")] = 0
    dest_qp: Annotated[int, Field(24, "destination queue pair", HEX, QP_TEXTS)] = 0
    ack_req: Annotated[bool, Field(1, "an acknowledgement is requested", FLAG)] = False
    reserved2: Annotated[int, Field(7, "0; given on as received")] = 0
    psn: Annotated[int, Field(24, "packet sequence number", HEX)] = 0


@declared("deth", "datagram header", "big", source="the InfiniBand architecture, 9.3.2")
@dataclass(frozen=True, slots=True)
class Deth(WireHeader):
    """The extended header of datagrams, MADs among them."""

    qkey: Annotated[int, Field(32, "queue key", HEX)] = 0
    reserved: Annotated[int, Field(8, "0; given on as received", HEX)] = 0
    src_qp: Annotated[int, Field(24, "source queue pair", HEX, QP_TEXTS)] = 0
