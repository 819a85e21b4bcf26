"""The way of a management datagram into a 16B packet with L4 0x08, and out of it."""

from __future__ import annotations

from hfi_sim.base.errors import WireError
from hfi_sim.wire.icrc import Icrc
from hfi_sim.wire.l4 import L4, FmHeader
from hfi_sim.wire.lrh16b import Lrh16B
from hfi_sim.wire.mad.header import BASE_VERSION_IB, MAD_SIZE, MAD_SIZE_IB, MadHeader
from hfi_sim.wire.packet import build_packet


def build_fm_packet(
    slid: int, dlid: int, sc: int, pkey: int, src_qp: int, dest_qp: int, mad: bytes, icrc: Icrc
) -> bytes:
    """Return a whole 16B packet that carries `mad`: 32 bytes more than the MAD, and up to 7 of padding.

    A MAD of base version 0x80 travels as long as it is; one of base version 1 has at least 256 bytes.

    Args:    mad: 24 bytes, its header, to 2048 bytes; one of base version 1 is filled up with zeros.
    Raises:  ValueError: the MAD is shorter than its header or longer than 2048 bytes, or a value does not fit.
    Source:  ib_create_send_mad of Linux: "OPA MADs don't have to be the full 2048 bytes".
    """
    if len(mad) < MadHeader.SIZE:
        raise ValueError(f"MAD of {len(mad)} bytes is shorter than its header, {MadHeader.SIZE}")
    if len(mad) > MAD_SIZE:
        raise ValueError(f"MAD of {len(mad)} bytes is longer than the longest, {MAD_SIZE}")
    if mad[0] == BASE_VERSION_IB:
        mad = mad.ljust(MAD_SIZE_IB, b"\0")
    lrh = Lrh16B(slid, dlid, sc=sc, l4=L4.FM, pkey=pkey)
    return build_packet(lrh, FmHeader(dest_qp, src_qp).build() + mad, icrc)


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
