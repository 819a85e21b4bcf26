"""Records of subnet administration: their sizes, their codecs, what component masks select, and tables of them."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfi_sim.base.errors import WireError
from hfi_sim.wire.mad.attributes import SaAttrId
from hfi_sim.wire.mad.header import RmppHeader
from hfi_sim.wire.sa import records, records_ib, records_tables
from hfi_sim.wire.sa.message import DATA_AT, SaHeader, SaMessage, stride, table_header
from hfi_sim.wire.sa.record import SaRecord
from hfi_sim.wire.sma.node import NodeInfo

SIZES: dict[type[SaRecord], int] = {
    records.NodeRecord: 116,
    records.PortInfoRecord: 378,
    records.LinkRecord: 12,
    records.SwitchInfoRecord: 92,
    records.SmInfoRecord: 34,
    records.LftRecord: 72,
    records.MftRecord: 72,
    records.PartitionTableRecord: 72,
    records.SlToScRecord: 40,
    records.ScToVlRecord: 40,
    records.McMemberRecord: 56,
    records.ServiceRecord: 184,
    records.InformInfo: 40,
    records.InformInfoRecord: 48,
    records.VfInfoRecord: 128,
    records.TraceRecord: 40,
    records.FabricInfoRecord: 408,
    records.SaClassPortInfo: 80,
    records_tables.ScToScRecord: 40,
    records_tables.VlArbitrationRecord: 264,
    records_tables.BufferControlRecord: 140,
    records_tables.CableInfoRecord: 72,
    records_tables.CongestionInfoRecord: 12,
    records_tables.SwitchCongestionRecord: 84,
    records_tables.SwitchPortCongestionRecord: 12,
    records_tables.HfiCongestionRecord: 206,
    records_tables.HfiCongestionControlRecord: 138,
    records_ib.IbPathRecord: 64,
    records_ib.IbNodeRecord: 108,
    records_ib.IbMcMemberRecord: 52,
    records_ib.IbServiceRecord: 176,
    records_ib.IbInformInfo: 36,
    records_ib.IbInformInfoRecord: 60,
    records_ib.IbNotice: 80,
    records_ib.IbClassPortInfo: 72,
}
every_record = pytest.mark.parametrize("kind", SIZES)


@every_record
def test_a_record_has_the_size_of_its_struct(kind: type[SaRecord]) -> None:
    assert SIZES[kind] == kind.SIZE


@pytest.mark.parametrize(
    ("kind", "name", "offset"),
    [
        (records.McMemberRecord, "mlid", 52),
        (records.McMemberRecord, "join_state", 48),
        (records.VfInfoRecord, "mgid", 80),
        (records.VfInfoRecord, "sl_base", 96),
        (records.VfInfoRecord, "mtu", 97),
        (records.PortInfoRecord, "port_info", 8),
        (records.InformInfo, "trap", 30),
        (records_ib.IbPathRecord, "slid", 42),
        (records_ib.IbPathRecord, "pkey", 50),
        (records_ib.IbPathRecord, "sl", 53),
        (records_ib.IbMcMemberRecord, "mlid", 36),
        (records_ib.IbMcMemberRecord, "sl", 44),
        (records_ib.IbMcMemberRecord, "join_state", 48),
        (records_ib.IbInformInfo, "trap", 26),
        (records_ib.IbNotice, "issuer_gid", 64),
    ],
)
def test_a_field_stands_where_the_headers_of_opa_ff_have_it(
    kind: type[SaRecord], name: str, offset: int
) -> None:
    assert kind.HEADER.place(name).offset == offset


@every_record
def test_every_component_is_a_field(kind: type[SaRecord]) -> None:
    for name in filter(None, kind.COMPONENTS):
        outer, _, inner = name.partition(".")
        assert kind.HEADER.place(outer)
        assert not inner or not kind.INSIDE or kind.INSIDE[outer].HEADER.place(inner)


def test_a_mask_selects_by_its_components_only() -> None:
    kind = records.LinkRecord
    link = kind(from_lid=1, from_port=2, to_port=3, to_lid=4)
    asked = kind(from_lid=1, from_port=2, to_port=9, to_lid=9).build()
    mask = kind.mask("from_lid", "from_port")
    assert mask == 3
    assert kind.selects(asked, mask)(link)
    assert kind.selects(asked, 0)(link)
    assert not kind.selects(asked, kind.mask("to_lid"))(link)
    assert kind.selects(asked, 1 << 60)(link), "a bit that stands for nothing selects nothing"
    assert not kind.selects(asked[:4], mask)(link), "what is missing of a request is 0"


def test_a_component_may_stand_in_an_attribute_inside() -> None:
    kind = records.NodeRecord
    node = kind(lid=7, node_info=NodeInfo(node_guid=5, port_guid=6).build())
    asked = kind(node_info=NodeInfo(port_guid=6).build()).build()
    assert kind.selects(asked, kind.mask("node_info.port_guid"))(node)
    assert not kind.selects(asked, kind.mask("node_info.node_guid"))(node)


def test_the_bits_of_components_are_those_of_the_headers() -> None:
    assert records.McMemberRecord.mask("mlid") == 0x80000
    assert records.McMemberRecord.mask("join_state") == 0x20000
    assert records_ib.IbMcMemberRecord.mask("join_state") == 0x10000
    assert records.VfInfoRecord.mask("sl_base") == 0x80
    assert records_ib.IbPathRecord.mask("number_of_paths") == 0x1000
    assert records.ServiceRecord.mask("name") == 0x100
    assert records_ib.IbServiceRecord.mask("name") == 0x40
    assert records.NodeRecord.mask("node_description") == 0x8000


@given(count=st.integers(0, 40))
def test_a_table_gives_back_its_records(count: int) -> None:
    kind = records.LinkRecord
    links = [kind(from_lid=n, to_lid=n + 1) for n in range(count)]
    step = stride(kind.SIZE)
    data = b"".join(link.build().ljust(step * 8, b"\0") for link in links)
    request = SaMessage.request(0x12, SaAttrId.LINK_RECORD)
    table = dataclasses.replace(request, rmpp=table_header(), sa=SaHeader(attribute_offset=step), data=data)
    assert SaMessage.parse(table.build()).table(kind) == links


@given(wire=st.binary(max_size=300), offset=st.integers(0, 0xFFFF))
def test_any_bytes_are_a_message_or_too_short(wire: bytes, offset: int) -> None:
    if len(wire) < DATA_AT:
        with pytest.raises(WireError):
            SaMessage.parse(wire)
        return
    message = SaMessage.parse(wire)
    assert message.build() == wire
    hostile = dataclasses.replace(message, sa=SaHeader(attribute_offset=offset))
    assert len(hostile.table(records.LinkRecord)) <= len(wire) // records.LinkRecord.SIZE


def test_a_request_bears_the_version_of_its_record() -> None:
    opa = SaMessage.request(1, SaAttrId.NODE_RECORD, records.NodeRecord(lid=1), mask=1).header
    ib = SaMessage.request(1, SaAttrId.PATH_RECORD, records_ib.IbPathRecord()).header
    assert (opa.base_version, opa.class_version) == (0x80, 0x80)
    assert (ib.base_version, ib.class_version) == (1, 2)
    assert SaMessage.request(1, SaAttrId.NODE_RECORD).rmpp == RmppHeader()
