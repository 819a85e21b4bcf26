"""The LNet ping: a GET on the reserved portal, which a node answers with its NIDs. A push is a PUT of the same.

    offset size  lnet_ping_info           then for each NID 16 bytes, the first of them 0@lo
    0      4     magic 0x70696e67         0   8  nid
    4      4     features                 8   4  status: 0x15aac0de up, 0xdeadface down; 0@lo: a sequence number
    8      4     pid                      12  4  unused
    12     4     nnis
In the byte order of the sender, which the receiver recognizes by the magic; little-endian here. A node without
LNET_PING_FEAT_NI_STATUS sends no status: its interfaces are up. NIDs of more than 4 bytes come last and are not read.
Source: the public struct lnet_ping_info and lnet_ni_status, LNET_PING_FEAT_*, LNET_PING_BUFFER_SEQNO.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, Self

from lnet.base.errors import ProtocolError
from lnet.base.nid import NetType, Nid
from lnet.wire.lnet_hdr import LNET_PID_LUSTRE

RESERVED_PORTAL: Final = 0
PING_MATCH_BITS: Final = 0x8000_0000_0000_0000
PING_MAGIC: Final = 0x70696E67
FEATURE_BASE: Final = 1 << 0
FEATURE_NI_STATUS: Final = 1 << 1
FEATURE_MULTI_RAIL: Final = 1 << 3
FEATURE_DISCOVERY: Final = 1 << 4
STATUS_UP: Final = 0x15AAC0DE
STATUS_DOWN: Final = 0xDEADFACE
MAX_NIDS: Final = 64
MAX_REPLY: Final = 16 + 16 * MAX_NIDS
LO_NID: Final = NetType.LO << 48
"""0@lo in its 64-bit form."""

_HEAD: Final = {order: struct.Struct(f"{order}IIII") for order in "<>"}
_ENTRY: Final = {order: struct.Struct(f"{order}QIxxxx") for order in "<>"}
_HEAD_SIZE: Final = _HEAD["<"].size
_ENTRY_SIZE: Final = _ENTRY["<"].size


@dataclass(frozen=True, slots=True)
class PingInfo:
    """What a node tells of itself."""

    nids: tuple[tuple[Nid, bool], ...]
    """Its NIDs without 0@lo, the primary one first, on networks of any type, and whether each is up."""
    features: int = FEATURE_BASE | FEATURE_NI_STATUS
    sequence: int = 0
    """Number of its configuration, 32 bits; higher after each change."""

    @property
    def multi_rail(self) -> bool:
        """Whether the node takes and sends messages of one peer over several NIDs."""
        return bool(self.features & FEATURE_MULTI_RAIL)

    def build(self, order: str = "<") -> bytes:
        """Return the bytes, in little-endian (`<`) or big-endian (`>`) order: 32, and 16 for each NID."""
        pack = _ENTRY[order].pack
        entries = [pack(LO_NID, self.sequence)]
        entries += [pack(nid.wire, STATUS_UP if up else STATUS_DOWN) for nid, up in self.nids]
        return _HEAD[order].pack(PING_MAGIC, self.features, LNET_PID_LUSTRE, len(entries)) + b"".join(entries)

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read the bytes, in either byte order.

        Raises:  ProtocolError: truncated, wrong magic, or more than MAX_NIDS NIDs.
        """
        if len(data) < _HEAD_SIZE:
            raise ProtocolError(f"ping answer of {len(data)} bytes; {_HEAD_SIZE} are needed")
        order = _order_of(data)
        _, features, _, count = _HEAD[order].unpack_from(data)
        if count > MAX_NIDS:
            raise ProtocolError(f"ping answer with {count} NIDs; {MAX_NIDS} are allowed")
        if len(data) < _HEAD_SIZE + count * _ENTRY_SIZE:
            raise ProtocolError(f"ping answer with {count} NIDs does not fit in {len(data)} bytes")
        nids, sequence = [], 0
        for value, status in _ENTRY[order].iter_unpack(data[_HEAD_SIZE : _HEAD_SIZE + count * _ENTRY_SIZE]):
            if value >> 48 == NetType.LO:
                sequence = status
            else:
                up = status == STATUS_UP or not features & FEATURE_NI_STATUS
                nids.append((Nid.from_wire(value), up))
        return cls(tuple(nids), features, sequence)


def _order_of(data: bytes) -> str:
    for order, head in _HEAD.items():
        if head.unpack_from(data)[0] == PING_MAGIC:
            return order
    raise ProtocolError(
        f"ping answer with magic {data[:4].hex()}, not {PING_MAGIC:#010x} in either byte order"
    )
