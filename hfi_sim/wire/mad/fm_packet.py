"""The way of a management datagram into a packet with L4 0x08, and out of it."""

from __future__ import annotations

from hfi_sim.base.errors import WireError
from hfi_sim.wire.icrc import Icrc
from hfi_sim.wire.lrh16b import L4, FmHeader, Lrh16B, is_9b
from hfi_sim.wire.mad.header import BASE_VERSION_IB, MAD_SIZE, MAD_SIZE_IB, MadHeader
from hfi_sim.wire.packet import build_packet, strip
from hfi_sim.wire.packet_9b import build_mad_9b, mad_at, parse_mad_9b, short_lid


def build_fm_packet(
    slid: int, dlid: int, sc: int, pkey: int, src_qp: int, dest_qp: int, mad: bytes, icrc: Icrc
) -> bytes:
    """Return a whole 16B packet that carries `mad`: 32 bytes more than the MAD, and up to 7 of padding.

    A MAD of base version 0x80 travels as long as it is; one of base version 1 has at least 256 bytes.

    Args:    mad: 24 bytes, its header, to 2048 bytes; one of base version 1 is filled up with zeros.
    Raises:  ValueError: the MAD is shorter than its header or longer than 2048 bytes, or a value does not fit.
    Source:  ib_create_send_mad of Linux: "OPA MADs don't have to be the full 2048 bytes".
    """
    mad = _checked(mad)
    lrh = Lrh16B(slid, dlid, sc=sc, l4=L4.FM, pkey=pkey)
    return build_packet(lrh, FmHeader(dest_qp, src_qp).build() + mad, icrc)


def _checked(mad: bytes) -> bytes:
    """Return a MAD as long as it travels. Raises ValueError: it is too short or too long."""
    if len(mad) < MadHeader.SIZE:
        raise ValueError(f"MAD of {len(mad)} bytes is shorter than its header, {MadHeader.SIZE}")
    if len(mad) > MAD_SIZE:
        raise ValueError(f"MAD of {len(mad)} bytes is longer than the longest, {MAD_SIZE}")
    return mad.ljust(MAD_SIZE_IB, b"\0") if mad[0] == BASE_VERSION_IB else mad


def build_answer_packet(
    slid: int, dlid: int, sc: int, sl: int, pkey: int, qp: int, mad: bytes, icrc: Icrc, *, is_9b: bool
) -> bytes:
    """Return a packet that carries `mad` from a queue pair to that of the same number, in the form of its request.

    Args:    is_9b: the request came as 9B; where a LID has no 16 bits, the answer is 16B all the same.
    Raises:  ValueError: as `build_fm_packet`.
    """
    if is_9b and (source := short_lid(slid)) is not None and (destination := short_lid(dlid)) is not None:
        return build_mad_9b((source, destination), sc, sl, pkey, (qp, qp), _checked(mad), icrc)
    return build_fm_packet(slid, dlid, sc, pkey, qp, qp, mad, icrc)


def mad_start(packet: bytes) -> int:
    """Return where the MAD of a packet of L4 0x08 begins, 16B or 9B; behind its end, where it has none."""
    if len(packet) < Lrh16B.SIZE or not is_9b(packet):
        return Lrh16B.SIZE + FmHeader.SIZE
    at = mad_at(packet)
    return len(packet) if at is None else at


def parse_mad_packet(packet: bytes) -> tuple[FmHeader, bytes]:
    """Return the queue pairs of a packet that a port has received, 16B or 9B, as an FM header, and its MAD.

    Raises:  WireError: it holds no MAD.
    """
    return parse_fm_payload(parse_mad_9b(packet) if is_9b(packet) else strip(packet))


def parse_fm_payload(payload: bytes | bytearray | memoryview) -> tuple[FmHeader, bytes]:
    """Take the payload of an L4 0x08 packet, as `strip` returns it, apart into FM header and MAD.

    Raises:  WireError: shorter than an FM header and a MAD header together, or a MAD of more than 2048 bytes.
    """
    header = FmHeader.parse(payload)
    mad = bytes(payload[FmHeader.SIZE :])
    if len(mad) < MadHeader.SIZE:
        raise WireError(
            "mad_header",
            FmHeader.SIZE + len(mad),
            f"{len(mad)} bytes of MAD, its header needs {MadHeader.SIZE}",
        )
    if len(mad) > MAD_SIZE:
        raise WireError(
            "mad_header", len(mad), f"{len(mad)} bytes of MAD, a receiver has room for {MAD_SIZE}"
        )
    return header, mad
