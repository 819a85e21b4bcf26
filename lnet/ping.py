"""The LNet ping: a GET on the reserved portal, which a node answers with its NIDs. Little-endian.

    offset size  lnet_ping_info           then for each NID 16 bytes
    0      4     magic 0x70696e67         0   8  nid
    4      4     features                 8   4  status: 0x15aac0de up, 0xdeadface down
    8      4     pid                      12  4  unused
    12     4     nnis
Source: the public struct lnet_ping_info and lnet_ni_status.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from lnet.errors import NidError, ProtocolError
from lnet.lnet_hdr import LNET_PID_LUSTRE
from lnet.nid import Nid

RESERVED_PORTAL: Final = 0
PING_MATCH_BITS: Final = 0x8000_0000_0000_0000
PING_MAGIC: Final = 0x70696E67
FEATURES: Final = 0x3
"""Base features, and the status of each NID."""
STATUS_UP: Final = 0x15AAC0DE
STATUS_DOWN: Final = 0xDEADFACE
MAX_REPLY: Final = 16 + 16 * 64

_HEAD: Final = struct.Struct("<IIII")
_ENTRY: Final = struct.Struct("<QIxxxx")


def build_ping_info(nids: Iterable[tuple[Nid, bool]]) -> bytes:
    """Return the answer to a ping: each NID, and whether it is up."""
    entries = [_ENTRY.pack(nid.wire, STATUS_UP if up else STATUS_DOWN) for nid, up in nids]
    return _HEAD.pack(PING_MAGIC, FEATURES, LNET_PID_LUSTRE, len(entries)) + b"".join(entries)


def parse_ping_info(data: bytes) -> list[tuple[Nid, bool]]:
    """Read the answer to a ping.

    Raises:  ProtocolError: truncated, wrong magic, or an invalid NID.
    """
    if len(data) < _HEAD.size:
        raise ProtocolError(f"ping answer of {len(data)} bytes; {_HEAD.size} are needed")
    magic, _, _, count = _HEAD.unpack_from(data)
    if magic != PING_MAGIC:
        raise ProtocolError(f"ping answer with magic {magic:#010x}, not {PING_MAGIC:#010x}")
    if len(data) < _HEAD.size + count * _ENTRY.size:
        raise ProtocolError(f"ping answer with {count} NIDs does not fit in {len(data)} bytes")
    nids = []
    for index in range(count):
        value, status = _ENTRY.unpack_from(data, _HEAD.size + index * _ENTRY.size)
        try:
            nids.append((Nid.from_wire(value), status == STATUS_UP))
        except NidError as error:
            raise ProtocolError(str(error)) from None
    return nids
