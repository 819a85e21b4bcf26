"""Whole 16B packets: padding, Length, ICRC and tail around a header and a payload; and the way back.

Layout: header 16 bytes, payload (with its L4 header), 0-7 pad bytes, ICRC 4 bytes little-endian, tail 1 byte.
The whole is a multiple of 8 bytes. The low six bits of the last byte are the number of pad bytes, the upper
two are LT, 01 for a tail flit. The Linux driver writes the pad count alone and leaves LT to the hardware, so
both are accepted.

Source: seed 000, packet table; spec of the Length field: the public driver's opa_vnic_wire_length().
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct
from typing import Annotated, Final, Self

from hfi_sim.base.counters import Drop
from hfi_sim.base.errors import WireError
from hfi_sim.wire.field import HEX, Field
from hfi_sim.wire.header import WireHeader, declared
from hfi_sim.wire.icrc import ICRC_SIZE, PAD_COUNT_MASK, TAIL_SIZE, TRAILER_SIZE, Icrc
from hfi_sim.wire.lrh16b import L2_9B, L2_16B, L4, LT_HEAD, EthernetL4, FmHeader, Lrh16B, with_length_qw
from hfi_sim.wire.lrh16b import SIZE as HEADER_SIZE
from hfi_sim.wire.packet_9b import check_9b

_TAIL_LT_TEXTS: Final = {
    0: "left to the hardware",
    1: "tail flit",
    2: "impossible: 01 is a tail flit",
    3: "impossible: 01 is a tail flit",
}


@declared("trailer", "trailer", "little", source="seed 000, the packet table, the last quad word")
@dataclass(frozen=True, slots=True)
class Trailer(WireHeader):
    """The five bytes behind the pad: bits 24 to 63 of the last quad word."""

    icrc: Annotated[int, Field(32, "checksum over what must not change on the way", HEX)]
    tail: Annotated[int, Field(6, "number of pad bytes, 0 to 7")]
    lt: Annotated[
        int, Field(2, "link transfer: 01 is a tail flit; a receiver also takes 00", codes=_TAIL_LT_TEXTS)
    ] = 1


QUAD_WORD: Final = 8
MIN_PACKET: Final = 24
"""Bytes of the shortest packet: header, three pad bytes, ICRC, tail."""
MAX_PACKET: Final = ((1 << Lrh16B.HEADER.fields["length_qw"].bits) - 1) * QUAD_WORD
"""Bytes of the longest packet that the 11 bits of Length can tell."""
MAX_PAYLOAD: Final = MAX_PACKET - HEADER_SIZE - TRAILER_SIZE
"""Bytes of the longest payload, its L4 header included."""

TAIL_LT: Final = 0x40
"""LT = 01, a tail flit, in the upper two bits of the last byte."""
_TAIL_FAULTS: Final = 0xB8
"""Bits of the last byte that are zero in every packet: pad counts above 7, and LT = 10 or 11."""

_L4_SIZES: Final[dict[int, int]] = {L4.ETHERNET: EthernetL4.SIZE, L4.FM: FmHeader.SIZE}
_ANY_PAD_FITS: Final = HEADER_SIZE + max(_L4_SIZES.values()) + 7 + TRAILER_SIZE
"""From this many bytes on, every pad count leaves room for every known L4 header."""

_L2_AND_LT: Final = LT_HEAD << 2 | L2_16B
_HEAD_OF_9B: Final = LT_HEAD << 2 | L2_9B
_QUAD_WORDS: Final = Struct("<QQ")
_ICRC: Final = Struct("<I")
_TRAILERS: Final[tuple[Callable[[int, int], bytes], ...]] = tuple(
    Struct(f"<{count}xIB").pack for count in range(QUAD_WORD)
)
_PADS: Final = tuple(bytes(count) for count in range(QUAD_WORD))

WireBytes = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class Packet16B:
    """A packet taken apart, with nothing lost: `build` gives the same bytes again."""

    lrh: Lrh16B
    payload: bytes
    """Everything between header and pad, the L4 header included."""
    pad: bytes
    """0-7 bytes; zero where this project built the packet, anything elsewhere."""
    icrc: int
    """As found, not checked."""
    tail: int
    """The whole last byte: pad count and LT."""

    @property
    def pad_count(self) -> int:
        """The number of pad bytes, 0-7."""
        return self.tail & PAD_COUNT_MASK

    @classmethod
    def parse(cls, data: WireBytes) -> Self:
        """Take `data`, exactly one packet, apart. The ICRC is not checked.

        Raises:  WireError: truncated, no 16B packet, Length or pad count that disagree with the bytes.
        """
        size = len(data)
        if size < MIN_PACKET:
            raise WireError("packet", size, f"{size} bytes, the shortest 16B packet has {MIN_PACKET}")
        lrh = Lrh16B.parse(data)
        if lrh.l2 != L2_16B:
            raise WireError("l2", 7, f"L2 is {lrh.l2}, a 16B packet has {L2_16B}")
        if lrh.lt != LT_HEAD:
            raise WireError("lt", 7, f"LT is {lrh.lt}, a head flit has {LT_HEAD}")
        if lrh.length_qw * QUAD_WORD != size:
            claimed = lrh.length_qw * QUAD_WORD
            reason = f"Length says {lrh.length_qw} quad words, {claimed} bytes, but there are {size}"
            raise WireError("length_qw", 2, reason)
        tail = data[-1]
        if tail & _TAIL_FAULTS:
            reason = f"last byte is {tail:#04x}, not a pad count 0-7 with LT 01 (0x40-0x47) or 00 (0x00-0x07)"
            raise WireError("tail", size - 1, reason)
        payload_end = size - TRAILER_SIZE - (tail & PAD_COUNT_MASK)
        needed = _L4_SIZES.get(lrh.l4, 0)
        if payload_end - HEADER_SIZE < needed:
            left = payload_end - HEADER_SIZE
            count = tail & PAD_COUNT_MASK
            reason = f"pad count {count} leaves {left} bytes of payload, L4 {lrh.l4:#04x} needs {needed}"
            raise WireError("tail", size - 1, reason)
        return cls(
            lrh=lrh,
            payload=bytes(data[HEADER_SIZE:payload_end]),
            pad=bytes(data[payload_end : size - TRAILER_SIZE]),
            icrc=int.from_bytes(data[-TRAILER_SIZE:-TAIL_SIZE], "little"),
            tail=tail,
        )

    def build(self) -> bytes:
        """Return the bytes of the packet with Length, pad, ICRC and tail exactly as they stand here.

        Raises:  ValueError: a header value does not fit its field.
        """
        trailer = self.icrc.to_bytes(ICRC_SIZE, "little") + bytes([self.tail])
        return self.lrh.build() + self.payload + self.pad + trailer


def pad_count(unpadded_len: int) -> int:
    """Return the number of pad bytes, 0-7, after `unpadded_len` bytes of header and payload."""
    return -(unpadded_len + TRAILER_SIZE) % QUAD_WORD


def wire_length_qw(unpadded_len: int) -> int:
    """Return the Length field, in 8-byte units, for `unpadded_len` bytes of header and payload.

    Source: the public driver's opa_vnic_wire_length().
    """
    return (unpadded_len + TRAILER_SIZE + QUAD_WORD - 1) // QUAD_WORD


def build_packet(lrh: Lrh16B, payload: WireBytes, icrc: Icrc) -> bytes:
    """Return a whole packet: `lrh` with its Length filled in, `payload`, zero pad, ICRC and tail.

    Args:    payload: everything after the 16B header, its L4 header included; 0 to 16355 bytes.
    Raises:  ValueError: a header value does not fit its field, or the payload is too long for Length.
    """
    if len(payload) > MAX_PAYLOAD:
        raise ValueError(
            f"payload of {len(payload)} bytes is longer than a 16B packet can carry, {MAX_PAYLOAD}"
        )
    return seal_packet(
        with_length_qw(lrh.build(), wire_length_qw(HEADER_SIZE + len(payload))) + payload, icrc
    )


def seal_packet(header_and_payload: bytes, icrc: Icrc) -> bytes:
    """Return `header_and_payload` with zero pad, ICRC and tail behind it.

    Args:    header_and_payload: at least 16 bytes; the header already holds the Length of the whole packet.
    """
    count = -(len(header_and_payload) + TRAILER_SIZE) & PAD_COUNT_MASK
    qw0, qw1 = _QUAD_WORDS.unpack_from(header_and_payload)
    value = icrc.compute_parts(qw0, qw1, header_and_payload[HEADER_SIZE:] + _PADS[count], count)
    return header_and_payload + _TRAILERS[count](value, TAIL_LT | count)


def strip(packet: bytes) -> bytes:
    """Return the payload of a packet that `check_packet` has passed: L4 header and on, without the pad."""
    return packet[HEADER_SIZE : len(packet) - TRAILER_SIZE - (packet[-1] & PAD_COUNT_MASK)]


def check_packet(packet: WireBytes, icrc: Icrc | None) -> Drop | None:
    """Return why a receiving port drops `packet`, 16B or 9B, or None where it is whole. Never raises.

    The first fault found counts; the order is truncated, L2 and LT, Length and pad count, ICRC.

    Args:    icrc: None where the port does not check ICRCs.
    """
    size = len(packet)
    if size < MIN_PACKET:
        return Drop.RX_TRUNCATED
    qw0, qw1 = _QUAD_WORDS.unpack_from(packet)
    if qw0 >> 61 != _L2_AND_LT:
        return check_9b(bytes(packet), icrc) if qw0 >> 61 == _HEAD_OF_9B else Drop.RX_L2
    tail = packet[-1]
    if (qw0 >> 20 & 0x7FF) * QUAD_WORD != size or tail & _TAIL_FAULTS:
        return Drop.RX_LENGTH
    count = tail & PAD_COUNT_MASK
    if size < _ANY_PAD_FITS:
        left = size - HEADER_SIZE - TRAILER_SIZE - count
        if left < _L4_SIZES.get(qw1 & 0xFF, 0):
            return Drop.RX_LENGTH
    if icrc is None:
        return None
    (found,) = _ICRC.unpack_from(packet, size - TRAILER_SIZE)
    if icrc.compute_parts(qw0, qw1, packet[HEADER_SIZE:-TRAILER_SIZE], count) != found:
        return Drop.RX_ICRC
    return None
