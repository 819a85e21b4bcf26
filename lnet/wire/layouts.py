"""The wire structures of o2iblnd and LNet, declared once, in the order of the public structures.

An o2iblnd structure is sent in the byte order of its sender and is therefore declared for both: `KIB_MSG["<"]` is
little-endian. The LNet header inside is always little-endian. What follows kib_msg depends on its type; see `MIN_BODY`.

Source: the public o2iblnd wire structures (kib_msg, kib_rej), version 0x12; struct lnet_hdr, lnet_put, lnet_get.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hfi_sim.wire.field import BYTES, HEX, Field
from hfi_sim.wire.header import Header
from lnet.wire.codes import LnetMsgType, MsgType, RejectReason

_MAGIC: Final = Field(32, "0x0be91b91, in the byte order of the sender", HEX)
_VERSION: Final = Field(16, "0x12, or 0x11", HEX)
_COOKIE: Final = Field(64, "number of the transfer, chosen by the requester", HEX)
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
        "credits": Field(8, "returned credits"),
        "nob": Field(32, "bytes of the whole message"),
        "cksum": Field(32, "checksum of the message, computed with 0 here; 0: none", HEX),
        "srcnid": Field(64, "NID of the sender", HEX),
        "srcstamp": Field(64, "a number that only the sender has, in its present incarnation", HEX),
        "dstnid": Field(64, "NID of the receiver", HEX),
        "dststamp": Field(64, "incarnation of the receiver; 0 if unknown", HEX),
    },
)
"""The header of every message."""
CONN_PARAMS: Final = _both("kib_connparams", _CONN_PARAMS)
COOKIE: Final = _both("cookie", {"cookie": _COOKIE})
COOKIES: Final = _both(
    "kib_putack_msg",
    {"cookie": _COOKIE, "dst_cookie": Field(64, "number of the transfer at the responder", HEX)},
)
"""The start of PUT_ACK; a descriptor follows."""
COMPLETION: Final = _both(
    "kib_completion_msg",
    {"cookie": _COOKIE, "status": Field(32, "0 or more: success; negative: an errno", signed=True)},
)
RDMA_DESC: Final = _both(
    "kib_rdma_desc",
    {"key": Field(32, "key of the memory", HEX), "nfrags": Field(32, "number of fragments that follow")},
)
RDMA_FRAG: Final = _both(
    "kib_rdma_frag", {"nob": Field(32, "bytes"), "addr": Field(64, "address of the first byte", HEX)}
)
KIB_REJ: Final = _both(
    "kib_rej",
    {
        "magic": _MAGIC,
        "version": _VERSION,
        "why": Field(8, "reason of the rejection", codes=RejectReason),
        "padding": Field(8, "0", BYTES),
        "incarnation": Field(64, "incarnation of the rejecting side", HEX),
        **_CONN_PARAMS,
    },
)
"""The private data of a rejection."""

_LNET_COMMON: Final = {
    "dest_nid": Field(64, "NID of the receiver", HEX),
    "src_nid": Field(64, "NID of the sender", HEX),
    "dest_pid": Field(32, "process of the receiver"),
    "src_pid": Field(32, "process of the sender"),
    "type": Field(32, "type of the message", codes=LnetMsgType),
    "payload_length": Field(32, "PUT: bytes of payload; GET: 0"),
    "interface_cookie": Field(64, "a number that only the sender has, in its present incarnation", HEX),
    "object_cookie": Field(64, "number of the message among all of its sender", HEX),
    "match_bits": Field(64, "bits that select the memory at the receiver", HEX),
}
_OFFSET: Final = {
    "ptl_index": Field(32, "portal"),
    "offset": Field(32, "offset in the receiver's memory"),
}


def _lnet_hdr(name: str, fields: Mapping[str, Field]) -> Header:
    return Header(name, "LNet header", "little", {**_LNET_COMMON, **fields}, module=__name__)


LNET_PUT: Final = _lnet_hdr(
    "lnet_put", {"hdr_data": Field(64, "out-of-band data for the receiver", HEX), **_OFFSET}
)
LNET_GET: Final = _lnet_hdr(
    "lnet_get", {**_OFFSET, "sink_length": Field(32, "bytes requested"), "padding": Field(32, "0", BYTES)}
)
"""The same 72 bytes as `LNET_PUT`, with another union after the first 56."""

ANNOUNCE: Final = Header(
    "announce",
    "announcement of addresses",
    "big",
    {"magic": Field(32, "the text ADDR", BYTES), "count": Field(8, "number of IPv4 addresses that follow")},
    module=__name__,
)
"""Follows the parameters of CONNREQ and CONNACK if a node announces its addresses; an extension of this project."""

HEADER_SIZE: Final = KIB_MSG["<"].size
LNET_HDR_SIZE: Final = LNET_PUT.size

NUMBERS: Final[Mapping[int, Mapping[str, Header]]] = {
    **dict.fromkeys((MsgType.CONNREQ, MsgType.CONNACK), CONN_PARAMS),
    **dict.fromkeys((MsgType.PUT_REQ, MsgType.GET_REQ), COOKIE),
    MsgType.PUT_ACK: COOKIES,
    **dict.fromkeys((MsgType.PUT_NAK, MsgType.PUT_DONE, MsgType.GET_DONE), COMPLETION),
}
"""What follows kib_msg, by type: these, behind an LNet header (`WITH_HDR`) and before a descriptor (`WITH_DESC`)."""
WITH_HDR: Final = frozenset({MsgType.IMMEDIATE, MsgType.PUT_REQ, MsgType.GET_REQ})
WITH_DESC: Final = frozenset({MsgType.PUT_ACK, MsgType.GET_REQ})
MIN_BODY: Final[Mapping[int, int]] = {
    kind: LNET_HDR_SIZE * (kind in WITH_HDR)
    + (NUMBERS[kind]["<"].size if kind in NUMBERS else 0)
    + RDMA_DESC["<"].size * (kind in WITH_DESC)
    for kind in MsgType
}
"""Minimum length of what follows kib_msg, by type."""
