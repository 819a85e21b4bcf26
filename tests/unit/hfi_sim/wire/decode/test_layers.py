"""scapy layers: what people build and dissect is what the datapath builds and reads."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from hfi_sim.base.errors import WireError
from hfi_sim.wire.decode.layers import OPA16B, OPAFM, OPAEthernet
from hfi_sim.wire.decode.mad_layers import OPAMad, OPAVendorMad
from hfi_sim.wire.icrc import Icrc
from hfi_sim.wire.l4 import L4, EthernetL4
from hfi_sim.wire.lrh16b import Lrh16B
from hfi_sim.wire.mad.header import EMA_OUI, MadHeader, build_fm_packet
from hfi_sim.wire.packet import build_packet, check_packet, parse_packet
from unit.hfi_sim.wire.wire_strategies import L4_TYPES, PAYLOADS, headers

ICRC = Icrc()
FRAME = (
    Ether(dst="06:2c:00:05:00:00", src="06:2c:00:07:00:00")
    / IP(src="10.9.2.1", dst="10.9.2.2")
    / UDP()
    / b"hi"
)


def test_build_vnic_packet_equals_the_datapaths() -> None:
    built = bytes(OPA16B(slid=5, dlid=0xF00001, pkey=0x8002, sc=3) / OPAEthernet(vesw_id=2) / FRAME)

    lrh = Lrh16B(5, 0xF00001, sc=3, l4=L4.ETHERNET, pkey=0x8002)
    assert built == build_packet(lrh, EthernetL4(2).build() + bytes(FRAME), ICRC)


def test_build_mad_packet_equals_the_datapaths() -> None:
    header = MadHeader(mgmt_class=0x34, method=1, tid=9, attr_id=0x11, attr_mod=2)
    layers = OPAMad(tid=9, attr_id=0x11, attr_mod=2) / OPAVendorMad()

    built = bytes(OPA16B(slid=5, dlid=7) / OPAFM() / layers)

    mad = header.build() + bytes(13) + bytes.fromhex("00066a")
    assert built == build_fm_packet(5, 7, 0, 0xFFFF, 1, 1, mad, ICRC)


def test_dissect_vnic_packet_shows_every_layer() -> None:
    packet = OPA16B(bytes(OPA16B(slid=0x123456, dlid=7) / OPAEthernet(vesw_id=2) / FRAME))

    assert (packet.slid, packet.dlid, packet.l4) == (0x123456, 7, L4.ETHERNET)
    assert packet[OPAEthernet].vesw_id == 2
    assert packet[IP].dst == "10.9.2.2"
    assert packet[UDP].payload.load == b"hi"


def test_dissect_mad_packet_shows_every_layer() -> None:
    packet = OPA16B(bytes(OPA16B() / OPAFM(dest_qp=1, src_qp=5) / OPAMad(attr_id=0x20) / OPAVendorMad()))

    assert (packet[OPAFM].src_qp, packet[OPAMad].attr_id, packet[OPAVendorMad].oui) == (5, 0x20, EMA_OUI)


def test_dissect_frame_with_ethernet_padding_keeps_it_before_the_icrc() -> None:
    padded = bytes(FRAME).ljust(60, b"\0")
    packet = build_packet(Lrh16B(5, 7, l4=L4.ETHERNET), EthernetL4(2).build() + padded, ICRC)

    rebuilt = OPA16B(packet)
    del rebuilt.icrc, rebuilt.pad, rebuilt.tail, rebuilt.length_qw

    assert bytes(OPA16B(packet)) == packet
    assert bytes(rebuilt) == packet


@given(headers(l4=L4_TYPES), PAYLOADS)
def test_dissect_and_rebuild_any_packet_gives_the_same_bytes(lrh: Lrh16B, payload: bytes) -> None:
    packet = build_packet(lrh, payload, ICRC)

    dissected = OPA16B(packet)

    assert bytes(dissected) == packet
    assert {name: dissected.getfieldval(name) for name in ("slid", "dlid", "sc", "rc", "entropy", "age")} == {
        name: getattr(lrh, name) for name in ("slid", "dlid", "sc", "rc", "entropy", "age")
    }


@given(headers(l4=L4_TYPES), PAYLOADS, st.integers(0, 0xFF), st.integers(0, 0xFFFFFFFF))
def test_dissect_and_rebuild_a_packet_with_any_trailer_gives_the_same_bytes(
    lrh: Lrh16B, payload: bytes, tail: int, icrc: int
) -> None:
    packet = build_packet(lrh, payload, ICRC)[:-5] + icrc.to_bytes(4, "little") + bytes([tail])

    dissected = OPA16B(packet)

    assert bytes(dissected) == packet
    assert (dissected.icrc, dissected.tail) == (icrc, tail)


@given(st.binary(max_size=100))
def test_build_any_payload_passes_the_port_check(payload: bytes) -> None:
    packet = bytes(OPA16B(slid=5, dlid=7, l4=0x55) / payload)

    assert check_packet(packet, ICRC) is None
    assert parse_packet(packet).payload == payload


def test_change_after_dissecting_is_in_the_bytes() -> None:
    packet = OPA16B(bytes(OPA16B(slid=5, dlid=7) / OPAEthernet(vesw_id=2) / FRAME))

    packet[OPAEthernet].vesw_id = 3
    del packet.icrc

    assert check_packet(bytes(packet), ICRC) is None
    assert parse_packet(bytes(packet)).payload[:4] == EthernetL4(3).build()


def test_dissect_damaged_length_still_shows_the_header() -> None:
    packet = OPA16B(bytes(OPA16B(slid=5, dlid=7) / OPAEthernet(vesw_id=2) / FRAME)[:40])

    assert (packet.slid, packet.icrc, packet[OPAEthernet].vesw_id) == (5, None, 2)


def test_dissect_less_than_a_header_raises_wire_error() -> None:
    with pytest.raises(WireError, match="the 16B header needs 16"):
        OPA16B(b"\0" * 15)


def test_build_value_too_wide_names_the_field() -> None:
    with pytest.raises(ValueError, match="slid 0x1000000 does not fit 24 bits"):
        bytes(OPA16B(slid=1 << 24))


def test_icrc_algorithm_of_a_subclass_is_used() -> None:
    class Other16B(OPA16B):
        icrc_algorithm = Icrc(0x1EDC6F41)

    packet = bytes(Other16B(slid=5, dlid=7, l4=0x55) / b"payload")

    assert Icrc(0x1EDC6F41).check(packet)
    assert not ICRC.check(packet)
