"""The Wireshark dissector of subnet management and administration shows what the declarations say, and any bytes."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

import pytest

from hfi_sim.wire.field import Shown
from hfi_sim.wire.header import Header
from hfi_sim.wire.icrc import Icrc
from hfi_sim.wire.mad.attributes import PmAttrId, SaAttrId, SubnetAttrId
from hfi_sim.wire.mad.fm_packet import build_fm_packet
from hfi_sim.wire.mad.header import MAD_SIZE, MadClass, MadHeader, Method, RmppHeader
from hfi_sim.wire.mad.pma_attributes import DATA_PORT, DATA_PORT_VL, PortCountersRequest
from hfi_sim.wire.mad.rmpp import RmppFlag, RmppType
from hfi_sim.wire.sa.message import DATA_AT, SaHeader, stride
from hfi_sim.wire.sa.records import LinkRecord, NodeRecord
from hfi_sim.wire.sma.node import NodeInfo
from opavnic.management.management_attributes import ADMINISTRATION, ADMINISTRATION_IB, SUBNET, Kind
from tools.generate.lua_attributes import lua_name
from unit.opavnic.observe.tshark import Dissected, Tshark, needs_tshark, write_pcap

pytestmark = needs_tshark
ICRC = Icrc()
DATA_LID, DATA_DIRECTED = 32, 176
CLASSES = (MadClass.SUBN_LID, MadClass.SUBN_DIRECTED, MadClass.SUBN_ADM, MadClass.PERFORMANCE)


@pytest.fixture(scope="module")
def tshark(tmp_path_factory: pytest.TempPathFactory) -> Tshark:
    """tshark as after `opavnic install-dissectors`."""
    return Tshark(tmp_path_factory.mktemp("home"))


def packet(
    mgmt_class: int, method: int, attr_id: int, rest: bytes, attr_mod: int = 0, **values: int
) -> bytes:
    head = MadHeader(
        mgmt_class=mgmt_class, method=method, attr_id=attr_id, attr_mod=attr_mod, **{"tid": 9, **values}
    )
    size = 256 if head.base_version == 1 else MAD_SIZE
    mad = (head.build() + rest)[:size].ljust(size, b"\0")
    return build_fm_packet(1, 2, 15, 0xFFFF, 0, 0, mad, ICRC)


def check(shown: Dissected, header: Header, data: bytes) -> None:
    """Every field of an attribute has its value in what tshark shows."""
    values = header.read(data)
    for place in header.places:
        found = [one.value for one in shown.fields[f"opa_mgmt.{lua_name(header)}.{place.name}"]]
        value = values[place.name]
        if place.field.record is not None:
            assert len(found) == place.field.count, place.name
        elif place.field.count:
            assert [int(one, 0) for one in found] == list(value), place.name
        elif place.field.shown is Shown.BYTES:
            assert found == [value.hex(":")], place.name
        else:
            assert [int(one, 0) for one in found] == [value], place.name


@pytest.mark.parametrize(
    ("mgmt_class", "version", "kinds", "start"),
    [
        (MadClass.SUBN_LID, 0x80, SUBNET, DATA_LID),
        (MadClass.SUBN_DIRECTED, 0x80, SUBNET, DATA_DIRECTED),
        (MadClass.SUBN_ADM, 0x80, ADMINISTRATION, DATA_AT),
        (MadClass.SUBN_ADM, 2, ADMINISTRATION_IB, DATA_AT),
    ],
)
def test_fields_are_those_of_the_declarations(
    tshark: Tshark, tmp_path: Path, mgmt_class: int, version: int, kinds: Mapping[int, Kind], start: int
) -> None:
    rng, packets, sent = random.Random(1), [], []
    for attr_id, kind in kinds.items():
        data = rng.randbytes(kind.header.size)
        rest = bytes(start - MadHeader.SIZE) + data
        packets.append(packet(mgmt_class, Method.GET_RESP, attr_id, rest, class_version=version))
        sent.append((kind.header, data))
    shown = tshark.dissect(write_pcap(tmp_path / "x.pcap", packets))
    for fields, (header, data) in zip(shown, sent, strict=True):
        check(fields, header, data)
        assert fields.faults == []


def test_directed_route_shows_its_way_and_no_failure_where_it_goes_back(
    tshark: Tshark, tmp_path: Path
) -> None:
    paths = bytes((0, 1, 3)).ljust(64, b"\0") + bytes((0, 7, 2)).ljust(64, b"\0")
    rest = (5).to_bytes(8) + b"\xff" * 8 + paths + bytes(8) + NodeInfo(num_ports=4).build()
    back = packet(
        MadClass.SUBN_DIRECTED,
        Method.GET_RESP,
        SubnetAttrId.NODE_INFO,
        rest,
        status=0x8000,
        class_specific=0x0102,
    )
    (shown,) = tshark.dissect(write_pcap(tmp_path / "x.pcap", [back]))
    assert (shown["opa_mgmt.hop_pointer"], shown["opa_mgmt.hop_count"]) == ("1", "2")
    assert shown["opa_mgmt.direction"] == "1"
    assert shown["opa_mgmt.smp_directed.initial_path"].startswith("00:01:03:00")
    assert shown["opa_mgmt.node_info.num_ports"] == "4"
    assert shown.faults == []


def test_list_shows_the_name_of_each_attribute(tshark: Tshark, tmp_path: Path) -> None:
    packets = [
        packet(MadClass.SUBN_LID, Method.GET, SubnetAttrId.PORT_INFO, b""),
        packet(MadClass.SUBN_ADM, 0x12, SaAttrId.VF_INFO_RECORD, b""),
    ]
    info = [row[0] for row in tshark.columns(write_pcap(tmp_path / "x.pcap", packets), "_ws.col.Info")]
    assert info[0].startswith("Get PortInfo")
    assert info[1].startswith("GetTable VFInfoRecord")


def test_aggregate_shows_its_parts(tshark: Tshark, tmp_path: Path) -> None:
    def part(attr_id: int, data: bytes, *, error: bool = False) -> bytes:
        units = -(-len(data) // 8)
        head = attr_id.to_bytes(2) + (error << 15 | units).to_bytes(2) + bytes(4)
        return head + data.ljust(8 * units, b"\0")

    good = part(SubnetAttrId.NODE_INFO, NodeInfo(num_ports=3).build())
    bad = part(SubnetAttrId.SWITCH_INFO, bytes(84), error=True)
    mad = packet(
        MadClass.SUBN_LID, Method.GET_RESP, SubnetAttrId.AGGREGATE, bytes(8) + good + bad, attr_mod=2
    )
    (shown,) = tshark.dissect(write_pcap(tmp_path / "x.pcap", [mad]))
    assert shown["opa_mgmt.node_info.num_ports"] == "3"
    assert [one.value for one in shown.fields["opa_mgmt.aggregate.error"]] == ["0", "1"]
    assert "opa_mgmt.switch_info.linear_fdb_cap" not in shown.fields, "the part that has failed holds nothing"


def test_table_goes_on_from_segment_to_segment(tshark: Tshark, tmp_path: Path) -> None:
    step = 8 * stride(NodeRecord.SIZE)
    table = b"".join(NodeRecord(lid=lid).build().ljust(step, b"\0") for lid in range(1, 41))
    room, packets = MAD_SIZE - DATA_AT, []
    for segment, at in enumerate(range(0, len(table), room), start=1):
        piece = table[at : at + room]
        flags = RmppFlag.ACTIVE
        flags |= (RmppFlag.FIRST if at == 0 else 0) | (RmppFlag.LAST if at + room >= len(table) else 0)
        length = SaHeader.SIZE + len(piece) if flags & RmppFlag.LAST else 0
        head = RmppHeader(1, RmppType.DATA, int(flags), 0, segment, length).build()
        rest = head + SaHeader(attribute_offset=step // 8).build() + piece
        packets.append(packet(MadClass.SUBN_ADM, Method.GET_TABLE_RESP, SaAttrId.NODE_RECORD, rest))
    shown = tshark.dissect(write_pcap(tmp_path / "x.pcap", packets))
    lids = [int(one.value, 0) for fields in shown for one in fields.fields["opa_mgmt.node_record.lid"]]
    cut = [lid for lid in range(1, 41) if (lid - 1) * step // room != (lid * step - 1) // room]
    assert lids == [lid for lid in range(1, 41) if lid not in cut]
    assert len(packets) == 3


def test_any_bytes_are_shown_without_an_error(tshark: Tshark, tmp_path: Path) -> None:
    rng, packets = random.Random(2), []
    for _ in range(400):
        version = rng.choice((1, 0x80))
        attr_id = rng.choice((*SUBNET, *ADMINISTRATION, 0x80, 0x4711))
        rest = rng.randbytes(rng.choice((0, 1, 7, 30, 100, 232, 2024)))
        whole = packet(
            rng.choice(CLASSES), rng.choice((1, 2, 5, 0x12, 0x81, 0x92)), attr_id, rest,
            attr_mod=rng.choice((0, 2, 0xFF000000, 0xFFFFFFFF)), base_version=version,
            class_version=rng.choice((1, 2, 0x80)),
        )  # fmt: skip
        packets.append(whole)
        packets.append((whole[: rng.randrange(16, len(whole))], len(whole)))  # not all of it captured
    text = tshark.run("-r", str(write_pcap(tmp_path / "x.pcap", packets)), "-V")
    assert "Malformed Packet" not in text, "a dissector has run out of bytes"
    assert "Lua Error" not in text


def test_record_that_only_names_components_is_shown(tshark: Tshark, tmp_path: Path) -> None:
    sa = SaHeader(component_mask=LinkRecord.mask("from_lid"))
    rest = RmppHeader().build() + sa.build() + LinkRecord(from_lid=7).build()
    (shown,) = tshark.dissect(
        write_pcap(tmp_path / "x.pcap", [packet(MadClass.SUBN_ADM, 0x12, SaAttrId.LINK_RECORD, rest)])
    )
    assert shown.number("opa_mgmt.link_record.from_lid") == 7


def test_counters_of_several_ports_and_lanes_stand_one_after_the_other(
    tshark: Tshark, tmp_path: Path
) -> None:
    head = PortCountersRequest(port_mask=(0b110).to_bytes(32), vl_mask=0x8001).build()
    block = bytes((7,)).ljust(DATA_PORT.size, b"\0") + bytes(2 * DATA_PORT_VL.size)
    mad = packet(MadClass.PERFORMANCE, Method.GET_RESP, PmAttrId.DATA_PORT_COUNTERS, head + 2 * block)
    refused = packet(MadClass.PERFORMANCE, Method.GET_RESP, PmAttrId.DATA_PORT_COUNTERS, head, status=0x200)
    shown, none = tshark.dissect(write_pcap(tmp_path / "x.pcap", [mad, refused]))
    found = shown.fields["opa_mgmt.data_port_counters_port.port_num"]
    assert [one.value for one in found] == ["7", "7"]
    assert len(shown.fields["opa_mgmt.data_port_counters_vl.xmit_data"]) == 4
    assert shown.faults == []
    assert "opa_mgmt.data_port_counters_port.port_num" not in none.fields
