"""What stands in the data of subnet management, subnet administration and performance management MADs.

For people: `opavnic decode` and the Wireshark dissectors show attributes by these declarations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from hfi_sim.wire.header import Header, WireHeader
from hfi_sim.wire.mad import pma_attributes as pm
from hfi_sim.wire.mad.attributes import PmAttrId, SaAttrId, SubnetAttrId
from hfi_sim.wire.sa import records
from hfi_sim.wire.sa.by_attribute import RECORDS, RECORDS_IB
from hfi_sim.wire.sma import tables
from hfi_sim.wire.sma.node import IbNodeInfo, NodeDescription, NodeInfo, SwitchInfo
from hfi_sim.wire.sma.notice import SubnetNotice
from hfi_sim.wire.sma.port_info import PortInfo, PortStateInfo

_PORT_INFO_BLOCK: Final = 248


@dataclass(frozen=True, slots=True)
class Kind:
    """The layout of an attribute."""

    header: Header
    stride: int
    """Bytes from one to the next, where a MAD holds several; those of records stand in their SA header."""
    inside: Mapping[str, Header] = field(default_factory=dict)
    """Attributes that are the bytes of a field."""


def _kind(declared: type[WireHeader] | Header, stride: int = 0) -> Kind:
    header = declared if isinstance(declared, Header) else declared.HEADER
    inside = getattr(declared, "INSIDE", {})
    return Kind(header, stride or header.size, {name: kind.HEADER for name, kind in inside.items()})


SUBNET: Final[dict[int, Kind]] = {
    SubnetAttrId.NOTICE: _kind(SubnetNotice),
    SubnetAttrId.NODE_DESCRIPTION: _kind(NodeDescription),
    SubnetAttrId.NODE_INFO: _kind(NodeInfo),
    SubnetAttrId.SWITCH_INFO: _kind(SwitchInfo),
    SubnetAttrId.PORT_INFO: _kind(PortInfo, _PORT_INFO_BLOCK),
    SubnetAttrId.PARTITION_TABLE: _kind(tables.PARTITION_TABLE),
    SubnetAttrId.SL_TO_SC: _kind(tables.SL_TO_SC),
    SubnetAttrId.VL_ARB: _kind(tables.VL_ARB),
    SubnetAttrId.LINEAR_FORWARDING: _kind(tables.LINEAR_BLOCK),
    SubnetAttrId.MULTICAST_FORWARDING: _kind(tables.MULTICAST_BLOCK),
    SubnetAttrId.SM_INFO: _kind(tables.SmInfo),
    SubnetAttrId.LED_INFO: _kind(tables.LED_INFO),
    SubnetAttrId.SC_TO_SC: _kind(tables.SC_TO_SC),
    SubnetAttrId.SC_TO_SC_MULTISET: _kind(tables.SC_TO_SC_MULTISET),
    SubnetAttrId.SC_TO_SL: _kind(tables.SC_TO_SL),
    SubnetAttrId.SC_TO_VLR: _kind(tables.SC_TO_VL),
    SubnetAttrId.SC_TO_VLT: _kind(tables.SC_TO_VL),
    SubnetAttrId.SC_TO_VLNT: _kind(tables.SC_TO_VL),
    SubnetAttrId.PORT_STATE_INFO: _kind(PortStateInfo),
    SubnetAttrId.BUFFER_CONTROL: _kind(tables.BufferControl, tables.BUFFER_CONTROL_BLOCK),
    SubnetAttrId.CONGESTION_INFO: _kind(tables.CONGESTION_INFO),
    SubnetAttrId.SWITCH_CONGESTION_SETTING: _kind(tables.SWITCH_CONGESTION_SETTING),
    SubnetAttrId.HFI_CONGESTION_SETTING: _kind(tables.HfiCongestionSetting),
    SubnetAttrId.HFI_CONGESTION_CONTROL: _kind(tables.HFI_CONGESTION_CONTROL),
}
"""Attributes of subnet management, in MADs of base version 0x80; the uppermost byte of the modifier says how many."""

SUBNET_IB: Final[dict[int, Kind]] = {SubnetAttrId.NODE_INFO: _kind(IbNodeInfo)}
"""The same, in MADs of base version 1."""

ADMINISTRATION: Final[dict[int, Kind]] = {
    SaAttrId.NOTICE: _kind(SubnetNotice),
    **{number: _kind(record) for number, record in RECORDS.items()},
}
"""Records of subnet administration, class version 0x80."""

ADMINISTRATION_IB: Final[dict[int, Kind]] = {number: _kind(record) for number, record in RECORDS_IB.items()}
"""The same, class version 2."""


@dataclass(frozen=True, slots=True)
class CounterKind:
    """The layout of an attribute of performance management: a head, and blocks for its ports and VLs."""

    question: Header
    """What a request holds."""
    head: Header
    """What a response begins with."""
    port: Header | None = None
    """A block for each port of the head's `port_mask`."""
    vl: Header | None = None
    """A block for each VL of the head's `vl_mask`, behind each port's."""

    @property
    def parts(self) -> tuple[Header | None, ...]:
        """Question, head, port and VL."""
        return self.question, self.head, self.port, self.vl


def _of_ports(question: type[WireHeader], port: Header, vl: Header | None = None) -> CounterKind:
    return CounterKind(question.HEADER, question.HEADER, port, vl)


PERFORMANCE: Final[dict[int, CounterKind]] = {
    PmAttrId.CLASS_PORT_INFO: CounterKind(records.SaClassPortInfo.HEADER, records.SaClassPortInfo.HEADER),
    PmAttrId.PORT_STATUS: CounterKind(pm.PortStatusRequest.HEADER, pm.PORT_STATUS, vl=pm.PORT_STATUS_VL),
    PmAttrId.CLEAR_PORT_STATUS: CounterKind(pm.ClearPortStatus.HEADER, pm.ClearPortStatus.HEADER),
    PmAttrId.DATA_PORT_COUNTERS: _of_ports(pm.PortCountersRequest, pm.DATA_PORT, pm.DATA_PORT_VL),
    PmAttrId.ERROR_PORT_COUNTERS: _of_ports(pm.PortCountersRequest, pm.ERROR_PORT, pm.ERROR_PORT_VL),
    PmAttrId.ERROR_INFO: _of_ports(pm.ErrorInfoRequest, pm.ErrorInfoPort.HEADER),
}
"""Attributes of performance management, in MADs of base version 0x80."""
