"""The o2iblnd messages against their declaration, in both byte orders, whole, cut and damaged."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lnet.base.errors import ProtocolError
from lnet.wire import layouts
from lnet.wire.codes import Char, LnetMsgType, MsgType, RejectReason
from lnet.wire.layouts import HEADER_SIZE
from lnet.wire.lnet_hdr import LnetHdr
from lnet.wire.msg import (
    IBLND_MSG_SIZE,
    ConnParams,
    KibMsg,
    KibRej,
    RdmaDesc,
    RdmaFrag,
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


def described(desc: RdmaDesc, order: str) -> bytes:
    """Return the bytes of a descriptor as declared."""
    head = layouts.RDMA_DESC[order].write({"key": desc.key, "nfrags": len(desc.frags)})
    return head + b"".join(map(layouts.RDMA_FRAG[order].write, desc.frags))


def declared_body(message: KibMsg, order: str) -> bytes:
    """Return what follows kib_msg as declared."""
    parts = {
        "connparams": lambda: layouts.CONN_PARAMS[order].write(message.connparams),
        "desc": lambda: described(message.desc or RdmaDesc(0, ()), order),
        "cookie": lambda: layouts.COOKIE[order].write(message),
        "dst_cookie": lambda: message.dst_cookie.to_bytes(8, layouts.COOKIE[order].order),
        "status": lambda: message.status.to_bytes(4, layouts.COOKIE[order].order, signed=True),
    }
    body = BODIES[MsgType(message.type)]
    return b"".join(parts[name]() if name in parts else getattr(message, name) for name in body)


@given(MESSAGES, st.sampled_from("<>"), st.sampled_from([None, *Char]))
def test_message_built_and_parsed_is_the_same_and_agrees_with_the_layout(
    message: KibMsg, order: str, checksum: Char | None
) -> None:
    wire = message.build(order, checksum=checksum)
    assert KibMsg.parse(wire) == message
    nids = {name: getattr(message, name) for name in ("srcnid", "srcstamp", "dstnid", "dststamp")}
    declared = {
        "magic": 0x0BE91B91,
        "version": 0x12,
        "type": message.type,
        "credits": message.credits,
        "nob": len(wire),
        "cksum": 0,
        **nids,
    }
    built = layouts.KIB_MSG[order].write(declared) + declared_body(message, order)
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


@given(MESSAGES, st.integers(0, 10_000), st.integers(1, 255), st.sampled_from(Char))
def test_damage_is_noticed_by_the_checksum(message: KibMsg, at: int, flip: int, char: Char) -> None:
    wire = bytearray(message.build(checksum=char))
    at = at % len(wire)
    wire[at] ^= flip
    try:
        parsed = KibMsg.parse(bytes(wire))
    except ProtocolError:
        return
    # a damaged version is for the handshake to refuse, a checksum of 0 means that there is none, and a sum that is
    # right in the other form is believed
    other = Char.SIGNED if char is Char.UNSIGNED else Char.UNSIGNED
    believed = cksum(bytes(wire[:12] + bytes(4) + wire[16:]), other) == int.from_bytes(wire[12:16], "little")
    assert parsed.version != 0x12 or 12 <= at < 16 or believed


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
    wire[4:6] = (0x13).to_bytes(2, "little")
    message = KibMsg.parse(bytes(wire))
    assert (message.version, message.srcnid, message.connparams) == (0x13, 5, None)


def test_checksum_known_answers() -> None:
    for char in Char:
        assert cksum(b"", char) == 1
        assert cksum(b"\x01\x02", char) == 4
        assert cksum(b"\x40" + bytes(26), char) == 1, "the top bit comes round"
        assert cksum(bytes(8), char) == 1, "0 would mean that there is none"
    assert cksum(b"\x80\x01", Char.UNSIGNED) == 0x101
    assert cksum(b"\x80\x01", Char.SIGNED) == 0xFFFFFF02
    assert cksum(b"\x01\xfe", Char.SIGNED) == 1, "a sum of 0 is sent as 1"


def test_field_too_wide_is_the_callers_mistake() -> None:
    with pytest.raises(ValueError, match="cannot be built"):
        KibMsg(MsgType.NOOP, credits=256).build()


def test_largest_immediate_fills_a_message() -> None:
    wire = KibMsg(
        MsgType.IMMEDIATE, hdr=bytes(72), payload=bytes(ConnParams(8, 256, IBLND_MSG_SIZE).immediate_max)
    ).build()
    assert len(wire) == IBLND_MSG_SIZE


REJECTS = st.builds(KibRej, st.integers(0, 255), U16.filter(lambda version: version != 0x11), U64, PARAMS)


@given(REJECTS, st.sampled_from("<>"))
def test_refusal_built_and_parsed_is_the_same_and_agrees_with_the_layout(rej: KibRej, order: str) -> None:
    wire = rej.build(order)
    assert KibRej.parse(wire) == rej
    head = {"magic": 0x0BE91B91, "version": rej.version, "why": rej.why, "incarnation": rej.incarnation}
    declared = {**head, "padding": b"\0", **asdict(rej.connparams)}
    assert layouts.KIB_REJ[order].write(declared) == wire


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
    header = layouts.LNET_GET if hdr.type == LnetMsgType.GET else layouts.LNET_PUT
    assert header.write({**asdict(hdr), "padding": bytes(4)}) == wire


@given(st.binary(max_size=100))
def test_any_bytes_are_an_lnet_header_or_refused(data: bytes) -> None:
    try:
        hdr = LnetHdr.parse(data)
    except ProtocolError:
        return
    assert hdr.type in (LnetMsgType.PUT, LnetMsgType.GET)
