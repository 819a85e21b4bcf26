"""What `opavnic decode` says of management MADs: the attributes in them, field by field."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from hfi_sim.wire.icrc import Icrc
from hfi_sim.wire.mad.attributes import PmAttrId, SaAttrId, SubnetAttrId
from hfi_sim.wire.mad.fm_packet import build_fm_packet
from hfi_sim.wire.mad.header import MadClass, MadHeader, Method, RmppHeader
from hfi_sim.wire.mad.pma_attributes import DATA_PORT, DATA_PORT_VL, PortCountersRequest
from hfi_sim.wire.sa.message import SaHeader, stride
from hfi_sim.wire.sa.records import NodeRecord
from hfi_sim.wire.sma.node import NodeInfo
from hfi_sim.wire.sma.port_info import PortInfo
from opavnic.decode.describe import Description, describe_packet
from opavnic.management.management_attributes import ADMINISTRATION, PERFORMANCE, SUBNET
from opavnic.management.management_layout import layers

ICRC = Icrc()


def described(mgmt_class: int, method: int, attr_id: int, rest: bytes, **values: int) -> Description:
    head = MadHeader(mgmt_class=mgmt_class, method=method, attr_id=attr_id, **{"tid": 9, **values})
    return describe_packet(build_fm_packet(1, 2, 15, 0xFFFF, 0, 0, head.build() + rest, ICRC), ICRC, layers)


def values(shown: Description, layer: str, name: str) -> list[int | str]:
    return [field.value for field in shown.fields if (field.layer, field.name) == (layer, name)]


def test_ports_of_a_switch_stand_one_after_the_other() -> None:
    ports = b"".join(PortInfo(lid=5, local_port_num=number).build().ljust(248, b"\0") for number in (3, 4))
    shown = described(MadClass.SUBN_DIRECTED, Method.GET_RESP, SubnetAttrId.PORT_INFO, bytes(152) + ports,
                      attr_mod=2 << 24 | 3, status=0x8000)  # fmt: skip
    assert values(shown, "PortInfo", "local_port_num") == [3, 4]
    (status,) = [field for field in shown.fields if field.name == "status"]
    assert status.meaning == "ok", "the uppermost bit is the direction"
    assert shown.faults == []


def test_question_has_no_attribute() -> None:
    shown = described(MadClass.SUBN_LID, Method.GET, SubnetAttrId.NODE_INFO, bytes(8))
    assert values(shown, "NodeInfo", "num_ports") == []
    assert "NodeInfo" in [field.meaning for field in shown.fields]


def test_records_of_a_table_show_what_is_inside() -> None:
    record = NodeRecord(lid=7, node_info=NodeInfo(num_ports=12).build()).build()
    step = stride(len(record))
    rest = RmppHeader(1, 1, 7, 0, 1, SaHeader.SIZE + 16 * step).build()
    rest += SaHeader(attribute_offset=step).build() + 2 * record.ljust(8 * step, b"\0")
    shown = described(MadClass.SUBN_ADM, Method.GET_TABLE_RESP, SaAttrId.NODE_RECORD, rest)
    assert values(shown, "NodeRecord", "lid") == [7, 7]
    assert values(shown, "NodeInfo", "num_ports") == [12, 12]


def test_parts_of_an_aggregate() -> None:
    part = SubnetAttrId.NODE_INFO.to_bytes(2) + (6).to_bytes(2) + bytes(4) + NodeInfo(num_ports=9).build()
    rest = bytes(8) + part.ljust(56, b"\0") * 2
    shown = described(MadClass.SUBN_LID, Method.GET_RESP, SubnetAttrId.AGGREGATE, rest, attr_mod=2)
    assert values(shown, "NodeInfo", "num_ports") == [9, 9]


@given(
    st.sampled_from([MadClass.SUBN_LID, MadClass.SUBN_DIRECTED, MadClass.SUBN_ADM, MadClass.PERFORMANCE]),
    st.sampled_from([1, 2, 0x12, 0x81, 0x92]),
    st.sampled_from([*SUBNET, *ADMINISTRATION, *PERFORMANCE, 0x80]),
    st.sampled_from([1, 0x80]),
    st.integers(0, 0xFFFFFFFF),
    st.integers(0, 2024),
    st.integers(0),
)
def test_any_mad_is_described(
    mgmt_class: int, method: int, attr_id: int, version: int, modifier: int, size: int, seed: int
) -> None:
    head = MadHeader(
        base_version=version, mgmt_class=mgmt_class, method=method, attr_id=attr_id, attr_mod=modifier, tid=1
    )
    mad = head.build() + random.Random(seed).randbytes(size)
    for layer in layers(head, mad):
        assert MadHeader.SIZE <= layer.start <= layer.start + layer.header.size <= len(mad)
        layer.header.read(mad[layer.start :])


def test_counters_of_two_ports() -> None:
    head = PortCountersRequest(port_mask=(0b110).to_bytes(32), vl_mask=0x8001).build()
    block = bytes((7,)).ljust(DATA_PORT.size, b"\0") + bytes(2 * DATA_PORT_VL.size)
    shown = described(MadClass.PERFORMANCE, Method.GET_RESP, PmAttrId.DATA_PORT_COUNTERS, head + 2 * block)
    assert values(shown, "DataPortCountersPort", "port_num") == [7, 7]
    assert values(shown, "DataPortCountersVl", "xmit_data") == [0] * 4
