"""The Wireshark dissectors, run by tshark: they say of a packet what our own decoder says of it."""

from __future__ import annotations

import itertools
import random
import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import ARP, Ether

from hfi_sim.base.types import MacAddr
from hfi_sim.fabric.topology.generators import single_switch
from hfi_sim.wire import lrh16b
from hfi_sim.wire.header import Header, WireHeader
from hfi_sim.wire.icrc import Icrc
from hfi_sim.wire.lrh16b import L2_16B, L4, LT_HEAD, EthernetL4, FmHeader, Lrh16B
from hfi_sim.wire.mad import header as mad_header
from hfi_sim.wire.mad.fm_packet import build_fm_packet
from hfi_sim.wire.mad.header import MAD_SIZE, MadClass, MadHeader, Method, RmppHeader, VendorHeader
from hfi_sim.wire.packet import Packet16B, build_packet, seal_packet
from hfi_sim.wire.reliable_header import RcFlags, RcHeader, RcOpcode
from opavnic.conformance.encap import EncapCase
from opavnic.conformance.result import read_cases
from opavnic.scenario import Scenario, run_virtual
from opavnic.vnic.encap import pad_frame
from unit.opavnic.observe.tshark import Dissected, Tshark, needs_tshark, write_pcap
from vema.attributes.attr_id import AttrId
from vema.attributes.class_port_info import ClassPortInfo, Notice
from vema.attributes.counters import ErrorCounters, SummaryCounters
from vema.attributes.iface_macs import IfaceMacs
from vema.attributes.mac_entries import MAX_SECTION, MacEntries, MacEntry
from vema.attributes.vesw_port_info import VeswPortInfo
from vema.base.types import EMA_OUI, ConfigState, EthLinkStatus, MadStatus

pytestmark = needs_tshark
VECTORS = Path(__file__).parents[3] / "vectors" / "encap-1.jsonl.gz"
ATTRIBUTE_AT = lrh16b.SIZE + FmHeader.SIZE + mad_header.DATA_OFFSET_VENDOR
ATTRIBUTES = {
    "class-port-info": ClassPortInfo.HEADER,
    "notice": Notice.HEADER,
    "vesw-port-info": VeswPortInfo.HEADER,
    "mac-entries": MacEntries.LAYOUT,
    "mac-entry": MacEntry.HEADER,
    "iface-macs": IfaceMacs.LAYOUT,
    "summary-counters": SummaryCounters.HEADER,
    "error-counters": ErrorCounters.HEADER,
}
SENT = [
    ("class-port-info", AttrId.CLASS_PORT_INFO, b""),
    ("notice", AttrId.NOTICE, b""),
    ("vesw-port-info", AttrId.VESW_PORT_INFO, b""),
    ("mac-entries", AttrId.MAC_ENTRIES, b"\0\5\0\x7d"),
    ("iface-macs", AttrId.IFACE_UCAST_MACS, b"\0\0\1\x4d"),
    ("iface-macs", AttrId.IFACE_MCAST_MACS, b"\0\0\1\x4d"),
    ("vesw-port-info", AttrId.DELETE_VESW, b""),
    ("summary-counters", AttrId.SUMMARY_COUNTERS, b""),
    ("error-counters", AttrId.ERROR_COUNTERS, b""),
]
"""The layout of each attribute, and how its data begin where tshark counts what follows."""
ICRC = Icrc()
ETHER = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
FRAME = bytes(ETHER / ARP(psrc="10.9.2.1", pdst="10.9.2.2")).ljust(60, b"\0")


@pytest.fixture(scope="module")
def tshark(tmp_path_factory: pytest.TempPathFactory) -> Tshark:
    """tshark as after `opavnic install-dissectors`."""
    return Tshark(tmp_path_factory.mktemp("home"))


def ethernet(frame: bytes = FRAME, **header: Any) -> bytes:
    """A packet of virtual switch 2 from LID 5 to LID 7, unless `header` says otherwise."""
    lrh = Lrh16B(**{"slid": 5, "dlid": 7, "l4": L4.ETHERNET, "pkey": 0x8002, **header})
    return build_packet(lrh, EthernetL4(2).build() + frame, ICRC)


