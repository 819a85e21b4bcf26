"""The LNet header inside IMMEDIATE, PUT_REQ and GET_REQ: 72 bytes, little-endian whatever the sender is.

The handle of the sender's memory descriptor is unique for the life of the sender: its first half names the
incarnation, its second half the message. Both together are how a receiver knows a message that it has already.
Source: the public struct lnet_hdr, lnet_put, lnet_get.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Self

from lnet.errors import ProtocolError
from lnet.msg import LNET_HDR_SIZE

LNET_PID_LUSTRE: Final = 12345

_COMMON: Final = struct.Struct("<QQIIII")
_PUT: Final = struct.Struct("<QQQQII")
_GET: Final = struct.Struct("<QQQIIIxxxx")


class LnetMsgType(IntEnum):
    """Types of LNet messages (LNET_MSG_*); ACK and REPLY are done by the connection here."""

    ACK = 0
    PUT = 1
    GET = 2
    REPLY = 3
    HELLO = 4


@dataclass(frozen=True, slots=True)
class LnetHdr:
    """The header of a PUT or a GET."""

    type: int
    dest_nid: int
    src_nid: int
    payload_length: int
    """PUT: bytes that follow or are fetched; GET: 0."""
    interface_cookie: int
    """Incarnation of the sender."""
    object_cookie: int
    """Number of the message, rising by one for each message to this receiver."""
    match_bits: int = 0
    hdr_data: int = 0
    """PUT: 64 bits for the receiver."""
    ptl_index: int = 0
    offset: int = 0
    sink_length: int = 0
    """GET: bytes wanted."""
    dest_pid: int = LNET_PID_LUSTRE
    src_pid: int = LNET_PID_LUSTRE

    SIZE = LNET_HDR_SIZE

    def build(self) -> bytes:
        """Return the 72 bytes.

        Raises:  ValueError: a field is wider than its place.
        """
        try:
            common = _COMMON.pack(
                self.dest_nid, self.src_nid, self.dest_pid, self.src_pid, self.type, self.payload_length
            )
            handle = (self.interface_cookie, self.object_cookie, self.match_bits)
            if self.type == LnetMsgType.GET:
                return common + _GET.pack(*handle, self.ptl_index, self.offset, self.sink_length)
            return common + _PUT.pack(*handle, self.hdr_data, self.ptl_index, self.offset)
        except struct.error as error:
            raise ValueError(f"{self} does not fit the LNet header: {error}") from None

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read the header at the start of `data`.

        Raises:  ProtocolError: truncated, or neither PUT nor GET.
        """
        if len(data) < cls.SIZE:
            raise ProtocolError(f"LNet header of {len(data)} bytes; {cls.SIZE} are needed")
        dest_nid, src_nid, dest_pid, src_pid, kind, length = _COMMON.unpack_from(data)
        start = {
            "type": kind,
            "dest_nid": dest_nid,
            "src_nid": src_nid,
            "payload_length": length,
            "dest_pid": dest_pid,
            "src_pid": src_pid,
        }
        if kind == LnetMsgType.PUT:
            names = ("interface_cookie", "object_cookie", "match_bits", "hdr_data", "ptl_index", "offset")
            return cls(**start, **dict(zip(names, _PUT.unpack_from(data, _COMMON.size), strict=True)))
        if kind == LnetMsgType.GET:
            names = ("interface_cookie", "object_cookie", "match_bits", "ptl_index", "offset", "sink_length")
            return cls(**start, **dict(zip(names, _GET.unpack_from(data, _COMMON.size), strict=True)))
        raise ProtocolError(f"LNet message type {kind} is neither PUT nor GET")
