"""The Wireshark dissector of kib_msg and the LNet header, run by tshark."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from hfi_sim.base.clock import ManualClock
from hfi_sim.engine.link.rule import Match
from hfi_sim.wire.icrc import Icrc
from hfi_sim.wire.lrh16b import L4, Lrh16B
from hfi_sim.wire.packet import build_packet
from hfi_sim.wire.reliable_header import RcFlags, RcHeader, RcOpcode
from lnet.host.rig import LnetRig
from lnet.node.selftest import Selftest
from lnet.objects.stats import TxKind
from lnet.wire.codes import Char, MsgType, RejectReason
from lnet.wire.msg import KibRej
from opavnic.observe.capture import Capture
from unit.lnet.test_compiled_structs import message_of
from unit.opavnic.observe.tshark import Tshark, needs_tshark, write_pcap

ICRC = Icrc()
INFO = {
    MsgType.CONNREQ: "8 credits, 256 fragments",
    MsgType.CONNACK: "8 credits, 256 fragments",
    MsgType.NOOP: "",
    MsgType.IMMEDIATE: "PUT of 8 bytes, portal 21",
    MsgType.PUT_REQ: "PUT of 8 bytes, portal 21",
    MsgType.PUT_ACK: "8193 bytes in 2 fragments",
    MsgType.GET_REQ: "GET of 1048576 bytes, portal 21",
    MsgType.PUT_NAK: "status -5",
    MsgType.PUT_DONE: "status -5",
    MsgType.GET_DONE: "status -5",
}


def carried(data: bytes) -> bytes:
    header = RcHeader(RcOpcode.DATA, RcFlags.LAST, tag=1, dst_conn=7, src_conn=8)
    return build_packet(Lrh16B(1, 2, l4=L4.VENDOR_RC), header.build() + data, ICRC)


@pytest.fixture
def tshark(tmp_path: Path) -> Tshark:
    return Tshark(tmp_path / "home")


@needs_tshark
@pytest.mark.parametrize("order", "<>")
def test_message_of_each_type_is_named_and_shown(tshark: Tshark, tmp_path: Path, order: str) -> None:
    packets = [carried(message_of(kind).build(order, checksum=Char.SIGNED)) for kind in MsgType]
    capture = write_pcap(tmp_path / "x.pcap", packets)
    columns = ("_ws.col.Protocol", "_ws.col.Info", "kib.type", "kib.credits", "_ws.expert.message")
    fields = ("kib.rdma.addr", "lnet_hdr.match_bits", "kib.payload", "kib.status")
    rows = tshark.columns(capture, *columns, *fields)
    head = "10.1.1.2@o2ib > 10.1.1.5@o2ib"
    assert [row[: len(columns)] for row in rows] == [
        ["LNet", f"{kind.name} {head}{', ' if INFO[kind] else ''}{INFO[kind]}", f"{kind:#04x}", "200", ""]
        for kind in MsgType
    ]
    shown = {kind: row[len(columns) :] for kind, row in zip(MsgType, rows, strict=True)}
    assert shown[MsgType.GET_REQ][:2] == ["0xffff888000001000,0xffff888000002000", "0x99aabbccddeeff00"]
    assert shown[MsgType.IMMEDIATE][2] == bytes(range(0x7C, 0x84)).hex()
    assert shown[MsgType.PUT_NAK][3] == "-5"


@needs_tshark
def test_refusal_is_shown_with_its_reason(tshark: Tshark, tmp_path: Path) -> None:
    packets = [carried(KibRej(why, incarnation=5).build(order)) for order in "<>" for why in RejectReason]
    rows = tshark.columns(write_pcap(tmp_path / "x.pcap", packets), "_ws.col.Info", "_ws.expert.message")
    assert rows == [[f"rejected: {why.name}", ""] for why in RejectReason] * 2


@needs_tshark
def test_no_bytes_make_the_dissector_fail(tshark: Tshark, tmp_path: Path) -> None:
    rng = random.Random(7)
    packets = []
    for kind in MsgType:
        whole = message_of(kind).build()
        packets += [carried(whole[:size]) for size in range(len(whole))]
        for _ in range(60):
            damaged = bytearray(whole)
            damaged[rng.randrange(4, len(whole))] = rng.randrange(256)
            packets.append(carried(bytes(damaged)))
    rows = tshark.columns(write_pcap(tmp_path / "x.pcap", packets), "frame.number", "_ws.expert.message")
    assert len(rows) == len(packets)
    assert [row for row in rows if "Lua" in row[1]] == []


@needs_tshark
def test_selftest_in_a_capture_has_every_message_named_and_none_malformed(
    tshark: Tshark, tmp_path: Path
) -> None:
    clock = ManualClock()
    rig = LnetRig(clock)
    a = rig.add_host("a", ["10.1.1.2", "10.1.1.3"])
    b = rig.add_host("b", ["10.1.1.5", "10.1.1.6"])
    watch = Capture(rig.world.fabric, "*", Match(l4=L4.VENDOR_RC), once=True)
    for kind, size in ((TxKind.PUT, 100), (TxKind.PUT, 1 << 16), (TxKind.GET, 1 << 16)):

        def start(kind: TxKind, nid: object, length: int) -> int:
            return a.node.put(b.nid, bytes(length)) if kind is TxKind.PUT else a.node.get(b.nid, length)

        ended: list[object] = []
        selftest = Selftest(
            clock, start, b.nid, kind=kind, size=size, concurrency=2, seconds=0.0002, on_end=ended.append
        )
        a.node.on_report = selftest.on_report
        selftest.begin()
        clock.advance(1.0)
        assert ended
    watch.stop()
    capture = tmp_path / "x.pcapng"
    with capture.open("wb") as file:
        file.write(watch.head)
        while piece := watch.take(True):
            file.write(piece)
    rows = tshark.columns(capture, "opa_rc.opcode", "opa_rc.tag", "_ws.col.Info", "_ws.expert.message")
    assert [row for row in rows if row[3]] == []
    named = Counter(info.split()[0] for opcode, tag, info, _ in rows if (opcode, tag) == ("4", "1"))
    said = {
        info.partition(", ")[2].split()[0]
        for _, tag, info, _ in rows
        if info.startswith(("IMM", "PUT_R", "GET_R"))
    }
    assert said == {"PUT", "GET"}, "messages on portal 0 that are neither pings nor pushes"
    requests = {"IMMEDIATE", "PUT_REQ", "PUT_ACK", "PUT_DONE", "GET_REQ", "GET_DONE"}
    assert requests <= set(named) <= requests | {"NOOP"}
    assert {info.split()[0] for opcode, _, info, _ in rows if opcode == "1"} == {"CONNREQ"}


@needs_tshark
def test_old_version_is_shown_and_its_short_refusal_is_not_malformed(tshark: Tshark, tmp_path: Path) -> None:
    rej = KibRej(RejectReason.FATAL, version=0x11)
    noop = carried(replace(message_of(MsgType.NOOP), version=0x11).build())
    capture = write_pcap(tmp_path / "x.pcap", [carried(rej.build()), noop])
    rows = tshark.columns(capture, "_ws.col.Info", "kib.version", "_ws.expert.message")
    assert [row[2] for row in rows] == ["", ""]
    assert rows[0][0] == "rejected: FATAL"
    assert int(rows[1][1], 16) == 0x11