def ema(
    method: int,
    attr_id: int,
    data: bytes = b"",
    *,
    slid: int = 1,
    dlid: int = 2,
    oui: bytes = EMA_OUI,
    **header: int,
) -> bytes:
    """A packet with a MAD of the agents' class about vport 1."""
    values = {"mgmt_class": MadClass.EMA, "tid": 0xABC, "attr_mod": 1, **header}
    head = MadHeader(method=method, attr_id=attr_id, **values).build()
    rmpp = bytes(mad_header.RmppHeader.SIZE)
    return build_fm_packet(
        slid, dlid, 0, 0xFFFF, 1, 1, (head + rmpp + b"\0" + oui + data).ljust(MAD_SIZE, b"\0"), ICRC
    )


def check_layout(shown: Dissected, prefix: str, declared: Header, packet: bytes, start: int) -> None:
    """Every field of a declaration has its place and its bytes in what tshark shows."""
    for place in declared.places:
        if place.name == "entries":
            continue
        found = shown.fields[f"{prefix}.{place.name}"]
        at = start + place.offset
        assert found[0].offset == at, place.name
        assert "".join(one.hex for one in found) == packet[at : at + place.size].hex(), place.name


def check_header(shown: Dissected, prefix: str, header: type[WireHeader], packet: bytes, start: int) -> None:
    """Every field of a header of whole bytes has its place and its bytes in what tshark shows."""
    for place in header.HEADER.places:
        (found,) = shown.fields[f"{prefix}.{place.name}"]
        at = start + place.offset
        assert (found.offset, found.hex) == (at, packet[at : at + place.size].hex()), place.name


def test_header_fields_are_those_of_our_parser(tshark: Tshark, tmp_path: Path) -> None:
    rng = random.Random(1)
    packets = []
    for _ in range(64):
        values = {name: rng.getrandbits(field.bits) for name, field in Lrh16B.HEADER.fields.items()}
        lrh = Lrh16B(**{**values, "l2": L2_16B, "lt": LT_HEAD, "l4": rng.choice([0, *L4])})
        packets.append(build_packet(lrh, rng.randbytes(rng.randrange(8, 100)), ICRC))
    shown = tshark.dissect(write_pcap(tmp_path / "x.pcap", packets))
    for packet, fields in zip(packets, shown, strict=True):
        parsed = Packet16B.parse(packet)
        for name, value in asdict(parsed.lrh).items():
            filter_name = "opa.header.reserved" if name == "reserved" else f"opa.{name}"
            assert fields.number(filter_name) == value, name
        assert fields["opa.icrc.status"] == "1"
        assert fields.number("opa.icrc") == parsed.icrc
        assert fields.number("opa.tail") == parsed.pad_count
        assert fields.number("opa.tail.lt") == parsed.tail >> 6
        assert len(fields.fields.get("opa.pad", [])) == (parsed.pad_count > 0)


def test_recorded_packets_show_ends_switch_and_inner_addresses(tshark: Tshark, tmp_path: Path) -> None:
    cases = [case for case in read_cases(VECTORS, EncapCase.parse) if case.expect["hdr"] is not None][:200]
    frames = [pad_frame(case.situation.frame) for case in cases]
    packets = [
        seal_packet(case.expect["hdr"] + frame, ICRC) for case, frame in zip(cases, frames, strict=True)
    ]
    names = "slid", "dlid", "sc", "rc", "pkey", "entropy", "vesw_id", "icrc.status"
    capture = write_pcap(tmp_path / "x.pcap", packets)
    rows = tshark.columns(capture, *(f"opa.{name}" for name in names), "eth.dst", "eth.src", "eth.len")
    assert len(rows) == len(packets) > 100
    for row, packet, frame in zip(rows, packets, frames, strict=True):
        lrh, l4 = Lrh16B.parse(packet), EthernetL4.parse(packet[lrh16b.SIZE :])
        expected = (lrh.slid, lrh.dlid, lrh.sc, lrh.rc, lrh.pkey, lrh.entropy, l4.vesw_id, 1)
        assert tuple(int(value, 0) for value in row[: len(names)]) == expected
        assert row[8:10] == [frame[:6].hex(":"), frame[6:12].hex(":")]


