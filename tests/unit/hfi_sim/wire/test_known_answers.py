"""Packets as the public Linux driver makes them: the recorded wire bytes, where pad and ICRC are placeholders."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hfi_sim.wire.icrc import Icrc
from hfi_sim.wire.lrh16b import EthernetL4, Lrh16B
from hfi_sim.wire.packet import Packet16B, build_packet, seal_packet, strip

VECTORS = Path(__file__).parents[3] / "vectors" / "encap-1.jsonl.gz"


def recorded() -> Iterator[dict[str, Any]]:
    """The cases with whole wire bytes."""
    with gzip.open(VECTORS, "rt") as lines:
        for case in map(json.loads, lines):
            if case["expect"].get("wire"):
                yield case


@pytest.mark.skipif(not VECTORS.exists(), reason=f"{VECTORS.name} is not in tests/vectors")
def test_recorded_driver_packets_parse_and_build_the_same() -> None:
    cases = 0
    for case in recorded():
        wire, expect = bytes.fromhex(case["expect"]["wire"]), case["expect"]

        packet = Packet16B.parse(wire)

        assert packet.build() == wire
        assert (packet.lrh.length_qw, packet.pad_count) == (expect["len_qw"], expect["pad_count"])
        assert EthernetL4.parse(packet.payload).vesw_id == case["cfg"]["vesw_id"]
        built = build_packet(packet.lrh, packet.payload, Icrc())
        assert built[:-5] == wire[:-5]
        assert built[-1] == 0x40 | wire[-1]
        assert built == seal_packet(wire[:16] + strip(wire), Icrc())
        cases += 1
    assert cases > 900


def test_smallest_vnic_packet_is_known_to_the_byte() -> None:
    # By hand: SLID 5, DLID 7, P_Key 0x8002, vesw 2, a 60-byte frame of zeros: 11 quad words, 3 pad bytes.
    header = bytes.fromhex("0500b000 070000c0 78000280 00000000")

    packet = build_packet(Lrh16B(5, 7, l4=0x78, pkey=0x8002), EthernetL4(2).build() + bytes(60), Icrc())

    assert packet[:20] == header + bytes.fromhex("00000200")
    assert packet[20:83] == bytes(63)
    assert packet[83:] == bytes.fromhex("0dc8235d") + b"\x43"
