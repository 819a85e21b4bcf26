"""What stands in the data of subnet management, subnet administration and performance management MADs.

For people: `opavnic decode` and the Wireshark dissectors show attributes by these declarations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hfi_sim.mad.attributes import SubnetAttrId
from hfi_sim.sma.attributes.congestion import (
    CongestionInfo,
    HfiCongestionControl,
    HfiCongestionSetting,
    SwitchCongestionSetting,
)
from hfi_sim.sma.attributes.node import IbNodeInfo, NodeDescription, NodeInfo, SwitchInfo
from hfi_sim.sma.attributes.notice import Notice
from hfi_sim.sma.attributes.port_info import PortInfo, PortStateInfo
from hfi_sim.sma.attributes.tables import (
    BUFFER_CONTROL_BLOCK,
    BufferControl,
    LedInfo,
    LinearBlock,
    MulticastBlock,
    PartitionTable,
    ScToSc,
    ScToSl,
    ScToVl,
    SlToSc,
    SmInfo,
    VlArb,
)
from hfi_sim.wire.header import Header, WireHeader

_PORT_INFO_BLOCK: Final = 248


@dataclass(frozen=True, slots=True)
class Kind:
    """The layout of an attribute."""

    header: Header
    stride: int
    """Bytes from one to the next, where a MAD holds several."""


def _kind(declared: type[WireHeader], stride: int = 0) -> Kind:
    return Kind(declared.HEADER, stride or declared.SIZE)


SUBNET: Final[dict[int, Kind]] = {
    SubnetAttrId.NOTICE: _kind(Notice),
    SubnetAttrId.NODE_DESCRIPTION: _kind(NodeDescription),
    SubnetAttrId.NODE_INFO: _kind(NodeInfo),
    SubnetAttrId.SWITCH_INFO: _kind(SwitchInfo),
    SubnetAttrId.PORT_INFO: _kind(PortInfo, _PORT_INFO_BLOCK),
    SubnetAttrId.PARTITION_TABLE: _kind(PartitionTable),
    SubnetAttrId.SL_TO_SC: _kind(SlToSc),
    SubnetAttrId.VL_ARB: _kind(VlArb),
    SubnetAttrId.LINEAR_FORWARDING: _kind(LinearBlock),
    SubnetAttrId.MULTICAST_FORWARDING: _kind(MulticastBlock),
    SubnetAttrId.SM_INFO: _kind(SmInfo),
    SubnetAttrId.LED_INFO: _kind(LedInfo),
    SubnetAttrId.SC_TO_SC: _kind(ScToSc),
    SubnetAttrId.SC_TO_SL: _kind(ScToSl),
    SubnetAttrId.SC_TO_VLR: _kind(ScToVl),
    SubnetAttrId.SC_TO_VLT: _kind(ScToVl),
    SubnetAttrId.SC_TO_VLNT: _kind(ScToVl),
    SubnetAttrId.PORT_STATE_INFO: _kind(PortStateInfo),
    SubnetAttrId.BUFFER_CONTROL: _kind(BufferControl, BUFFER_CONTROL_BLOCK),
    SubnetAttrId.CONGESTION_INFO: _kind(CongestionInfo),
    SubnetAttrId.SWITCH_CONGESTION_SETTING: _kind(SwitchCongestionSetting),
    SubnetAttrId.HFI_CONGESTION_SETTING: _kind(HfiCongestionSetting),
    SubnetAttrId.HFI_CONGESTION_CONTROL: _kind(HfiCongestionControl),
}
"""Attributes of subnet management, in MADs of base version 0x80; the uppermost byte of the modifier says how many."""

SUBNET_IB: Final[dict[int, Kind]] = {SubnetAttrId.NODE_INFO: _kind(IbNodeInfo)}
"""The same, in MADs of base version 1."""