def test_pad_and_icrc_are_no_part_of_the_ethernet_frame(tshark: Tshark, tmp_path: Path) -> None:
    frame = bytes(ETHER / IP() / UDP(sport=40000, dport=40001) / bytes(99))
    (shown,) = tshark.dissect(write_pcap(tmp_path / "x.pcap", [ethernet(frame)]))
    assert not {"eth.trailer", "eth.fcs", "eth.padding"} & set(shown.fields)
    assert shown["udp.length"] == "107"
    assert shown.faults == []


def test_reliable_connection_is_shown(tshark: Tshark, tmp_path: Path) -> None:
    header = RcHeader(RcOpcode.DATA, RcFlags.LAST, tag=3, dst_conn=7, src_conn=8, psn=9, ack=10, sack=0x55)
    lrh = Lrh16B(1, 2, l4=L4.VENDOR_RC)
    packets = [build_packet(lrh, data, ICRC) for data in (header.build() + b"hello", header.build()[:20])]
    whole, cut = tshark.dissect(write_pcap(tmp_path / "x.pcap", packets))
    for name, value in asdict(header).items():
        assert whole.number(f"opa_rc.{name}") == value, name
    assert whole["opa_rc.payload"] == b"hello".hex(":")
    assert (whole.faults, cut.faults) == ([], ["20 bytes, 28 are needed"])
    rows = tshark.columns(tmp_path / "x.pcap", "_ws.col.Protocol", "_ws.col.Info")
    assert rows[0] == ["OPA RC", "DATA 0x8 > 0x7 psn 9 tag 3 ack 10, 5 bytes"]


def test_attribute_fields_stand_where_the_declaration_has_them(tshark: Tshark, tmp_path: Path) -> None:
    packets = []
    for table, attr_id, listed in SENT:
        rng = random.Random(attr_id)
        data = listed + rng.randbytes(ATTRIBUTES[table].size - len(listed))
        values = {"tid": rng.randrange(1 << 64), "reserved": 7, "attr_mod": rng.randrange(1 << 32)}
        packets.append(ema(Method.GET_RESP, attr_id, data, **values))
    dissected = tshark.dissect(write_pcap(tmp_path / "x.pcap", packets))
    mad_at = lrh16b.SIZE + FmHeader.SIZE
    for (table, *_), packet, shown in zip(SENT, packets, dissected, strict=True):
        check_layout(shown, "ema." + table.replace("-", "_"), ATTRIBUTES[table], packet, ATTRIBUTE_AT)
        check_header(shown, "ema", MadHeader, packet, mad_at)
        check_header(shown, "ema.rmpp", RmppHeader, packet, mad_at + MadHeader.SIZE)
        check_header(shown, "ema", VendorHeader, packet, mad_at + 36)
        assert shown.faults == [], table


def test_mac_entries_are_shown_one_by_one(tshark: Tshark, tmp_path: Path) -> None:
    rng = random.Random(3)
    entries = [
        MacEntry(MacAddr(rng.randbytes(6)), rng.randbytes(6), rng.randrange(1 << 32))
        for _ in range(MAX_SECTION)
    ]
    packet = ema(Method.SET, AttrId.MAC_ENTRIES, MacEntries(10, 0x1234, tuple(entries)).build())
    (shown,) = tshark.dissect(write_pcap(tmp_path / "x.pcap", [packet]))
    found = {
        name: [one.value for one in shown.fields[f"ema.mac_entry.{name}"]]
        for name in ("mac", "mask", "dlid_sd.dlid")
    }
    assert found["mac"] == [entry.mac.hex(":") for entry in entries]
    assert found["mask"] == [entry.mask.hex(":") for entry in entries]
    assert [int(value, 0) for value in found["dlid_sd.dlid"]] == [entry.dlid for entry in entries]


def test_vesw_port_info_is_what_our_parser_reads(tshark: Tshark, tmp_path: Path) -> None:
    info = VeswPortInfo(
        fabric_id=0x301, vesw_id=2, pkey=0x8002, u_mcast_dlid=0xF00001, u_ucast_dlid=tuple(range(16)), eth_mtu=1500,
        vesw_port_num=3, base_mac=MacAddr(bytes.fromhex("062c00050000")), config_state=ConfigState.FORWARDING,
        oper_state=ConfigState.DROP_ALL, eth_link_status=EthLinkStatus.DOWN, encap_slid=5, rc=0x1234567,
    )  # fmt: skip
    (shown,) = tshark.dissect(
        write_pcap(tmp_path / "x.pcap", [ema(Method.SET, AttrId.VESW_PORT_INFO, info.build())])
    )
    assert [int(one.value, 0) for one in shown.fields["ema.vesw_port_info.u_ucast_dlid"]] == list(
        info.u_ucast_dlid
    )
    assert shown["ema.vesw_port_info.base_mac"] == info.base_mac.hex(":")
    for name, value in asdict(info).items():
        if isinstance(value, int):
            assert shown.number(f"ema.vesw_port_info.{name}") == value, name
    assert shown["ema.vesw_port_info.rc.ipv4_tcp"] == "4"


