"""The attributes of subnet management, performance management and subnet administration, by number and name.

Source: of subnet administration, its methods and statuses: opa-ff, stl_sa_types.h and ib_sa_records.h.
"""

from __future__ import annotations

from typing import Final

from hfi_sim.wire.field import Code


class SubnetAttrId(Code):
    """Attributes of the subnet management classes."""

    NOTICE = 0x0002, "Notice"
    NODE_DESCRIPTION = 0x0010, "NodeDescription"
    NODE_INFO = 0x0011, "NodeInfo"
    SWITCH_INFO = 0x0012, "SwitchInfo"
    PORT_INFO = 0x0015, "PortInfo"
    PARTITION_TABLE = 0x0016, "PartitionTable"
    SL_TO_SC = 0x0017, "SLtoSC"
    VL_ARB = 0x0018, "VLArb"
    LINEAR_FORWARDING = 0x0019, "LinearForwardingTable"
    MULTICAST_FORWARDING = 0x001B, "MulticastForwardingTable"
    SM_INFO = 0x0020, "SMInfo"
    LED_INFO = 0x0031, "LedInfo"
    CABLE_INFO = 0x0032, "CableInfo"
    AGGREGATE = 0x0080, "Aggregate"
    SC_TO_SC = 0x0081, "SCtoSC"
    SC_TO_SL = 0x0082, "SCtoSL"
    SC_TO_VLR = 0x0083, "SCtoVLr"
    SC_TO_VLT = 0x0084, "SCtoVLt"
    SC_TO_VLNT = 0x0085, "SCtoVLnt"
    PORT_STATE_INFO = 0x0087, "PortStateInfo"
    PORT_GROUP_FORWARDING = 0x0088, "PortGroupForwardingTable"
    PORT_GROUP = 0x0089, "PortGroupTable"
    BUFFER_CONTROL = 0x008A, "BufferControl"
    CONGESTION_INFO = 0x008B, "CongestionInfo"
    SWITCH_CONGESTION_LOG = 0x008C, "SwitchCongestionLog"
    SWITCH_CONGESTION_SETTING = 0x008D, "SwitchCongestionSetting"
    SWITCH_PORT_CONGESTION_SETTING = 0x008E, "SwitchPortCongestionSetting"
    HFI_CONGESTION_LOG = 0x008F, "HfiCongestionLog"
    HFI_CONGESTION_SETTING = 0x0090, "HfiCongestionSetting"
    HFI_CONGESTION_CONTROL = 0x0091, "HfiCongestionControl"
    SC_TO_SC_MULTISET = 0x0094, "SCtoSCMultiSet"


class PmAttrId(Code):
    """Attributes of OPA's performance management."""

    CLASS_PORT_INFO = 0x0001, "ClassPortInfo"
    PORT_STATUS = 0x0040, "PortStatus"
    CLEAR_PORT_STATUS = 0x0041, "ClearPortStatus"
    DATA_PORT_COUNTERS = 0x0042, "DataPortCounters"
    ERROR_PORT_COUNTERS = 0x0043, "ErrorPortCounters"
    ERROR_INFO = 0x0044, "ErrorInfo"


class IbPmAttrId(Code):
    """Attributes of InfiniBand's performance management that an HFI answers."""

    CLASS_PORT_INFO = 0x0001, "ClassPortInfo"
    PORT_COUNTERS = 0x0012, "PortCounters"
    PORT_COUNTERS_EXTENDED = 0x001D, "PortCountersExtended"


class CommonAttrId(Code):
    """Attributes that every management class has."""

    CLASS_PORT_INFO = 0x0001, "ClassPortInfo"
    NOTICE = 0x0002, "Notice"


CLASS_VERSION_IB: Final = 2
"""Records in InfiniBand's form, in MADs of base version 1."""
CLASS_VERSION_OPA: Final = 0x80
"""Records in Omni-Path's form, in MADs of base version 0x80."""


