"""The attributes of subnet management: their sizes and places are those of stl_sm_types.h."""

from __future__ import annotations

import os

import pytest

from hfi_sim.wire.header import WireHeader
from hfi_sim.wire.sma import node, notice, port_info, tables
from hfi_sim.wire.sma.port_info import PortInfo

SIZES = {
    node.NodeInfo: 44,
    node.IbNodeInfo: 40,
    node.NodeDescription: 64,
    node.SwitchInfo: 84,
    port_info.PortInfo: 242,
    port_info.PortStateInfo: 8,
    tables.PartitionTable: 64,
    tables.SlToSc: 32,
    tables.ScToSc: 32,
    tables.ScToSl: 32,
    tables.ScToVl: 32,
    tables.VlArb: 256,
    tables.LinearBlock: 64,
    tables.MulticastBlock: 64,
    tables.SmInfo: 26,
    tables.LedInfo: 8,
    tables.BufferControl: 132,
    tables.CongestionInfo: 4,
    tables.SwitchCongestionSetting: 76,
    tables.HfiCongestionSetting: 198,
    tables.HfiCongestionControl: 130,
    notice.SubnetNotice: 96,
    notice.CapabilityData: 14,
    notice.BadMkeyData: 54,
    notice.BadKeyData: 56,
}


@pytest.mark.parametrize(
    ("attribute", "size"), SIZES.items(), ids=lambda value: getattr(value, "__name__", "")
)
def test_an_attribute_has_its_size_and_comes_back_byte_for_byte(
    attribute: type[WireHeader], size: int
) -> None:
    assert size == attribute.SIZE
    data = os.urandom(size)
    assert attribute.parse(data).build() == data


@pytest.mark.parametrize(
    ("field", "offset"),
    {
        "physical_state": 19,
        "link_init_reason": 24,
        "neighbor_port_num": 44,
        "speed_supported": 48,
        "width_supported": 54,
        "max_lid": 88,
        "master_sm_lid": 108,
        "subnet_prefix": 120,
        "neighbor_mtu": 128,
        "neighbor_node_guid": 208,
        "capability_mask": 216,
        "capability_mask3": 222,
        "mgmt_allowed": 236,
        "mtu_cap": 237,
        "local_port_num": 239,
    }.items(),
)
def test_the_fields_of_port_info_are_where_the_tools_look(field: str, offset: int) -> None:
    assert PortInfo.HEADER.place(field).offset == offset