def test_names_and_meanings_are_those_of_the_declarations(tshark: Tshark) -> None:
    rows = [line.split("\t") for line in tshark.run("-G", "fields").splitlines()]
    known = {row[2]: (row[1], row[-1]) for row in rows if row[0] == "F"}
    for name, declared in ATTRIBUTES.items():
        for place in declared.places:
            if place.name != "entries":
                assert known[f"ema.{name.replace('-', '_')}.{place.name}"] == (place.name, place.meaning)
    headers = {
        "opa": (Lrh16B, EthernetL4, FmHeader),
        "ema": (MadHeader, VendorHeader),
        "ema.rmpp": (RmppHeader,),
    }
    for prefix, places in headers.items():
        for place in itertools.chain.from_iterable(header.HEADER.places for header in places):
            if place.name != "reserved" or prefix != "opa":
                assert known[f"{prefix}.{place.name}"] == (place.name, place.meaning)


def test_filters_of_the_page_are_understood(tshark: Tshark, tmp_path: Path) -> None:
    page = (Path(__file__).parents[4] / "docs" / "how-to" / "capture.md").read_text()
    filters = re.findall(r"`([^`]*\b(?:opa|ema)\.[^`]*)`", page.partition("| filter | finds |")[2])
    one = " || ".join(f"({text})".replace("\\|", "|") for text in filters)
    capture = write_pcap(tmp_path / "x.pcap", [ethernet(slid=9, fecn=1)])
    assert len(tshark.run("-r", str(capture), "-Y", one).splitlines()) == 1


def test_list_of_packets_says_what_each_is(tshark: Tshark, tmp_path: Path) -> None:
    info = VeswPortInfo(vesw_id=2, config_state=ConfigState.FORWARDING).build()
    notice = Notice(
        issuer_lid=2, fabric_id=1, vesw_id=2, vesw_port_num=1, opa_port_num=1, vport_num=4, opcode=3
    )
    packets = [
        ethernet(),
        build_packet(Lrh16B(0x1234567 >> 4, 7, l4=0x55), bytes(20), ICRC),
        ema(Method.SET, AttrId.VESW_PORT_INFO, info),
        ema(Method.GET, AttrId.MAC_ENTRIES, MacEntries(10, 0).build()),
        ema(Method.GET, AttrId.IFACE_UCAST_MACS, bytes(8)),
        ema(Method.GET_RESP, AttrId.IFACE_MCAST_MACS, b"\0\0\0\2\0\5\0\1" + bytes(12)),
        ema(Method.GET_RESP, AttrId.CLASS_PORT_INFO, status=MadStatus.UNSUPPORTED),
        ema(Method.TRAP, AttrId.NOTICE, notice.build(), attr_mod=0),
        ema(Method.GET, 0x0010, mgmt_class=MadClass.SUBN_LID),
        ema(Method.GET, 0x99, oui=b"\1\2\3"),
    ]
    columns = [f"_ws.col.{name}" for name in ("Protocol", "Info")]
    rows = tshark.columns(write_pcap(tmp_path / "x.pcap", packets), *columns)
    ends = "0x1 > 0x2 tid 0xabc"
    assert rows == [
        ["ARP", "Who has 10.9.2.2? Tell 10.9.2.1"],
        ["OPA 16B", "SLID 0x123456 > DLID 0x7 L4 0x55"],
        ["OPA EMA", f"Set VeswPortInfo vport 1, {ends}: vesw 2, forwarding"],
        ["OPA EMA", f"Get MacEntries vport 1, {ends}: 0 entries from 10"],
        ["OPA EMA", f"Get IfaceUcastMacs vport 1, {ends}: from 0"],
        ["OPA EMA", f"GetResp IfaceMcastMacs vport 1, {ends}: 2 of 5 from 0"],
        ["OPA EMA", f"GetResp ClassPortInfo, {ends}, status 0x000c: method and attribute do not go together"],
        ["OPA EMA", f"Trap Notice, {ends}: vport 4, link status changed"],
        ["OPA SM", f"Get NodeDescription, {ends}"],
        ["OPA MAD", f"Get attribute 0x0099 vport 1, {ends}"],
    ]


