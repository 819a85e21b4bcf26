"""The management datagram: its headers, and its way into a 16B packet with L4 0x08. Big-endian.

Source: the InfiniBand architecture's MAD header; the public Linux header opa_smi.h for base version 0x80 and
its 2048 bytes.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, Final, Self

import construct

from hfi_sim.errors import WireError
from hfi_sim.wire.icrc import Icrc
from hfi_sim.wire.l4 import L4, FmHeader
from hfi_sim.wire.lrh16b import Lrh16B
from hfi_sim.wire.packet import build_packet

BASE_VERSION_IB: Final = 1
BASE_VERSION_OPA: Final = 0x80
MAD_SIZE: Final = 2048
"""Bytes of a MAD of base version 0x80."""
MAD_SIZE_IB: Final = 256
"""Bytes of a MAD of base version 1."""

OUI_OFFSET: Final = 37
"""Where the OUI of a vendor-class MAD stands."""
DATA_OFFSET_VENDOR: Final = 40
"""Where the data of a vendor-class MAD with RMPP header and OUI starts."""


class MadClass(IntEnum):
    """Management classes that have a name here; others stay plain ints."""

    SUBN_LID = 0x01
    """Subnet management, LID routed."""
    SUBN_ADM = 0x03
    """Subnet administration."""
    PERFORMANCE = 0x04
    """Performance management."""
    EMA = 0x34
    """Ethernet management agent of a VNIC (vendor class with OUI 00066a)."""
    SUBN_DIRECTED = 0x81
    """Subnet management, directed route."""


class Method(IntEnum):
    """Methods of a MAD; bit 7 marks a response."""

    GET = 0x01
    SET = 0x02
    SEND = 0x03
    TRAP = 0x05
    REPORT = 0x06
    TRAP_REPRESS = 0x07
    GET_TABLE = 0x12
    DELETE = 0x15
    GET_RESP = 0x81
    REPORT_RESP = 0x86
    GET_TABLE_RESP = 0x92
    DELETE_RESP = 0x95


RESPONSE_BIT: Final = 0x80
"""The bit of the method that marks a response."""

LAYOUT: Final = construct.Struct(
    "base_version" / construct.Int8ub * "0x80: 2048 bytes; 1: 256 bytes",
    "mgmt_class" / construct.Int8ub * "management class: 0x34 is the Ethernet management agent",
    "class_version" / construct.Int8ub * "version of the class",
    "method" / construct.Int8ub * "what is asked for; bit 7 marks a response",
    "status" / construct.Int16ub * "0 in a response: it was done",
    "class_specific" / construct.Int16ub * "hop pointer and count in directed routes, else 0",
    "tid" / construct.Int64ub * "transaction id: a response repeats it",
    "attr_id" / construct.Int16ub * "which attribute",
    "reserved" / construct.Int16ub * "0; given back as received",
    "attr_mod" / construct.Int32ub * "attribute modifier: which instance",
)
"""The common header of every MAD."""

RMPP_LAYOUT: Final = construct.Struct(
    "version" / construct.Int8ub * "0: not in use",
    "type" / construct.Int8ub * "0: not in use",
    "rtime_flags" / construct.Int8ub * "response time (5 bits) and flags (3 bits)",
    "rmpp_status" / construct.Int8ub * "0: normal",
    "segment" / construct.Int32ub * "segment number",
    "length" / construct.Int32ub * "payload length, or new window",
)
"""The RMPP header, bytes 24 to 35; all zero in the MADs of this project."""

VENDOR_LAYOUT: Final = construct.Struct(
    "vendor_reserved" / construct.Int8ub * "0; given back as received",
    "oui" / construct.Bytes(3) * "whose class it is: 00066a",
)
"""The vendor header, bytes 36 to 39."""

_HEADER: Final = struct.Struct(">BBBBHHQHHI")
_WIDTHS: Final[dict[str, int]] = {
    "base_version": 8,
    "mgmt_class": 8,
    "class_version": 8,
    "method": 8,
    "status": 16,
    "class_specific": 16,
    "tid": 64,
    "attr_id": 16,
    "reserved": 16,
    "attr_mod": 32,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MadHeader:
    """The first 24 bytes of a MAD."""

    SIZE: ClassVar[int] = 24

    base_version: int = BASE_VERSION_OPA
    mgmt_class: int
    class_version: int = 0x80
    method: int
    status: int = 0
    """16 bits; 0 is success."""
    class_specific: int = 0
    """16 bits."""
    tid: int
    """Transaction id, 64 bits."""
    attr_id: int
    """16 bits."""
    reserved: int = 0
    """The 16 bits after attr_id."""
    attr_mod: int = 0
    """32 bits."""

    @classmethod
    def parse(cls, data: bytes | bytearray | memoryview) -> Self:
        """Read the header at the start of `data`.

        Raises:  WireError: fewer than 24 bytes. No value of the fields is refused.
        """
        if len(data) < cls.SIZE:
            raise WireError("mad_header", len(data), f"{len(data)} bytes, the MAD header needs {cls.SIZE}")
        values = _HEADER.unpack_from(data)
        return cls(**dict(zip(_WIDTHS, values, strict=True)))

    def build(self) -> bytes:
        """Return the 24 bytes.

        Raises:  ValueError: a value does not fit its field.
        """
        values = [getattr(self, name) for name in _WIDTHS]
        for (name, width), value in zip(_WIDTHS.items(), values, strict=True):
            if not 0 <= value < 1 << width:
                raise ValueError(f"{name} {value:#x} does not fit {width} bits")
        return _HEADER.pack(*values)


def mad_size(base_version: int) -> int:
    """Return how many bytes a MAD of this base version has on the wire."""
    return MAD_SIZE_IB if base_version == BASE_VERSION_IB else MAD_SIZE


def is_vendor_class(mgmt_class: int) -> bool:
    """Return whether MADs of the class carry an RMPP header and an OUI: the vendor classes 0x30 to 0x4F."""
    return 0x30 <= mgmt_class <= 0x4F


def oui_of(mad: bytes | bytearray | memoryview) -> bytes:
    """Return the OUI of a vendor-class MAD, 3 bytes.

    Raises:  WireError: the MAD ends before it.
    """
    if len(mad) < DATA_OFFSET_VENDOR:
        raise WireError("oui", len(mad), f"{len(mad)} bytes, a vendor-class MAD needs {DATA_OFFSET_VENDOR}")
    return bytes(mad[OUI_OFFSET:DATA_OFFSET_VENDOR])


def build_fm_packet(
    slid: int, dlid: int, sc: int, pkey: int, src_qp: int, dest_qp: int, mad: bytes, icrc: Icrc
) -> bytes:
    """Return a whole 16B packet that carries `mad`: 2080 bytes, or 288 for base version 1.

    Args:    mad: at least its header; the rest up to the full size of its base version is filled with zeros.
    Raises:  ValueError: the MAD is shorter than its header or longer than its size, or a value does not fit.
    """
    if len(mad) < MadHeader.SIZE:
        raise ValueError(f"MAD of {len(mad)} bytes is shorter than its header, {MadHeader.SIZE}")
    size = mad_size(mad[0])
    if len(mad) > size:
        raise ValueError(f"MAD of {len(mad)} bytes is longer than base version {mad[0]:#04x} allows, {size}")
    lrh = Lrh16B(slid, dlid, sc=sc, l4=L4.FM, pkey=pkey)
    payload = FmHeader(dest_qp, src_qp).build() + mad.ljust(size, b"\0")
    return build_packet(lrh, payload, icrc)


def parse_fm_payload(payload: bytes | bytearray | memoryview) -> tuple[FmHeader, bytes]:
    """Take the payload of an L4 0x08 packet, as `strip` returns it, apart into FM header and MAD.

    Raises:  WireError: shorter than an FM header and a MAD header together.
    """
    header = FmHeader.parse(payload)
    mad = bytes(payload[FmHeader.SIZE :])
    if len(mad) < MadHeader.SIZE:
        raise WireError(
            "mad_header",
            FmHeader.SIZE + len(mad),
            f"{len(mad)} bytes of MAD, its header needs {MadHeader.SIZE}",
        )
    return header, mad
