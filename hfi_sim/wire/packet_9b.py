"""Whole 9B packets: as hfi1 hands them to its hardware, and as links and switches here carry them.

A 9B packet is an LRH, a GRH if the LRH says so, a BTH and what follows, and an ICRC of 4 bytes. Ports put a head in
front of it: 16 bytes with the fields of the 16B header in their places, L2 = 3. Switches and links read nothing but the
head, and need not know the two forms apart. The head says again what LRH and BTH say, LIDs with 24 bits; SC, FECN and
BECN stand in the head alone, as they change on the way, and the packet behind it has zeros there.

    head 16 | LRH 8 | GRH 40, where LNH is 3 | BTH 12 | ... | ICRC 4, little-endian

ICRC: nothing public says how the hardware computes it. Ours is that of 16B packets (`hfi_sim.wire.icrc`): the CRC-32 of
everything from the LRH on, with SC, FECN and BECN as ones. native/wire/src/nine.rs has the same in Rust.

Source: the InfiniBand architecture, chapters 7.7 (LRH), 9.2 (BTH), 9.3.2 (DETH), and what the public hfi1 driver makes
of them: a Length of 12 bits, FECN and BECN in the BTH; packets that it has sent, tests/vectors/hfi1-9b-1.jsonl.gz.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from hfi_sim.base.counters import Drop
from hfi_sim.base.errors import WireError
from hfi_sim.base.types import LID_MULTICAST_FIRST, LID_PERMISSIVE, is_multicast_lid
from hfi_sim.wire.field import FLAG, HEX, Code, Field
from hfi_sim.wire.header import WireHeader, declared
from hfi_sim.wire.icrc import ICRC_SIZE, Icrc
from hfi_sim.wire.lrh16b import L2_9B, L4, QP_TEXTS, FmHeader, Lrh16B, length_qw_of


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


HEAD_SIZE: Final = Lrh16B.SIZE
UNICAST_END: Final = 0xC000
"""LIDs of ports in 9B packets are below; from here on, they name groups."""
_PERMISSIVE: Final = 0xFFFF
_UNIT: Final = 4
_SHORTEST: Final = HEAD_SIZE + Lrh9B.SIZE + Bth.SIZE + ICRC_SIZE
_SC_SHIFT: Final = 4
_CHANGING: Final = int.from_bytes(Lrh16B.HEADER.variable_mask(), "little")
_LRH_CHANGING: Final = Lrh9B.HEADER.variable_mask()
_BTH_CHANGING: Final = Bth.HEADER.variable_mask()
_GSI_QKEY: Final = 0x80010000
_GENERAL, _SUBNET = 1, 0
"""Queue pairs of MADs."""


def wide_lid(lid: int) -> int:
    """Return the LID of 24 bits that one of 16 bits is. Source: hfi1, opa_get_lid and its inverse."""
    if lid == _PERMISSIVE:
        return LID_PERMISSIVE
    return lid if lid < UNICAST_END else LID_MULTICAST_FIRST + lid - UNICAST_END


def short_lid(lid: int) -> int | None:
    """Return the LID of 16 bits that a port or a group has in 9B packets; None: it has none."""
    if lid == LID_PERMISSIVE:
        return _PERMISSIVE
    if not is_multicast_lid(lid):
        return lid if lid < UNICAST_END else None
    short = lid - LID_MULTICAST_FIRST + UNICAST_END
    return short if short < _PERMISSIVE else None


def bth_at(data: bytes, start: int = 0) -> int | None:
    """Return where the BTH of a 9B packet stands that begins at `start`; None: there is none."""
    if len(data) < start + Lrh9B.SIZE:
        return None
    lnh = data[start + 1] & 3
    at = start + Lrh9B.SIZE + (GRH_SIZE if lnh == Lnh.GRH else 0)
    return at if lnh in (Lnh.BTH, Lnh.GRH) and len(data) >= at + Bth.SIZE + ICRC_SIZE else None


def _head_of(packet: bytes, bth: Bth) -> Lrh16B:
    """Return the head of a 9B packet."""
    lrh = Lrh9B.parse(packet)
    if bth.opcode == UD_SEND_ONLY and bth.dest_qp in (_SUBNET, _GENERAL):
        l4 = L4.FM
    else:
        l4 = L4.IB_GLOBAL if lrh.lnh == Lnh.GRH else L4.IB_LOCAL
    return Lrh16B(
        slid=wide_lid(lrh.slid),
        dlid=wide_lid(lrh.dlid),
        length_qw=(HEAD_SIZE + len(packet) + 7) // 8,
        becn=bth.becn,
        sc=lrh.sc,
        fecn=bth.fecn,
        l2=L2_9B,
        l4=l4,
        pkey=bth.pkey,
    )


def carry_9b(packet: bytes, icrc: Icrc | None) -> bytes:
    """Return a 9B packet as links carry it.

    Args:    packet: whole, with 4 bytes for its ICRC. icrc: computes that; None: it is there.
    Raises:  WireError: it has no BTH, or another length than its LRH says.
    """
    at = bth_at(packet)
    if at is None:
        raise WireError("lnh", 1, f"{len(packet)} bytes are no 9B packet: LRH, BTH and ICRC have 24")
    length = Lrh9B.parse(packet).length_dw * _UNIT
    if length != len(packet):
        raise WireError("length_dw", 4, f"Length says {length} bytes, but there are {len(packet)}")
    head = _head_of(packet, Bth.parse(packet[at:]))
    plain = bytearray(packet)
    plain[0] &= ~_LRH_CHANGING[0]
    plain[at + 4] &= ~_BTH_CHANGING[4]
    if icrc is not None:
        plain[-ICRC_SIZE:] = _icrc_of(plain, at, icrc).to_bytes(ICRC_SIZE, "little")
    return head.build() + bytes(plain)


def bare_9b(carried: bytes) -> bytes:
    """Return a packet of links as its receiver has it: LRH to ICRC, with the SC and the marks of its head."""
    packet = bytearray(carried[HEAD_SIZE:])
    at = bth_at(carried, HEAD_SIZE)
    if at is not None:
        head = Lrh16B.parse(carried)
        packet[0] |= (head.sc & 0xF) << _SC_SHIFT
        packet[at - HEAD_SIZE + 4] |= head.fecn << 7 | head.becn << 6
    return bytes(packet)


def check_9b(carried: bytes, icrc: Icrc | None) -> Drop | None:
    """Return why a receiving port drops a packet with L2 = 3, or None where it is whole. Never raises.

    The first fault found counts; the order is Length of the head, ICRC, Length of the LRH, what contradicts the head.

    Args:    icrc: None where the port does not check ICRCs.
    """
    length_qw = length_qw_of(carried)
    if len(carried) < _SHORTEST or length_qw != (len(carried) + 7) // 8:
        return Drop.RX_LENGTH
    at, packet = bth_at(carried, HEAD_SIZE), carried[HEAD_SIZE:]
    at = None if at is None else at - HEAD_SIZE
    found = int.from_bytes(packet[-ICRC_SIZE:], "little")
    if icrc is not None and (at is None or _icrc_of(packet, at, icrc) != found):
        return Drop.RX_ICRC
    if at is None or Lrh9B.parse(packet).length_dw * _UNIT != len(packet):
        return Drop.RX_LENGTH
    bth = Bth.parse(packet[at:])
    if at + Bth.SIZE + bth.pad_count + ICRC_SIZE > len(packet):
        return Drop.RX_LENGTH
    head, wanted = int.from_bytes(carried[:HEAD_SIZE], "little"), _head_of(packet, bth)
    differs = (head ^ int.from_bytes(wanted.build(), "little")) & ~_CHANGING
    return Drop.RX_L2 if differs or wanted.sc or bth.fecn or bth.becn else None


def _icrc_of(packet: bytes | bytearray, at: int, icrc: Icrc) -> int:
    """Return the ICRC of a 9B packet whose BTH stands at `at`."""
    masked = bytearray(packet[:-ICRC_SIZE])
    masked[0] |= _LRH_CHANGING[0]
    masked[at + 4] |= _BTH_CHANGING[4]
    return icrc.compute_9b(masked)


# --- MADs --------------------------------------------------------------------------------------------------------


def mad_at(carried: bytes) -> int | None:
    """Return where the MAD of a packet of L4 0x08 with L2 = 3 begins; None: nowhere."""
    at = bth_at(carried, HEAD_SIZE)
    return None if at is None else at + Bth.SIZE + Deth.SIZE


def parse_mad_9b(carried: bytes) -> bytes:
    """Take a MAD out of a packet that `check_9b` has passed; return its queue pairs as an FM header, the MAD behind it.

    Raises:  WireError: it ends inside its DETH.
    """
    at = bth_at(carried, HEAD_SIZE)
    if at is None or len(carried) < at + Bth.SIZE + Deth.SIZE + ICRC_SIZE:
        raise WireError("deth", len(carried), f"{len(carried)} bytes, without a whole DETH")
    bth = Bth.parse(carried[at:])
    at += Bth.SIZE
    deth = Deth.parse(carried[at:])
    mad = carried[at + Deth.SIZE : len(carried) - ICRC_SIZE - bth.pad_count]
    return FmHeader(bth.dest_qp, deth.src_qp).build() + mad


def build_mad_9b(
    lids: tuple[int, int], sc: int, sl: int, pkey: int, qps: tuple[int, int], mad: bytes, icrc: Icrc
) -> bytes:
    """Return a 9B packet with a MAD, as links carry it. Args: lids: of 16 bits, from and to; qps: from and to.

    Raises:  ValueError: a value does not fit.
    """
    pad = -len(mad) % _UNIT
    size = Lrh9B.SIZE + Bth.SIZE + Deth.SIZE + len(mad) + pad + ICRC_SIZE
    lrh = Lrh9B(sc=sc & 0xF, sl=sl & 0xF, dlid=lids[1], length_dw=size // _UNIT, slid=lids[0])
    bth = Bth(pad_count=pad, pkey=pkey, dest_qp=qps[1])
    deth = Deth(qkey=_GSI_QKEY if qps[1] else 0, src_qp=qps[0])
    packet = lrh.build() + bth.build() + deth.build() + mad + bytes(pad + ICRC_SIZE)
    return carry_9b(packet, icrc)