def test_response_leads_to_its_request_over_all_links(tshark: Tshark, tmp_path: Path) -> None:
    question = ema(Method.GET, AttrId.CLASS_PORT_INFO)
    answer = ema(Method.GET_RESP, AttrId.CLASS_PORT_INFO, bytes(80), slid=2, dlid=1)
    stranger = ema(Method.GET_RESP, AttrId.CLASS_PORT_INFO, bytes(80), slid=3, dlid=1)
    packets = [question, question, answer, answer, stranger, question]
    capture = write_pcap(tmp_path / "x.pcap", packets)
    rows = tshark.dissect(capture, "-2")
    links = [(row.fields.get("ema.response_in"), row.fields.get("ema.response_to")) for row in rows]
    numbers = [tuple(None if found is None else int(found[0].value) for found in pair) for pair in links]
    assert numbers == [(3, None), (3, None), (None, 1), (None, 1), (None, None), (None, None)]


def test_capture_of_a_scenario_opens_without_a_fault(tshark: Tshark, tmp_path: Path) -> None:
    capture = tmp_path / "x.pcapng"

    async def record() -> None:
        async with Scenario(single_switch(2), seed=7) as scenario:
            await scenario.em.vesw("blue", members=["h1", "h2"])
            assert await scenario.hosts["h1"].ping(scenario.hosts["h2"]) == 1
            assert scenario.write_pcapng(capture) > 0

    run_virtual(record())
    packets = tshark.dissect(capture, "-2")
    assert [packet["opa.icrc.status"] for packet in packets] == ["1"] * len(packets)
    mads = [packet for packet in packets if "ema.method" in packet.fields]
    assert [packet.faults for packet in mads if packet.faults] == []
    answers = [packet for packet in mads if packet.number("ema.method") == Method.GET_RESP]
    assert [packet for packet in answers if "ema.response_to" not in packet.fields] == []
    assert 0 < len(answers) < len(mads) < len(packets)


def flipped(packet: bytes, at: int, bits: int) -> bytes:
    changed = bytearray(packet)
    changed[at] ^= bits
    return bytes(changed)


GOOD = ethernet()
EMPTY = build_packet(Lrh16B(5, 7, l4=L4.ETHERNET), b"", ICRC)


FAULTY = [
    (GOOD, []),
    (replace(Packet16B.parse(GOOD), tail=Packet16B.parse(GOOD).pad_count).build(), []),
    (flipped(GOOD, 40, 1), [r"ICRC does not match: 0x"]),
    (flipped(GOOD, 7, 0x10), []),
    (GOOD + b"behind", ["Length says 88 bytes, but there are 94"]),
    (
        GOOD[:-8],
        ["Length says 88 bytes, but there are 80", "80 of 88 bytes are there, without the trailer"],
    ),
    (GOOD[:10], ["10 bytes, the 16B header needs 16"]),
    (flipped(GOOD, 7, 0x20), ["L2 or LT is not that of a 16B packet", "ICRC does not match: 0x"]),
    (flipped(GOOD, len(GOOD) - 1, 0x80), ["Impossible last byte 0xc3"]),
    (ethernet(dlid=0), ["LID 0 is never a destination"]),
    (build_packet(Lrh16B(5, 7, l4=0x55), b"", ICRC), ["Unknown L4 type 0x55"]),
    (EMPTY, ["No room for the L4 header"]),
    (ema(Method.SET, AttrId.MAC_ENTRIES, b"\0\0\0\x7e"), ["125 of 126 are there"]),
    (
        ema(Method.GET_RESP, 0x11, status=0x1C),
        ["status 0x001c: a value in attribute or modifier is wrong"],
    ),
    (build_packet(Lrh16B(1, 2, l4=L4.FM), bytes(20), ICRC), ["12 bytes, the MAD header needs 24"]),
]
"""Packets, and how each fault of theirs begins."""


