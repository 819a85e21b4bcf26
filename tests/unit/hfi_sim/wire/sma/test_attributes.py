"""The attributes of subnet management: their sizes and places are those of stl_sm_types.h."""

from __future__ import annotations

import os

import pytest

from hfi_sim.wire.header import Header, WireHeader
from hfi_sim.wire.sma import node, notice, port_info, tables
from hfi_sim.wire.sma.port_info import PortInfo

SIZES = {
    node.NodeInfo: 44,
    node.IbNodeInfo: 40,
    node.NodeDescription: 64,
    node.SwitchInfo: 84,
    port_info.PortInfo: 242,
    port_info.PortStateInfo: 8,
    tables.PARTITION_TABLE: 64,
    tables.SL_TO_SC: 32,
    tables.SC_TO_SC: 32,
    tables.SC_TO_SL: 32,
    tables.SC_TO_VL: 32,
    tables.VL_ARB: 256,
    tables.LINEAR_BLOCK: 64,
    tables.MULTICAST_BLOCK: 64,
    tables.SmInfo: 26,
    tables.LED_INFO: 8,
    tables.BufferControl: 132,
    tables.CONGESTION_INFO: 4,
    tables.SWITCH_CONGESTION_SETTING: 76,
    tables.HfiCongestionSetting: 198,
    tables.HFI_CONGESTION_CONTROL: 130,
    notice.SubnetNotice: 96,
    notice.CAPABILITIES: 14,
    notice.BAD_MKEY: 54,
    notice.BAD_KEY: 56,
}


@pytest.mark.parametrize(
    ("attribute", "size"),
    SIZES.items(),
    ids=lambda value: getattr(value, "name", getattr(value, "__name__", "")),
)
def test_an_attribute_has_its_size_and_comes_back_byte_for_byte(
    attribute: Header | type[WireHeader], size: int
) -> None:
    header = attribute if isinstance(attribute, Header) else attribute.HEADER
    assert header.size == size
    data = os.urandom(size)
    assert header.pack(header.parse(data)) == data


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
