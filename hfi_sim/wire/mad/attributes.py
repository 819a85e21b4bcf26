"""The attributes of subnet and performance management, and those of every class, by number and name."""

from __future__ import annotations

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