def test_faults_are_marked(tshark: Tshark, tmp_path: Path) -> None:
    dissected = tshark.dissect(write_pcap(tmp_path / "x.pcap", [packet for packet, _ in FAULTY]))
    for (_, faults), shown in zip(FAULTY, dissected, strict=True):
        ours = [text for text in shown.faults if not text.startswith("Malformed")]
        assert len(ours) == len(faults), (faults, ours)
        assert all(text.startswith(fault) for text, fault in zip(ours, faults, strict=True)), ours


def test_wrong_icrc_can_be_filtered_and_stands_in_the_list(tshark: Tshark, tmp_path: Path) -> None:
    capture = write_pcap(tmp_path / "x.pcap", [GOOD, flipped(GOOD, 50, 4), GOOD])
    (bad,) = tshark.run("-r", str(capture), "-Y", 'opa.icrc.status == "Bad"').splitlines()
    assert bad.endswith("[ICRC wrong]")
    assert tshark.run("-r", str(capture), "-Y", "opa.icrc.bad").splitlines() == [bad]


def test_preferences_choose_polynomial_or_no_check(tshark: Tshark, tmp_path: Path) -> None:
    packet = build_packet(Lrh16B(5, 7, l4=0x55), bytes(9), Icrc(0x1EDC6F41))
    capture = write_pcap(tmp_path / "x.pcap", [packet])

    def status(*options: str) -> str:
        return tshark.dissect(capture, *options)[0]["opa.icrc.status"]

    assert status() == "0"
    assert status("-o", "opa16b.polynomial:0x1edc6f41") == "1"
    assert status("-o", "opa16b.check_icrc:FALSE") == "2"


def test_no_bytes_make_a_dissector_fail(tshark: Tshark, tmp_path: Path) -> None:
    rng = random.Random(5)
    info = VeswPortInfo.power_on().build()
    connection = RcHeader(RcOpcode.DATA, psn=9).build() + b"hello"
    carriers = [
        build_packet(Lrh16B(1, 2, l4=L4.VENDOR_RC), connection, ICRC),
        ema(Method.SET, AttrId.VESW_PORT_INFO, info),
        ema(Method.SET, AttrId.MAC_ENTRIES, b"\0\0\0\x03" + bytes(60)),
        ema(Method.GET_RESP, AttrId.IFACE_MCAST_MACS, b"\0\0\0\x03" + bytes(60)),
        ema(Method.TRAP, AttrId.NOTICE, bytes(48)),
    ]
    packets: list[bytes | tuple[bytes, int]] = []
    for whole in (GOOD, *carriers):
        for size in range(min(len(whole), 400)):
            packets += [whole[:size], (whole[:size], len(whole))]
            # a packet that says itself that it is as long as it is
            payload = whole[lrh16b.SIZE : -5]
            packets.append(build_packet(replace(Lrh16B.parse(whole), length_qw=0), payload[:size], ICRC))
    packets += [rng.randbytes(rng.randrange(1, 200)) for _ in range(300)]
    for _ in range(600):
        packet = bytearray(rng.choice((GOOD, *carriers)))
        for _ in range(rng.randrange(1, 8)):
            packet[rng.randrange(min(len(packet), 120))] = rng.randrange(256)
        packets.append(bytes(packet))
    for attr_id in AttrId:
        packets += [ema(method, attr_id, rng.randbytes(2008)) for method in (*Method, 0x99)]
    capture = write_pcap(tmp_path / "x.pcap", packets)
    rows = tshark.columns(capture, "frame.number", "opa.icrc.status", "_ws.col.Info", "_ws.expert.message")
    assert len(rows) == len(packets)
    assert [row for row in rows if any("Lua" in cell for cell in row)] == []


def test_ejfat_goes_on_below_udp(tshark: Tshark, tmp_path: Path) -> None:
    load = bytes.fromhex("4c42020100000005000000000000002a")
    frame = bytes(ETHER / IP() / UDP(sport=40000, dport=0x4C42) / load)
    (row,) = tshark.columns(
        write_pcap(tmp_path / "x.pcap", [ethernet(frame)]), "opa.vesw_id", "ejfat_lb.tick"
    )
    assert row == ["2", "42"]
