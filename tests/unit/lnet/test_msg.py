"""The o2iblnd messages against their declaration, in both byte orders, whole, cut and damaged."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lnet import layouts
from lnet.errors import ProtocolError
from lnet.lnet_hdr import LnetHdr, LnetMsgType
from lnet.msg import (
    HEADER_SIZE,
    IBLND_MSG_SIZE,
    IMMEDIATE_MAX,
    ConnParams,
    KibMsg,
    KibRej,
    MsgType,
    RdmaDesc,
    RdmaFrag,
    RejectReason,
    cksum,
)

U16, U32, U64 = st.integers(0, 0xFFFF), st.integers(0, 0xFFFFFFFF), st.integers(0, 0xFFFFFFFFFFFFFFFF)
S32 = st.integers(-(1 << 31), (1 << 31) - 1)
PARAMS = st.builds(ConnParams, U16, U16, U32)
DESCS = st.builds(RdmaDesc, U32, st.lists(st.builds(RdmaFrag, U32, U64), max_size=5).map(tuple))
HDRS = st.binary(min_size=72, max_size=72)
HEAD: dict[str, Any] = {
    "credits": st.integers(0, 255),
    "srcnid": U64,
    "srcstamp": U64,
    "dstnid": U64,
    "dststamp": U64,
}
COMPLETION = {"cookie": U64, "status": S32}
BODIES: dict[MsgType, dict[str, Any]] = {
    MsgType.CONNREQ: {"connparams": PARAMS, "extra": st.binary(max_size=70)},
    MsgType.CONNACK: {"connparams": PARAMS, "extra": st.binary(max_size=70)},
    MsgType.NOOP: {},
    MsgType.IMMEDIATE: {"hdr": HDRS, "payload": st.binary(max_size=300)},
    MsgType.PUT_REQ: {"hdr": HDRS, "cookie": U64},
    MsgType.PUT_NAK: COMPLETION,
    MsgType.PUT_ACK: {"cookie": U64, "dst_cookie": U64, "desc": DESCS},
    MsgType.PUT_DONE: COMPLETION,
    MsgType.GET_REQ: {"hdr": HDRS, "cookie": U64, "desc": DESCS},
    MsgType.GET_DONE: COMPLETION,
}
MESSAGES = st.one_of(*(st.builds(KibMsg, st.just(kind), **HEAD, **body) for kind, body in BODIES.items()))


def plain(value: Any) -> Any:
    """Return a message part as the containers that construct builds from."""
    if isinstance(value, ConnParams):
        return {
            "queue_depth": value.queue_depth,
            "max_frags": value.max_frags,
            "max_msg_size": value.max_msg_size,
        }
    if isinstance(value, RdmaDesc):
        frags = [{"nob": frag.nob, "addr": frag.addr} for frag in value.frags]
        return {"key": value.key, "nfrags": len(frags), "frags": frags}
    return value


@given(MESSAGES, st.sampled_from("<>"), st.booleans())
def test_message_built_and_parsed_is_the_same_and_agrees_with_the_layout(
    message: KibMsg, order: str, checksum: bool
) -> None:
    wire = message.build(order, checksum=checksum)
    assert KibMsg.parse(wire) == message
    body = {name: plain(getattr(message, name)) for name in BODIES[MsgType(message.type)]}
    nids = {name: getattr(message, name) for name in ("srcnid", "srcstamp", "dstnid", "dststamp")}
    declared = {
        "magic": 0x0BE91B91,
        "version": 0x12,
        "type": message.type,
        "credits": message.credits,
        "nob": len(wire),
        "cksum": 0,
        "body": body,
        **nids,
    }
    built = layouts.kib_msg(order).build(declared)
    assert built[:12] + built[16:] == wire[:12] + wire[16:]


@given(MESSAGES, st.sampled_from("<>"))
def test_message_cut_anywhere_is_refused(message: KibMsg, order: str) -> None:
    wire = message.build(order)
    for length in range(len(wire)):
        with pytest.raises(ProtocolError):
            KibMsg.parse(wire[:length])


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_refused(data: bytes) -> None:
    for start in (
        b"",
        (0x0BE91B91).to_bytes(4, "little") + b"\x12\0",
        (0x0BE91B91).to_bytes(4, "big") + b"\0\x12",
    ):
        try:
            KibMsg.parse(start + data)
        except ProtocolError:
            continue


@given(MESSAGES, st.integers(0, 10_000), st.integers(1, 255))
def test_damage_is_noticed_by_the_checksum(message: KibMsg, at: int, flip: int) -> None:
    wire = bytearray(message.build(checksum=True))
    at = at % len(wire)
    wire[at] ^= flip
    try:
        parsed = KibMsg.parse(bytes(wire))
    except ProtocolError:
        return
    # a damaged version is for the handshake to refuse, and a checksum of 0 means that there is none
    assert parsed.version != 0x12 or 12 <= at < 16


def test_wrong_magic_is_named() -> None:
    with pytest.raises(ProtocolError, match="magic 00000000 is not 0x0be91b91"):
        KibMsg.parse(bytes(HEADER_SIZE))


def test_unknown_type_is_named() -> None:
    wire = bytearray(KibMsg(MsgType.NOOP).build())
    wire[6] = 0xEE
    with pytest.raises(ProtocolError, match="unknown message type 0xee"):
        KibMsg.parse(bytes(wire))


def test_fragment_count_beyond_the_message_is_refused() -> None:
    wire = bytearray(KibMsg(MsgType.PUT_ACK, desc=RdmaDesc(1, ())).build())
    wire[-4:] = (1 << 31).to_bytes(4, "little")
    with pytest.raises(ProtocolError, match="fragments do not fit"):
        KibMsg.parse(bytes(wire))


def test_other_version_is_read_as_far_as_its_header() -> None:
    wire = bytearray(KibMsg(MsgType.CONNREQ, srcnid=5, connparams=ConnParams(1, 2, 3)).build())
    wire[4:6] = (0x11).to_bytes(2, "little")
    message = KibMsg.parse(bytes(wire))
    assert (message.version, message.srcnid, message.connparams) == (0x11, 5, None)


def test_checksum_known_answers() -> None:
    assert cksum(b"") == 1
    assert cksum(b"\x01\x02") == 4
    assert cksum(b"\x80" + bytes(25)) == 1, "the top bit comes round"
    assert cksum(bytes(8)) == 1, "0 would mean that there is none"


def test_field_too_wide_is_the_callers_mistake() -> None:
    with pytest.raises(ValueError, match="cannot be built"):
        KibMsg(MsgType.NOOP, credits=256).build()


def test_largest_immediate_fills_a_message() -> None:
    wire = KibMsg(MsgType.IMMEDIATE, hdr=bytes(72), payload=bytes(IMMEDIATE_MAX)).build()
    assert len(wire) == IBLND_MSG_SIZE


REJECTS = st.builds(KibRej, st.integers(0, 255), U16, U64, PARAMS)


@given(REJECTS, st.sampled_from("<>"))
def test_refusal_built_and_parsed_is_the_same_and_agrees_with_the_layout(rej: KibRej, order: str) -> None:
    wire = rej.build(order)
    assert KibRej.parse(wire) == rej
    fields = {"magic": 0x0BE91B91, "version": rej.version, "why": rej.why, "incarnation": rej.incarnation}
    assert layouts.kib_rej(order).build({**fields, "connparams": plain(rej.connparams)}) == wire


@pytest.mark.parametrize("length", range(KibRej.SIZE))
def test_refusal_cut_anywhere_is_refused(length: int) -> None:
    with pytest.raises(ProtocolError):
        KibRej.parse(KibRej(RejectReason.FATAL).build()[:length])


COMMON: dict[str, Any] = {
    "dest_nid": U64,
    "src_nid": U64,
    "payload_length": U32,
    "interface_cookie": U64,
    "object_cookie": U64,
    "match_bits": U64,
    "ptl_index": U32,
    "offset": U32,
    "dest_pid": U32,
    "src_pid": U32,
}
LNET_HDRS = st.one_of(
    st.builds(LnetHdr, st.just(LnetMsgType.PUT), hdr_data=U64, **COMMON),
    st.builds(LnetHdr, st.just(LnetMsgType.GET), sink_length=U32, **COMMON),
)


@given(LNET_HDRS)
def test_lnet_header_built_and_parsed_is_the_same_and_agrees_with_the_layout(hdr: LnetHdr) -> None:
    wire = hdr.build()
    assert len(wire) == LnetHdr.SIZE
    assert LnetHdr.parse(wire) == hdr
    union: dict[str, Any] = {
        "interface_cookie": hdr.interface_cookie,
        "object_cookie": hdr.object_cookie,
        "match_bits": hdr.match_bits,
        "hdr_data": hdr.hdr_data,
        "ptl_index": hdr.ptl_index,
        "offset": hdr.offset,
        "src_offset": hdr.offset,
        "sink_length": hdr.sink_length,
    }
    names = ("dest_nid", "src_nid", "dest_pid", "src_pid", "type", "payload_length")
    declared = {name: getattr(hdr, name) for name in names}
    assert layouts.LNET_HDR.build({**declared, "msg": union}) == wire


@given(st.binary(max_size=100))
def test_any_bytes_are_an_lnet_header_or_refused(data: bytes) -> None:
    try:
        hdr = LnetHdr.parse(data)
    except ProtocolError:
        return
    assert hdr.type in (LnetMsgType.PUT, LnetMsgType.GET)
