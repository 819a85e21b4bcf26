"""The LNet header inside IMMEDIATE, PUT_REQ and GET_REQ: 72 bytes, little-endian regardless of the sender.

The handle of the sender's memory descriptor is unique to the sender: the first half identifies the incarnation, the
second half the message. A receiver uses both to recognize a message that it already has.
Source: the public struct lnet_hdr, lnet_put, lnet_get.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, Self

from hfi_sim.wire.header import Header
from lnet.base.errors import ProtocolError
from lnet.wire.codes import LnetMsgType
from lnet.wire.layouts import LNET_GET, LNET_HDR_SIZE, LNET_PUT

LNET_PID_LUSTRE: Final = 12345

_TYPE: Final = LNET_PUT.place("type")
_NO_PADDING: Final = bytes(4)
_KINDS: Final[dict[int, Header]] = {LnetMsgType.PUT: LNET_PUT, LnetMsgType.GET: LNET_GET}


@dataclass(frozen=True, slots=True)
class LnetHdr:
    """The header of a PUT or a GET."""

    type: int
    dest_nid: int
    src_nid: int
    payload_length: int
    """PUT: bytes of payload; GET: 0."""
    interface_cookie: int
    """Incarnation of the sender."""
    object_cookie: int
    """Sequence number of the message among those to this receiver."""
    match_bits: int = 0
    hdr_data: int = 0
    """PUT: 64 bits of out-of-band data for the receiver."""
    ptl_index: int = 0
    offset: int = 0
    sink_length: int = 0
    """GET: bytes requested."""
    dest_pid: int = LNET_PID_LUSTRE
    src_pid: int = LNET_PID_LUSTRE

    SIZE = LNET_HDR_SIZE

    def build(self) -> bytes:
        """Return the 72 bytes. Raises: ValueError: a value does not fit its field."""
        start = (
            self.dest_nid, self.src_nid, self.dest_pid, self.src_pid, self.type, self.payload_length,
            self.interface_cookie, self.object_cookie, self.match_bits,
        )  # fmt: skip
        try:
            if self.type == LnetMsgType.GET:
                get = (self.ptl_index, self.offset, self.sink_length, _NO_PADDING)
                return LNET_GET.codec.pack(*start, *get)
            return LNET_PUT.codec.pack(*start, self.hdr_data, self.ptl_index, self.offset)
        except struct.error as error:
            raise ValueError(f"{self} does not fit the LNet header: {error}") from None

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read the header at the start of `data`.

        Raises:  ProtocolError: truncated, or neither PUT nor GET.
        """
        if len(data) < cls.SIZE:
            raise ProtocolError(f"LNet header of {len(data)} bytes; {cls.SIZE} are needed")
        kind = int.from_bytes(data[_TYPE.offset : _TYPE.offset + _TYPE.size], "little")
        if kind not in _KINDS:
            raise ProtocolError(f"LNet message type {kind} is neither PUT nor GET")
        header = _KINDS[kind]
        values = dict(zip(header.names, header.unpack(data), strict=True))
        values.pop("padding", None)
        return cls(**values)