class SaAttrId(Code):
    """Attributes of subnet administration; others stay plain ints."""

    CLASS_PORT_INFO = 0x0001, "ClassPortInfo"
    NOTICE = 0x0002, "Notice"
    INFORM_INFO = 0x0003, "InformInfo"
    NODE_RECORD = 0x0011, "NodeRecord"
    PORT_INFO_RECORD = 0x0012, "PortInfoRecord"
    SC_TO_SC_RECORD = 0x0013, "SCtoSCRecord"
    SWITCH_INFO_RECORD = 0x0014, "SwitchInfoRecord"
    LFT_RECORD = 0x0015, "LinearForwardingTableRecord"
    MFT_RECORD = 0x0017, "MulticastForwardingTableRecord"
    SM_INFO_RECORD = 0x0018, "SMInfoRecord"
    LINK_RECORD = 0x0020, "LinkRecord"
    SERVICE_RECORD = 0x0031, "ServiceRecord"
    PARTITION_TABLE_RECORD = 0x0033, "P_KeyTableRecord"
    PATH_RECORD = 0x0035, "PathRecord"
    VL_ARBITRATION_RECORD = 0x0036, "VLArbitrationTableRecord"
    MC_MEMBER_RECORD = 0x0038, "MCMemberRecord"
    TRACE_RECORD = 0x0039, "TraceRecord"
    SL_TO_SC_RECORD = 0x0080, "SLtoSCRecord"
    SC_TO_SL_RECORD = 0x0081, "SCtoSLRecord"
    SC_TO_VLNT_RECORD = 0x0082, "SCtoVLntRecord"
    SC_TO_VLT_RECORD = 0x0083, "SCtoVLtRecord"
    SC_TO_VLR_RECORD = 0x0084, "SCtoVLrRecord"
    PORT_GROUP_FORWARDING_RECORD = 0x0085, "PortGroupForwardingTableRecord"
    CABLE_INFO_RECORD = 0x0088, "CableInfoRecord"
    VF_INFO_RECORD = 0x0089, "VFInfoRecord"
    PORT_GROUP_RECORD = 0x008B, "PortGroupTableRecord"
    BUFFER_CONTROL_RECORD = 0x008C, "BufferControlTableRecord"
    FABRIC_INFO_RECORD = 0x008D, "FabricInfoRecord"
    QUARANTINED_NODE_RECORD = 0x0090, "QuarantinedNodeRecord"
    CONGESTION_INFO_RECORD = 0x0091, "CongestionInfoRecord"
    SWITCH_CONGESTION_RECORD = 0x0092, "SwitchCongestionRecord"
    SWITCH_PORT_CONGESTION_RECORD = 0x0093, "SwitchPortCongestionRecord"
    HFI_CONGESTION_RECORD = 0x0094, "HfiCongestionRecord"
    HFI_CONGESTION_CONTROL_RECORD = 0x0095, "HfiCongestionControlRecord"
    DEVICE_GROUP_MEMBER_RECORD = 0x009B, "DeviceGroupMemberRecord"
    DEVICE_GROUP_NAME_RECORD = 0x009C, "DeviceGroupNameRecord"
    DEVICE_TREE_RECORD = 0x009D, "DeviceTreeMemberRecord"
    SWITCH_COST_RECORD = 0x00A3, "SwitchCostRecord"
    INFORM_INFO_RECORD = 0x00F3, "InformInfoRecord"


class SaMethod(Code):
    """Methods that no other class has."""

    GET_TRACE_TABLE = 0x13, "GetTraceTable"


class SaStatus(Code):
    """Statuses of subnet administration, in the upper byte of a MAD's status."""

    NO_RESOURCES = 0x0100, "no resources left"
    INVALID = 0x0200, "invalid request"
    """A value that the request names contradicts what is there: a P_Key, an SL, a rate."""
    NO_RECORDS = 0x0300, "no records"
    TOO_MANY_RECORDS = 0x0400, "more than one record"
    """A Get asked for one record, and several fit."""
    INVALID_GID = 0x0500, "invalid GID"
    INSUFFICIENT_COMPONENTS = 0x0600, "components are missing"
    DENIED = 0x0700, "denied"
