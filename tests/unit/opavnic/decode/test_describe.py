"""Descriptions: every field where it stands, meanings where known, faults beside what can still be read."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfi_sim.base.errors import WireError
from hfi_sim.wire.icrc import Icrc
from hfi_sim.wire.lrh16b import L4, EthernetL4, Lrh16B
from hfi_sim.wire.mad.attributes import SubnetAttrId
from hfi_sim.wire.mad.fm_packet import build_fm_packet
from hfi_sim.wire.mad.header import MadClass, MadHeader, Method
from hfi_sim.wire.packet import build_packet
from hfi_sim.wire.packet_9b import build_mad_9b
from opavnic.decode.describe import Description, describe_frame, describe_packet
from opavnic.management.management_layout import layers
from unit.hfi_sim.wire.wire_strategies import L4_TYPES, PAYLOADS, headers

ICRC = Icrc()
FRAME = bytes.fromhex(
    "062c00050000 02005e000001 81006005 0800 4500003c0000000040010000 0a090201 0a090202".replace(" ", "")
) + bytes(36)
PACKET = build_packet(Lrh16B(5, 0xF00001, l4=L4.ETHERNET, pkey=0x8002), EthernetL4(2).build() + FRAME, ICRC)


def line(described: Description, layer: str, name: str) -> tuple[str, int | str, str]:
    """Position, value and meaning of one field."""
    return next((f.where, f.value, f.meaning) for f in described.fields if (f.layer, f.name) == (layer, name))


def test_describe_vnic_packet_names_positions_as_the_document_does() -> None:
    described = describe_packet(PACKET, ICRC)

    assert line(described, "16B", "length_qw")[0] == "QW0 20-30"
    assert line(described, "16B", "slid_high") == ("QW1 8-11", 0, "source LID, bits 23:20: LID 0x5")
    assert line(described, "16B", "dlid_high")[2].endswith("LID 0xf00001, multicast")
    assert line(described, "16B", "pkey")[1:] == (0x8002, "partition 0x2, full member")
    assert line(described, "Ethernet L4", "vesw_id") == ("QW2 16-31", 2, "virtual Ethernet switch 2")
    assert line(described, "trailer", "icrc")[2] == "matches"
    assert line(described, "trailer", "lt")[1:] == (1, "tail flit")
    assert described.faults == []


def test_describe_vnic_packet_reads_the_frame() -> None:
    described = describe_packet(PACKET, ICRC)

    assert line(described, "Ethernet", "destination") == (
        "byte 20-25",
        "06:2c:00:05:00:00",
        "locally administered; a VNIC's says fabric 0x301, vesw 2, LID 0x5",
    )
    assert line(described, "VLAN", "tci")[2] == "VLAN 5, priority 3"
    assert line(described, "Ethernet", "type")[2] == "IPv4"
    assert "ICMP 10.9.2.1 > 10.9.2.2" in line(described, "Ethernet", "payload")[2]


def test_describe_mad_packet_names_class_method_and_attribute() -> None:
    header = MadHeader(mgmt_class=0x34, method=0x81, status=0x1C, tid=9, attr_id=0x12, attr_mod=3)
    mad = header.build() + bytes(13) + bytes.fromhex("00066a")

    described = describe_packet(build_fm_packet(5, 7, 0, 0xFFFF, 1, 1, mad, ICRC), ICRC)

    assert line(described, "MAD", "method")[2] == "GetResp"
    assert line(described, "MAD", "attr_id") == ("byte 40-41", 0x12, "MacEntries")
    assert line(described, "MAD", "attr_mod")[2] == "vport 3"
    assert line(described, "MAD", "status")[2] == "a value in attribute or modifier is wrong"
    assert line(described, "vendor", "oui") == ("byte 61-63", "00066a", "the OUI of the VNIC's management")
    assert line(described, "trailer", "pad")[2] == "3 bytes, zero"


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        (lambda p: p[:50], "Length says 13 quad words, 104 bytes, but there are 50"),
        (lambda p: p + b"more", "Length says 13 quad words, 104 bytes, but there are 108"),
        (lambda p: p[:7] + bytes([p[7] & 0x9F]) + p[8:], "L2 is 0, a 16B packet has 2"),
        (lambda p: p[:40] + b"\xff" + p[41:], "ICRC is"),
        (lambda p: p[:-1] + b"\x78", "last byte is 0x78"),
    ],
)
def test_describe_damaged_packet_reads_on_and_says_what_is_wrong(
    damage: Callable[[bytes], bytes], fault: str
) -> None:
    described = describe_packet(damage(PACKET), ICRC)

    assert fault in str(described.faults[0])
    assert line(described, "Ethernet L4", "vesw_id")[1] == 2


def test_describe_without_icrc_does_not_check_it() -> None:
    described = describe_packet(PACKET[:40] + b"\xff" + PACKET[41:], None)

    assert described.faults == []
    assert line(described, "trailer", "icrc")[2] == "not checked"


def test_describe_less_than_a_header_raises() -> None:
    with pytest.raises(WireError, match="15 bytes, the 16B header needs 16"):
        describe_packet(PACKET[:15], ICRC)


def test_describe_frame_alone_starts_at_byte_0() -> None:
    described = describe_frame(FRAME)

    assert line(described, "Ethernet", "destination")[0] == "byte 0-5"
    assert described.header is None


def test_describe_frame_shorter_than_its_header_is_a_fault() -> None:
    described = describe_frame(FRAME[:13])

    assert "13 bytes, the Ethernet header needs 14" in str(described.faults[0])


@given(headers(l4=L4_TYPES), PAYLOADS)
def test_describe_any_packet_covers_every_byte_once(lrh: Lrh16B, payload: bytes) -> None:
    described = describe_packet(build_packet(lrh, payload, ICRC), ICRC)

    covered = []
    for item in described.fields:
        unit, _, span = item.where.partition(" ")
        first, _, last = span.partition("-")
        scale, base = (8, 0) if unit == "byte" else (1, int(unit[2:]) * 64)
        covered += range(base + int(first) * scale, base + (int(last or first) + 1) * scale)
    assert covered == list(range(described.size * 8))


@given(st.binary(min_size=16, max_size=120))
def test_describe_any_bytes_gives_a_description(data: bytes) -> None:
    described = describe_packet(data, ICRC)

    assert described.header == Lrh16B.parse(data)
    assert described.fields


def test_a_9b_packet_is_described_to_its_icrc_and_damage_is_a_fault() -> None:
    mad = MadHeader(mgmt_class=MadClass.SUBN_ADM, method=Method.GET, tid=9, attr_id=1).build()
    packet = build_mad_9b((2, 3), 5, 1, 0xFFFF, (1, 1), mad + bytes(8), ICRC)
    described = describe_packet(packet, ICRC)
    found = {(line.layer, line.name): line for line in described.fields}
    assert [*dict.fromkeys(line.layer for line in described.fields)] == [
        "head", "LRH", "BTH", "DETH", "MAD", "ICRC",
    ]  # fmt: skip
    assert (found["LRH", "dlid"].value, found["BTH", "dest_qp"].value, found["MAD", "tid"].value) == (3, 1, 9)
    assert found["head", "sc"].value == 5
    assert (found["ICRC", "icrc"].meaning, described.faults) == ("matches", [])
    damaged = packet[:60] + bytes([packet[60] ^ 1]) + packet[61:]
    (fault,) = describe_packet(damaged, ICRC).faults
    assert "a port drops it: rx_icrc" in str(fault)
    for size in range(16, len(packet)):
        describe_packet(packet[:size], ICRC)


def test_number_has_the_form_of_its_kind_wherever_it_stands() -> None:
    """Keys and LIDs in hex, ids and channels in decimal: alone, in a list, and in words."""
    lrh = Lrh16B(0x1F, 0x20, sc=11, l4=L4.ETHERNET, pkey=0x8001)
    shown = describe_packet(build_packet(lrh, EthernetL4(vesw_id=20).build() + bytes(70), ICRC), ICRC)
    texts = {field.name: field.text for field in shown.fields}
    assert (texts["pkey"], texts["slid_low"], texts["dlid_low"]) == ("0x8001", "0x1f", "0x20")
    assert (texts["vesw_id"], texts["sc"], texts["length_qw"]) == ("20", "11", "12")
    assert "LID 0x1f" in line(shown, "16B", "slid_high")[2]
    keys = bytes.fromhex("8001ffff").ljust(64, b"\0")
    mad = MadHeader(
        mgmt_class=MadClass.SUBN_LID,
        method=Method.GET_RESP,
        attr_id=SubnetAttrId.PARTITION_TABLE,
        attr_mod=1 << 24,
        tid=1,
    )
    table = describe_packet(
        build_fm_packet(1, 2, 15, 0xFFFF, 0, 0, mad.build() + bytes(8) + keys, ICRC), ICRC, layers
    )
    (keys_text,) = [field.text for field in table.fields if field.name == "pkeys"]
    assert keys_text.startswith("0x8001, 0xffff, 0x0")
