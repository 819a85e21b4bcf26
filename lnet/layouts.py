"""The structures of o2iblnd and LNet on the wire, declared once, in the order of the public structures.

A structure of o2iblnd is in its sender's byte order, so it is declared for both: `KIB_MSG["<"]` is the little-endian
one. The LNet header inside is always little-endian. What follows kib_msg depends on its type; see `MIN_BODY`.

Source: the public o2iblnd wire structures (kib_msg, kib_rej), version 0x12; struct lnet_hdr, lnet_put, lnet_get.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hfi_sim.wire.field import BYTES, HEX, Field
from hfi_sim.wire.header import Header
from lnet.codes import LnetMsgType, MsgType, RejectReason

_MAGIC: Final = Field(32, "0x0be91b91; its byte order is that of the sender", HEX)
_VERSION: Final = Field(16, "0x12", HEX)
_COOKIE: Final = Field(64, "number of the transfer, chosen by the side that asks", HEX)
_CONN_PARAMS: Final = {
    "queue_depth": Field(16, "credits"),
    "max_frags": Field(16, "fragments of one RDMA"),
    "max_msg_size": Field(32, "bytes of a message"),
}


def _both(name: str, fields: Mapping[str, Field]) -> Mapping[str, Header]:
    """Declare a structure in either byte order."""
    return {
        "<": Header(name, name, "little", fields, module=__name__),
        ">": Header(name, name, "big", fields, module=__name__),
    }


KIB_MSG: Final = _both(
    "kib_msg",
    {
        "magic": _MAGIC,
        "version": _VERSION,
        "type": Field(8, "type of the message", HEX, codes=MsgType),
        "credits": Field(8, "credits that are given back"),
        "nob": Field(32, "bytes of the whole message"),
        "cksum": Field(32, "checksum of the message with 0 here; 0: none", HEX),
        "srcnid": Field(64, "NID of the sender", HEX),
        "srcstamp": Field(64, "incarnation of the sender", HEX),
        "dstnid": Field(64, "NID of the receiver", HEX),
        "dststamp": Field(64, "incarnation of the receiver; 0 while it is not known", HEX),
    },
)
"""What every message begins with."""
CONN_PARAMS: Final = _both("kib_connparams", _CONN_PARAMS)
COOKIE: Final = _both("cookie", {"cookie": _COOKIE})
COOKIES: Final = _both(
    "kib_putack_msg", {"cookie": _COOKIE, "dst_cookie": Field(64, "number of the answer", HEX)}
)
"""PUT_ACK, before its descriptor."""
COMPLETION: Final = _both(
    "kib_completion_msg",
    {"cookie": _COOKIE, "status": Field(32, "0 or more, or a negative errno", signed=True)},
)
RDMA_DESC: Final = _both(
    "kib_rdma_desc",
    {"key": Field(32, "key of the memory", HEX), "nfrags": Field(32, "number of fragments that follow")},
)
RDMA_FRAG: Final = _both(
    "kib_rdma_frag", {"nob": Field(32, "bytes"), "addr": Field(64, "address of the first", HEX)}
)
KIB_REJ: Final = _both(
    "kib_rej",
    {
        "magic": _MAGIC,
        "version": _VERSION,
        "why": Field(8, "reason of the refusal", codes=RejectReason),
        "padding": Field(8, "0", BYTES),
        "incarnation": Field(64, "of the side that refuses", HEX),
        **_CONN_PARAMS,
    },
)
"""The private data of a refusal."""

_LNET_COMMON: Final = {
    "dest_nid": Field(64, "NID of the receiver", HEX),
    "src_nid": Field(64, "NID of the sender", HEX),
    "dest_pid": Field(32, "process of the receiver"),
    "src_pid": Field(32, "process of the sender"),
    "type": Field(32, "type of the message", codes=LnetMsgType),
    "payload_length": Field(32, "PUT: bytes that follow or are fetched; GET: 0"),
    "interface_cookie": Field(64, "incarnation of the sender", HEX),
    "object_cookie": Field(64, "number of the message, rising by one for each to this receiver", HEX),
    "match_bits": Field(64, "what the receiver matches", HEX),
}
_OFFSET: Final = {
    "ptl_index": Field(32, "portal"),
    "offset": Field(32, "first byte in the receiver's memory"),
}


def _lnet_hdr(name: str, fields: Mapping[str, Field]) -> Header:
    return Header(name, "LNet header", "little", {**_LNET_COMMON, **fields}, module=__name__)


LNET_PUT: Final = _lnet_hdr("lnet_put", {"hdr_data": Field(64, "for the receiver", HEX), **_OFFSET})
LNET_GET: Final = _lnet_hdr(
    "lnet_get", {**_OFFSET, "sink_length": Field(32, "bytes wanted"), "padding": Field(32, "0", BYTES)}
)
"""The same 72 bytes, with another union behind the first 56."""

ANNOUNCE: Final = Header(
    "announce",
    "announcement of addresses",
    "big",
    {"magic": Field(32, "as text ADDR", BYTES), "count": Field(8, "number of IPv4 addresses that follow")},
    module=__name__,
)
"""What follows the parameters of CONNREQ and CONNACK, where a node announces its addresses; this project's own."""

HEADER_SIZE: Final = KIB_MSG["<"].size
LNET_HDR_SIZE: Final = LNET_PUT.size

_DESC: Final = RDMA_DESC["<"].size
MIN_BODY: Final[Mapping[MsgType, int]] = {
    MsgType.CONNREQ: CONN_PARAMS["<"].size,
    MsgType.CONNACK: CONN_PARAMS["<"].size,
    MsgType.NOOP: 0,
    MsgType.IMMEDIATE: LNET_HDR_SIZE,
    MsgType.PUT_REQ: LNET_HDR_SIZE + COOKIE["<"].size,
    MsgType.PUT_NAK: COMPLETION["<"].size,
    MsgType.PUT_ACK: COOKIES["<"].size + _DESC,
    MsgType.PUT_DONE: COMPLETION["<"].size,
    MsgType.GET_REQ: LNET_HDR_SIZE + COOKIE["<"].size + _DESC,
    MsgType.GET_DONE: COMPLETION["<"].size,
}
"""What stands behind kib_msg at least, by its type: an LNet header, then cookies, then a descriptor."""
