"""One line says what a packet is, whatever its bytes are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import ICMP, IP
from scapy.layers.inet6 import UDP, IPv6
from scapy.layers.l2 import ARP, Dot1Q, Ether

from hfi_sim.wire.icrc import Icrc
from hfi_sim.wire.lrh16b import L4, EthernetL4, Lrh16B
from hfi_sim.wire.mad.fm_packet import build_fm_packet
from hfi_sim.wire.mad.header import MadClass, MadHeader, Method
from hfi_sim.wire.packet import build_packet
from hfi_sim.wire.packet_9b import bare_9b, build_mad_9b, carry_9b
from opavnic.decode.summary import summarize

ETHER = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
ENDS = "0x12345 > 0xf00002 sc 3 vesw 9 02:00:00:00:00:01 > 02:00:00:00:00:02"


def packed(frame: bytes, **fields: int) -> bytes:
    lrh = Lrh16B(slid=0x12345, dlid=0xF00002, l4=L4.ETHERNET, pkey=0x8001, sc=3, **fields)
    return build_packet(lrh, EthernetL4(9).build() + frame, Icrc())


@pytest.mark.parametrize(
    ("frame", "line"),
    [
        (ETHER / IP(src="10.0.0.1", dst="10.0.0.2") / ICMP(), "ICMP 10.0.0.1 > 10.0.0.2, 42 bytes"),
        (
            ETHER / ARP(op=1, psrc="10.0.0.1", pdst="10.0.0.9"),
            "ARP who has 10.0.0.9, asks 10.0.0.1, 42 bytes",
        ),
        (
            ETHER / ARP(op=2, psrc="10.0.0.1", hwsrc="02:00:00:00:00:07", pdst="10.0.0.9"),
            "ARP 10.0.0.1 is at 02:00:00:00:00:07, 42 bytes",
        ),
        (
            ETHER / Dot1Q(vlan=5, prio=3) / IPv6(src="fe80::1", dst="fe80::2") / UDP(),
            "VLAN 5, priority 3 UDP fe80::1 > fe80::2, 66 bytes",
        ),
        (Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02", type=0x9999), "type 0x9999, 14 bytes"),
    ],
)
def test_frame_is_said_with_its_ends(frame: Ether, line: str) -> None:
    assert summarize(packed(bytes(frame))) == f"{ENDS} {line}"


def test_marks_of_congestion_are_said() -> None:
    assert " sc 3 fecn becn vesw 9 " in summarize(packed(bytes(ETHER), fecn=1, becn=1))


def test_mad_is_said_with_what_it_asks() -> None:
    mad = bytearray(2048)
    mad[:24] = bytes.fromhex("8034800200000000" + f"{0x77:016x}" + "00110000" + "00000003")
    line = summarize(build_fm_packet(1, 2, 0, 0xFFFF, 1, 1, bytes(mad), Icrc()))
    assert line == "0x1 > 0x2 sc 0 MAD Set VeswPortInfo vport 3 tid 0x77"


@given(st.binary(max_size=120), st.integers(0, 120))
def test_any_bytes_are_one_line(data: bytes, cut: int) -> None:
    frame = packed(bytes(ETHER / Dot1Q() / ARP()))
    for packet in (data, frame[:cut], frame[:cut] + data, bytes([*frame[:8], 0x08]) + frame[9:cut] + data):
        line = summarize(packet)
        assert line
        assert line.isprintable()


def test_9b_packets_are_told_by_their_mad_or_their_opcode() -> None:
    mad = MadHeader(mgmt_class=MadClass.SUBN_ADM, method=Method.GET, tid=9, attr_id=1).build()
    packet = build_mad_9b((2, 0xC001), 0, 0, 0xFFFF, (1, 1), mad, Icrc())
    assert summarize(packet) == "0x2 > 0xf00001 sc 0 9B MAD Get ClassPortInfo of class 0x3 tid 0x9"
    bare = bytearray(bare_9b(packet))
    bare[13:16] = bytes([0, 1, 2])
    assert summarize(carry_9b(bytes(bare), Icrc())).endswith("9B opcode 0x64 to QP 0x102, 72 bytes")
    for size in range(len(packet)):
        summarize(packet[:size])
