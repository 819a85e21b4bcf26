"""Encapsulation: the 20 bytes in front of a frame. The recorded vectors say the same in bulk."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfi_sim.base.types import MacAddr
from hfi_sim.wire.icrc import Icrc
from hfi_sim.wire.lrh16b import EthernetL4, Lrh16B
from hfi_sim.wire.packet import Packet16B, pad_count, seal_packet, wire_length_qw
from opavnic.vnic.encap import HEADER_SIZE, Forwarding, pad_frame, pbc
from opavnic.vnic.mac_table import MacTable
from vema.attributes.mac_entries import MacEntry
from vema.attributes.vesw_port_info import RcShift, VeswPortInfo
from vema.base.lmac import Lmac

INFO = VeswPortInfo(
    fabric_id=0x301,
    vesw_id=0x102,
    pkey=0x8005,
    encap_slid=0x123456,
    u_mcast_dlid=0xF00001,
    def_port_mask=0b1010,
    u_ucast_dlid=(0, 0x11, 0, 0x33) + (0,) * 12,
    rc=sum(value << shift for value, shift in enumerate(range(0, 28, 4), 1)),
    pcp_to_sc_uc=bytes(range(8)),
    pcp_to_sc_mc=bytes(range(8, 16)),
    pcp_to_vl_uc=bytes(range(1, 9)),
    pcp_to_vl_mc=bytes(range(2, 10)),
    non_vlan_sc_uc=20,
    non_vlan_sc_mc=21,
    non_vlan_vl_uc=3,
    non_vlan_vl_mc=4,
)
LOCAL = Lmac(0x301, 0x102, 0xABCDE).build()
BURNT_IN = bytes.fromhex("001122334455")
BROADCAST = b"\xff" * 6


def frame(dest: bytes, kind: str = "88b5", payload: bytes = b"") -> bytes:
    return pad_frame(dest + b"\x02\0\0\0\0\x09" + bytes.fromhex(kind) + payload)


def header(
    info: VeswPortInfo, data: bytes, table: MacTable | None = None, flow_hash: int = 0x1234
) -> Lrh16B | None:
    built = Forwarding(info, table or MacTable()).encap(data, flow_hash)
    return None if built is None else Lrh16B.parse(built[0])


def test_header_carries_the_whole_configuration() -> None:
    built = Forwarding(INFO, MacTable()).encap(frame(LOCAL), 0x56781234)
    assert built is not None
    header, dlid = built
    assert len(header) == 20
    assert dlid == Lrh16B.parse(header).dlid
    assert Lrh16B.parse(header) == Lrh16B(
        slid=0x123456,
        dlid=0xABCDE,
        length_qw=11,
        sc=20,
        rc=1,
        l4=0x78,
        pkey=0x8005,
        entropy=0x12 ^ 0x34 ^ 0x56 ^ 0x78,
    )
    assert EthernetL4.parse(header[16:]) == EthernetL4(0x102)


# where it goes


@pytest.mark.parametrize(
    ("dest", "dlid"), [(LOCAL, 0xABCDE), (BROADCAST, 0xF00001), (b"\x01\0\x5e\0\0\1", 0xF00001)]
)
def test_destination_without_a_table(dest: bytes, dlid: int) -> None:
    built = header(INFO, frame(dest))
    assert built is not None
    assert built.dlid == dlid


@pytest.mark.parametrize("dest", [LOCAL, BROADCAST, BURNT_IN])
def test_table_comes_before_everything(dest: bytes) -> None:
    table = MacTable().replace_section(0, [MacEntry(MacAddr(dest), bytes(6), 0x77 << 8)], 0)
    built = header(INFO, frame(dest), table)
    assert built is not None
    assert built.dlid == 0x77


def test_local_address_with_lid_0_is_an_error_and_takes_no_default_port() -> None:
    assert header(INFO, frame(Lmac(1, 1, 0).build())) is None


@given(st.integers(0, 0xFFFFFFFF), st.integers(1, 0xFFFF))
def test_default_port_is_chosen_by_flow_among_the_set_bits(flow_hash: int, mask: int) -> None:
    ports = [port for port in range(16) if mask >> port & 1]
    info = replace(INFO, def_port_mask=mask, u_ucast_dlid=tuple(range(0x40, 0x50)))
    built = header(info, frame(BURNT_IN), flow_hash=flow_hash)
    assert built is not None
    flow = (built.entropy & 15) + (built.entropy >> 4)
    assert built.dlid == 0x40 + ports[flow % len(ports)]


def test_no_default_port_is_no_destination() -> None:
    assert header(replace(INFO, def_port_mask=0), frame(BURNT_IN)) is None


def test_no_multicast_group_is_no_destination() -> None:
    assert header(replace(INFO, u_mcast_dlid=0), frame(BROADCAST)) is None


def test_quirk_configured_lid_beyond_24_bits_is_sent_with_lid_0() -> None:
    built = header(replace(INFO, u_mcast_dlid=0x1000000), frame(BROADCAST))
    assert built is not None
    assert built.dlid == 0


def test_quirk_sc_beyond_31_runs_over_into_rc() -> None:
    built = header(replace(INFO, non_vlan_sc_uc=0x3F, rc=0), frame(LOCAL))
    assert built is not None
    assert (built.sc, built.rc) == (0x1F, 1)


# how it travels

V4, V6 = b"\x45" + bytes(19), b"\x60" + bytes(39)


def with_byte(packet: bytes, at: int, value: int) -> bytes:
    return packet[:at] + bytes([value]) + packet[at + 1 :]


@pytest.mark.parametrize(("kind", "payload", "shift"), [
    ("0806", b"", RcShift.DEFAULT),
    ("0800", with_byte(V4, 9, 1), RcShift.IPV4),
    ("0800", with_byte(V4, 9, 17), RcShift.IPV4_UDP),
    ("0800", with_byte(V4, 9, 6), RcShift.IPV4_TCP),
    ("0800", b"", RcShift.IPV4),
    ("86dd", with_byte(V6, 6, 58), RcShift.IPV6),
    ("86dd", with_byte(V6, 6, 0), RcShift.IPV6),
    ("86dd", with_byte(V6, 6, 6), RcShift.IPV6_TCP),
    ("86dd", with_byte(V6, 6, 17), RcShift.IPV6_UDP),
])  # fmt: skip
@pytest.mark.parametrize("tags", ["", "8100a005", "88a820058100a005"])
def test_rc_follows_the_innermost_ethertype_and_protocol(
    tags: str, kind: str, payload: bytes, shift: int
) -> None:
    built = header(INFO, frame(LOCAL, tags + kind, payload))
    assert built is not None
    assert built.rc == INFO.rc >> shift & 7


@pytest.mark.parametrize("tpid", ["8100", "88a8"])
@pytest.mark.parametrize("pcp", range(8))
def test_tagged_frame_uses_its_priority(tpid: str, pcp: int) -> None:
    forwarding = Forwarding(INFO, MacTable())
    tag = f"{tpid}{pcp << 13 | 5:04x}"
    for dest, sc, vl in ((LOCAL, pcp, pcp + 1), (BROADCAST, 8 + pcp, pcp + 2)):
        data = frame(dest, tag + "8100e0010800")
        built = forwarding.encap(data, 0)
        assert built is not None
        assert Lrh16B.parse(built[0]).sc == sc
        assert forwarding.vl(data) == vl


@pytest.mark.parametrize(("dest", "sc", "vl"), [(LOCAL, 20, 3), (BROADCAST, 21, 4)])
def test_untagged_frame_uses_the_values_for_untagged(dest: bytes, sc: int, vl: int) -> None:
    built = header(INFO, frame(dest))
    assert built is not None
    assert built.sc == sc
    assert Forwarding(INFO, MacTable()).vl(frame(dest)) == vl


def test_tag_beside_the_frame_selects_the_lane_alone() -> None:
    assert Forwarding(INFO, MacTable()).vl(frame(LOCAL), 5 << 13) == 6


# lengths


@pytest.mark.parametrize(("size", "length_qw", "pad"), [
    (14, 11, 3), (60, 11, 3), (61, 11, 2), (63, 11, 0), (64, 12, 7), (71, 12, 0), (1514, 193, 5), (10018, 1256, 5),
])  # fmt: skip
def test_length_and_pad_of_a_frame(size: int, length_qw: int, pad: int) -> None:
    data = pad_frame(LOCAL + bytes(size - 6))
    built = header(INFO, data)
    assert built is not None
    assert built.length_qw == length_qw == wire_length_qw(HEADER_SIZE + len(data))
    assert pad_count(HEADER_SIZE + len(data)) == pad


@given(st.integers(60, 16351))
def test_sealed_packet_agrees_with_its_length(size: int) -> None:
    data = LOCAL + bytes(size - 6)
    built = Forwarding(INFO, MacTable()).encap(data, 0)
    assert built is not None
    packet = Packet16B.parse(seal_packet(built[0] + data, Icrc()))
    assert packet.payload[4:] == data


def test_pbc_counts_words_and_carries_the_lane() -> None:
    assert f"{pbc(11, 5):016x}" == "000000001b005018"
