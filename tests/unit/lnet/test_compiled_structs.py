"""The messages against the public structures as a C compiler lays them out: both byte orders, both kinds of char."""

from __future__ import annotations

import functools
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

from lnet.base.nid import Nid
from lnet.wire.codes import Char, LnetMsgType, MsgType, RejectReason
from lnet.wire.lnet_hdr import LnetHdr
from lnet.wire.msg import ConnParams, KibMsg, KibRej, RdmaDesc, RdmaFrag
from lnet.wire.ping import PingInfo

SOURCE = Path(__file__).with_name("kib_structs.c")
ORDERS = {"<": "little-endian", ">": "big-endian"}

SRC, DST = 0x000500000A010102, 0x000500000A010105
STAMP = 0xF1F2F3F4F5F6F7F8
HEADER: dict[str, Any] = {
    "dest_nid": DST,
    "src_nid": SRC,
    "interface_cookie": STAMP,
    "object_cookie": 0x8102030405060708,
    "match_bits": 0x99AABBCCDDEEFF00,
    "ptl_index": 21,
    "offset": 0x80000001,
}
PUT = LnetHdr(LnetMsgType.PUT, payload_length=8, hdr_data=0x0123456789ABCDEF, **HEADER)
GET = LnetHdr(LnetMsgType.GET, payload_length=0, sink_length=1 << 20, **HEADER)
PARAMS = ConnParams(8, 256, 4096)
FRAGS = tuple(RdmaFrag(4096 + i, 0xFFFF888000001000 + 0x1000 * i) for i in range(2))
DESC = RdmaDesc(0xDEADBEEF, FRAGS)
COOKIE, OTHER_COOKIE = 0xC001D00D00000001, 0xC001D00D00000002
BODIES: dict[MsgType, dict[str, Any]] = {
    MsgType.NOOP: {},
    MsgType.CONNREQ: {"connparams": PARAMS},
    MsgType.CONNACK: {"connparams": PARAMS},
    MsgType.IMMEDIATE: {"hdr": PUT.build(), "payload": bytes(range(0x7C, 0x84))},
    MsgType.PUT_REQ: {"hdr": PUT.build(), "cookie": COOKIE},
    MsgType.PUT_ACK: {"cookie": COOKIE, "dst_cookie": OTHER_COOKIE, "desc": DESC},
    MsgType.GET_REQ: {"hdr": GET.build(), "cookie": COOKIE, "desc": DESC},
    MsgType.PUT_NAK: {"cookie": OTHER_COOKIE, "status": -5},
    MsgType.PUT_DONE: {"cookie": OTHER_COOKIE, "status": -5},
    MsgType.GET_DONE: {"cookie": OTHER_COOKIE, "status": -5},
}


def message_of(kind: MsgType) -> KibMsg:
    head: dict[str, Any] = {"srcnid": SRC, "srcstamp": STAMP, "dstnid": DST, "dststamp": 0x00060A0B0C0D0E0F}
    return KibMsg(kind, credits=200, **head, **BODIES[kind])


@functools.cache
def compiled(order: str, char: Char) -> dict[str, bytes]:
    """Return the bytes of each structure by its name; skips the test where they cannot be compiled."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("no gcc, which alone compiles structures in either byte order")
    with tempfile.TemporaryDirectory() as directory:
        program = Path(directory) / "kib_structs"
        flags = [f"-f{char}-char", f'-DORDER="{ORDERS[order]}"', "-Wno-scalar-storage-order"]
        subprocess.run([compiler, *flags, "-o", program, SOURCE], check=True, timeout=300)
        done = subprocess.run([program], check=True, capture_output=True, text=True, timeout=300)
    lines = (line.rpartition(" ") for line in done.stdout.splitlines())
    return {name: bytes.fromhex(data) for name, _, data in lines}


BOTH = pytest.mark.parametrize("order", ORDERS)


@BOTH
@pytest.mark.parametrize("char", Char)
@pytest.mark.parametrize("kind", MsgType)
def test_message_is_what_the_compiled_structure_is(kind: MsgType, order: str, char: Char) -> None:
    structures, message = compiled(order, char), message_of(kind)
    plain, summed = structures[kind.name], structures[f"cksum {kind.name}"]
    assert (message.build(order), message.build(order, checksum=char)) == (plain, summed)
    assert KibMsg.parse(plain) == KibMsg.parse(summed) == message


@BOTH
def test_lnet_header_is_what_the_compiled_structure_is(order: str) -> None:
    structures = compiled(order, Char.SIGNED)
    assert (PUT.build(), GET.build()) == (structures["lnet_put"], structures["lnet_get"])
    assert (LnetHdr.parse(structures["lnet_put"]), LnetHdr.parse(structures["lnet_get"])) == (PUT, GET)


@BOTH
def test_refusal_is_what_the_compiled_structure_is(order: str) -> None:
    rej = KibRej(RejectReason.EARLY, incarnation=STAMP, connparams=PARAMS)
    assert rej.build(order) == compiled(order, Char.SIGNED)["rej"]
    assert KibRej.parse(compiled(order, Char.SIGNED)["rej"]) == rej


@BOTH
def test_ping_answer_is_what_the_compiled_structure_is(order: str) -> None:
    info = PingInfo(((Nid.from_wire(SRC), True), (Nid.from_wire(16 << 48 | 42), False)), 0x1B, 7)
    assert info.build(order) == compiled(order, Char.SIGNED)["ping"]
    assert PingInfo.parse(compiled(order, Char.SIGNED)["ping"]) == info
