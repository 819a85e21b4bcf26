-- Management datagrams on the fabric, below opa16b.lua: the header of every MAD, and the attributes of the Ethernet
-- management agent (class 0x34, OUI 00066a) field by field.
--
-- Rows of fields are generated, with the names and meanings of docs/reference/wire-mad.md and docs/reference/ema-attributes.md.

local ema = Proto("ema", "OPA EMA")
-- generated: codes (made by `make generated` from hfi_sim/wire/mad/attributes.py, hfi_sim/wire/mad/header.py, hfi_sim/wire/mad/pma_attributes.py, vema/attributes/attr_id.py, vema/base/types.py; do not edit)
local MAD_CLASS = {
  SUBN_LID = 0x01,
  SUBN_ADM = 0x03,
  PERFORMANCE = 0x04,
  EMA = 0x34,
  SUBN_DIRECTED = 0x81,
}
local MAD_CLASS_NAMES = {
  [0x01] = "subnet management, LID routed",
  [0x03] = "subnet administration",
  [0x04] = "performance management",
  [0x34] = "Ethernet management agent",
  [0x81] = "subnet management, directed route",
}
local METHOD = {
  GET = 0x01,
  SET = 0x02,
  SEND = 0x03,
  TRAP = 0x05,
  REPORT = 0x06,
  TRAP_REPRESS = 0x07,
  GET_TABLE = 0x12,
  DELETE = 0x15,
  GET_RESP = 0x81,
  REPORT_RESP = 0x86,
  GET_TABLE_RESP = 0x92,
  DELETE_RESP = 0x95,
}
local METHOD_NAMES = {
  [0x01] = "Get",
  [0x02] = "Set",
  [0x03] = "Send",
  [0x05] = "Trap",
  [0x06] = "Report",
  [0x07] = "TrapRepress",
  [0x12] = "GetTable",
  [0x15] = "Delete",
  [0x81] = "GetResp",
  [0x86] = "ReportResp",
  [0x92] = "GetTableResp",
  [0x95] = "DeleteResp",
}
local MAD_STATUS = {
  OK = 0x00,
  BUSY = 0x01,
  BAD_VERSION = 0x04,
  UNSUPPORTED_METHOD = 0x08,
  UNSUPPORTED = 0x0C,
  INVALID = 0x1C,
  DENIED = 0x700,
}
local MAD_STATUS_NAMES = {
  [0x00] = "ok",
  [0x01] = "busy",
  [0x04] = "bad base or class version",
  [0x08] = "method not supported",
  [0x0C] = "method and attribute do not go together",
  [0x1C] = "a value in attribute or modifier is wrong",
  [0x700] = "denied",
}
local SA_STATUS = {
  NO_RESOURCES = 0x100,
  INVALID = 0x200,
  NO_RECORDS = 0x300,
  TOO_MANY_RECORDS = 0x400,
  INVALID_GID = 0x500,
  INSUFFICIENT_COMPONENTS = 0x600,
  DENIED = 0x700,
}
local SA_STATUS_NAMES = {
  [0x100] = "no resources left",
  [0x200] = "invalid request",
  [0x300] = "no records",
  [0x400] = "more than one record",
  [0x500] = "invalid GID",
  [0x600] = "components are missing",
  [0x700] = "denied",
}
local PM_STATUS = {
  TOO_LARGE = 0x100,
  WRONG_NUMBER = 0x200,
}
local PM_STATUS_NAMES = {
  [0x100] = "the response does not fit in a MAD",
  [0x200] = "the attribute modifier has another number of ports than the mask",
}
local ATTR_ID = {
  CLASS_PORT_INFO = 0x01,
  NOTICE = 0x02,
  VESW_PORT_INFO = 0x11,
  MAC_ENTRIES = 0x12,
  IFACE_UCAST_MACS = 0x13,
  IFACE_MCAST_MACS = 0x14,
  DELETE_VESW = 0x15,
  SUMMARY_COUNTERS = 0x20,
  ERROR_COUNTERS = 0x22,
}
local ATTR_ID_NAMES = {
  [0x01] = "ClassPortInfo",
  [0x02] = "Notice",
  [0x11] = "VeswPortInfo",
  [0x12] = "MacEntries",
  [0x13] = "IfaceUcastMacs",
  [0x14] = "IfaceMcastMacs",
  [0x15] = "DeleteVesw",
  [0x20] = "SummaryCounters",
  [0x22] = "ErrorCounters",
}
local SUBNET_ATTR_ID = {
  NOTICE = 0x02,
  NODE_DESCRIPTION = 0x10,
  NODE_INFO = 0x11,
  SWITCH_INFO = 0x12,
  PORT_INFO = 0x15,
  PARTITION_TABLE = 0x16,
  SL_TO_SC = 0x17,
  VL_ARB = 0x18,
  LINEAR_FORWARDING = 0x19,
  MULTICAST_FORWARDING = 0x1B,
  SM_INFO = 0x20,
  LED_INFO = 0x31,
  CABLE_INFO = 0x32,
  AGGREGATE = 0x80,
  SC_TO_SC = 0x81,
  SC_TO_SL = 0x82,
  SC_TO_VLR = 0x83,
  SC_TO_VLT = 0x84,
  SC_TO_VLNT = 0x85,
  PORT_STATE_INFO = 0x87,
  PORT_GROUP_FORWARDING = 0x88,
  PORT_GROUP = 0x89,
  BUFFER_CONTROL = 0x8A,
  CONGESTION_INFO = 0x8B,
  SWITCH_CONGESTION_LOG = 0x8C,
  SWITCH_CONGESTION_SETTING = 0x8D,
  SWITCH_PORT_CONGESTION_SETTING = 0x8E,
  HFI_CONGESTION_LOG = 0x8F,
  HFI_CONGESTION_SETTING = 0x90,
  HFI_CONGESTION_CONTROL = 0x91,
  SC_TO_SC_MULTISET = 0x94,
}
local SUBNET_ATTR_ID_NAMES = {
  [0x02] = "Notice",
  [0x10] = "NodeDescription",
  [0x11] = "NodeInfo",
  [0x12] = "SwitchInfo",
  [0x15] = "PortInfo",
  [0x16] = "PartitionTable",
  [0x17] = "SLtoSC",
  [0x18] = "VLArb",
  [0x19] = "LinearForwardingTable",
  [0x1B] = "MulticastForwardingTable",
  [0x20] = "SMInfo",
  [0x31] = "LedInfo",
  [0x32] = "CableInfo",
  [0x80] = "Aggregate",
  [0x81] = "SCtoSC",
  [0x82] = "SCtoSL",
  [0x83] = "SCtoVLr",
  [0x84] = "SCtoVLt",
  [0x85] = "SCtoVLnt",
  [0x87] = "PortStateInfo",
  [0x88] = "PortGroupForwardingTable",
  [0x89] = "PortGroupTable",
  [0x8A] = "BufferControl",
  [0x8B] = "CongestionInfo",
  [0x8C] = "SwitchCongestionLog",
  [0x8D] = "SwitchCongestionSetting",
  [0x8E] = "SwitchPortCongestionSetting",
  [0x8F] = "HfiCongestionLog",
  [0x90] = "HfiCongestionSetting",
  [0x91] = "HfiCongestionControl",
  [0x94] = "SCtoSCMultiSet",
}
local SA_ATTR_ID = {
  CLASS_PORT_INFO = 0x01,
  NOTICE = 0x02,
  INFORM_INFO = 0x03,
  NODE_RECORD = 0x11,
  PORT_INFO_RECORD = 0x12,
  SC_TO_SC_RECORD = 0x13,
  SWITCH_INFO_RECORD = 0x14,
  LFT_RECORD = 0x15,
  MFT_RECORD = 0x17,
  SM_INFO_RECORD = 0x18,
  LINK_RECORD = 0x20,
  SERVICE_RECORD = 0x31,
  PARTITION_TABLE_RECORD = 0x33,
  PATH_RECORD = 0x35,
  VL_ARBITRATION_RECORD = 0x36,
  MC_MEMBER_RECORD = 0x38,
  TRACE_RECORD = 0x39,
  SL_TO_SC_RECORD = 0x80,
  SC_TO_SL_RECORD = 0x81,
  SC_TO_VLNT_RECORD = 0x82,
  SC_TO_VLT_RECORD = 0x83,
  SC_TO_VLR_RECORD = 0x84,
  PORT_GROUP_FORWARDING_RECORD = 0x85,
  CABLE_INFO_RECORD = 0x88,
  VF_INFO_RECORD = 0x89,
  PORT_GROUP_RECORD = 0x8B,
  BUFFER_CONTROL_RECORD = 0x8C,
  FABRIC_INFO_RECORD = 0x8D,
  QUARANTINED_NODE_RECORD = 0x90,
  CONGESTION_INFO_RECORD = 0x91,
  SWITCH_CONGESTION_RECORD = 0x92,
  SWITCH_PORT_CONGESTION_RECORD = 0x93,
  HFI_CONGESTION_RECORD = 0x94,
  HFI_CONGESTION_CONTROL_RECORD = 0x95,
  DEVICE_GROUP_MEMBER_RECORD = 0x9B,
  DEVICE_GROUP_NAME_RECORD = 0x9C,
  DEVICE_TREE_RECORD = 0x9D,
  SWITCH_COST_RECORD = 0xA3,
  INFORM_INFO_RECORD = 0xF3,
}
local SA_ATTR_ID_NAMES = {
  [0x01] = "ClassPortInfo",
  [0x02] = "Notice",
  [0x03] = "InformInfo",
  [0x11] = "NodeRecord",
  [0x12] = "PortInfoRecord",
  [0x13] = "SCtoSCRecord",
  [0x14] = "SwitchInfoRecord",
  [0x15] = "LinearForwardingTableRecord",
  [0x17] = "MulticastForwardingTableRecord",
  [0x18] = "SMInfoRecord",
  [0x20] = "LinkRecord",
  [0x31] = "ServiceRecord",
  [0x33] = "P_KeyTableRecord",
  [0x35] = "PathRecord",
  [0x36] = "VLArbitrationTableRecord",
  [0x38] = "MCMemberRecord",
  [0x39] = "TraceRecord",
  [0x80] = "SLtoSCRecord",
  [0x81] = "SCtoSLRecord",
  [0x82] = "SCtoVLntRecord",
  [0x83] = "SCtoVLtRecord",
  [0x84] = "SCtoVLrRecord",
  [0x85] = "PortGroupForwardingTableRecord",
  [0x88] = "CableInfoRecord",
  [0x89] = "VFInfoRecord",
  [0x8B] = "PortGroupTableRecord",
  [0x8C] = "BufferControlTableRecord",
  [0x8D] = "FabricInfoRecord",
  [0x90] = "QuarantinedNodeRecord",
  [0x91] = "CongestionInfoRecord",
  [0x92] = "SwitchCongestionRecord",
  [0x93] = "SwitchPortCongestionRecord",
  [0x94] = "HfiCongestionRecord",
  [0x95] = "HfiCongestionControlRecord",
  [0x9B] = "DeviceGroupMemberRecord",
  [0x9C] = "DeviceGroupNameRecord",
  [0x9D] = "DeviceTreeMemberRecord",
  [0xA3] = "SwitchCostRecord",
  [0xF3] = "InformInfoRecord",
}
local PM_ATTR_ID = {
  CLASS_PORT_INFO = 0x01,
  PORT_STATUS = 0x40,
  CLEAR_PORT_STATUS = 0x41,
  DATA_PORT_COUNTERS = 0x42,
  ERROR_PORT_COUNTERS = 0x43,
  ERROR_INFO = 0x44,
}
local PM_ATTR_ID_NAMES = {
  [0x01] = "ClassPortInfo",
  [0x40] = "PortStatus",
  [0x41] = "ClearPortStatus",
  [0x42] = "DataPortCounters",
  [0x43] = "ErrorPortCounters",
  [0x44] = "ErrorInfo",
}
local COMMON_ATTR_ID = {
  CLASS_PORT_INFO = 0x01,
  NOTICE = 0x02,
}
local COMMON_ATTR_ID_NAMES = {
  [0x01] = "ClassPortInfo",
  [0x02] = "Notice",
}
local CONFIG_STATE = {
  DROP_ALL = 0x01,
  FORWARDING = 0x03,
}
local CONFIG_STATE_NAMES = {
  [0x01] = "dropping all",
  [0x03] = "forwarding",
}
local TRAP_OPCODE = {
  UCAST_MACS_CHANGED = 0x01,
  MCAST_MACS_CHANGED = 0x02,
  ETH_LINK_STATUS_CHANGED = 0x03,
}
local TRAP_OPCODE_NAMES = {
  [0x01] = "unicast list changed",
  [0x02] = "multicast list changed",
  [0x03] = "link status changed",
}
-- end of generated

-- Headers ---------------------------------------------------------------------------------------------------------

-- A row of these is name, first byte, bytes, field.
-- generated: headers (made by `make generated` from hfi_sim/wire/mad/header.py; do not edit)
local MAD_SIZE = 24
local mad = {
  {"base_version", 0, 1, ProtoField.uint8("ema.base_version", "base_version", base.HEX, nil, nil, "0x80: 2048 bytes; 1: 256 bytes")},
  {"mgmt_class", 1, 1, ProtoField.uint8("ema.mgmt_class", "mgmt_class", base.HEX, MAD_CLASS_NAMES, nil, "management class: 0x34 is the Ethernet management agent")},
  {"class_version", 2, 1, ProtoField.uint8("ema.class_version", "class_version", base.HEX, nil, nil, "version of the class")},
  {"method", 3, 1, ProtoField.uint8("ema.method", "method", base.HEX, METHOD_NAMES, nil, "what is asked for; bit 7 marks a response")},
  {"status", 4, 2, ProtoField.uint16("ema.status", "status", base.HEX, MAD_STATUS_NAMES, nil, "0 in a response: it was done")},
  {"class_specific", 6, 2, ProtoField.uint16("ema.class_specific", "class_specific", base.HEX, nil, nil, "hop pointer and count in directed routes, else 0")},
  {"tid", 8, 8, ProtoField.uint64("ema.tid", "tid", base.HEX, nil, nil, "transaction id: a response repeats it")},
  {"attr_id", 16, 2, ProtoField.uint16("ema.attr_id", "attr_id", base.HEX, nil, nil, "which attribute")},
  {"reserved", 18, 2, ProtoField.uint16("ema.reserved", "reserved", base.HEX, nil, nil, "0; given back as received")},
  {"attr_mod", 20, 4, ProtoField.uint32("ema.attr_mod", "attr_mod", base.HEX, nil, nil, "attribute modifier: which instance")},
}
local RMPP_SIZE = 12
local rmpp = {
  {"version", 0, 1, ProtoField.uint8("ema.rmpp.version", "version", base.DEC, nil, nil, "0: not in use")},
  {"type", 1, 1, ProtoField.uint8("ema.rmpp.type", "type", base.DEC, nil, nil, "0: not in use")},
  {"rtime_flags", 2, 1, ProtoField.uint8("ema.rmpp.rtime_flags", "rtime_flags", base.HEX, nil, nil, "response time (5 bits) and flags (3 bits)")},
  {"rmpp_status", 3, 1, ProtoField.uint8("ema.rmpp.rmpp_status", "rmpp_status", base.DEC, nil, nil, "0: normal")},
  {"segment", 4, 4, ProtoField.uint32("ema.rmpp.segment", "segment", base.DEC, nil, nil, "segment number")},
  {"length", 8, 4, ProtoField.uint32("ema.rmpp.length", "length", base.DEC, nil, nil, "payload length, or new window")},
}
local VENDOR_SIZE = 4
local OUI_EMA = 0x66A
local vendor = {
  {"vendor_reserved", 0, 1, ProtoField.uint8("ema.vendor_reserved", "vendor_reserved", base.HEX, nil, nil, "0; given back as received")},
  {"oui", 1, 3, ProtoField.uint24("ema.oui", "oui", base.HEX, {[0x66a] = "the OUI of the VNIC's management"}, nil, "whose class it is: 00066a")},
}
-- end of generated

local VENDOR_DATA = MAD_SIZE + RMPP_SIZE + VENDOR_SIZE

-- Attributes ------------------------------------------------------------------------------------------------------

-- The start of each attribute, and an entry of a list. A row may also have `count`, how often it is repeated, and
-- `parts`, fields of single bits of its number.
-- generated: attributes (made by `make generated` from vema/attributes/attr_id.py, vema/attributes/class_port_info.py, vema/attributes/counters.py, vema/attributes/iface_macs.py, vema/attributes/mac_entries.py, vema/attributes/vesw_port_info.py; do not edit)
local CLASS_PORT_INFO_SIZE = 80
local class_port_info = {
  {"base_version", 0, 1, ProtoField.uint8("ema.class_port_info.base_version", "base_version", base.HEX, nil, nil, "0x80")},
  {"class_version", 1, 1, ProtoField.uint8("ema.class_port_info.class_version", "class_version", base.HEX, nil, nil, "0x80")},
  {"cap_mask", 2, 2, ProtoField.uint16("ema.class_port_info.cap_mask", "cap_mask", base.HEX, nil, nil, "bit 0: sends traps; bits 8-15: vports, 255"), parts = {ProtoField.bool("ema.class_port_info.cap_mask.traps", "traps", 16, nil, 0x1), ProtoField.uint16("ema.class_port_info.cap_mask.vports", "vports", base.DEC, nil, 0xFF00)}},
  {"cap_mask2_resp_time", 4, 4, ProtoField.uint32("ema.class_port_info.cap_mask2_resp_time", "cap_mask2_resp_time", base.HEX, nil, nil, "response time, 4.096 us * 2**18")},
  {"redirect_gid", 8, 16, ProtoField.bytes("ema.class_port_info.redirect_gid", "redirect_gid", base.NONE, "redirection GID; not used")},
  {"redirect_tc_fl", 24, 4, ProtoField.uint32("ema.class_port_info.redirect_tc_fl", "redirect_tc_fl", base.HEX, nil, nil, "redirection traffic class and flow label; not used")},
  {"redirect_lid", 28, 4, ProtoField.uint32("ema.class_port_info.redirect_lid", "redirect_lid", base.HEX, nil, nil, "redirection LID; not used")},
  {"redirect_sl_qp", 32, 4, ProtoField.uint32("ema.class_port_info.redirect_sl_qp", "redirect_sl_qp", base.HEX, nil, nil, "redirection SL and queue pair; not used")},
  {"redirect_qkey", 36, 4, ProtoField.uint32("ema.class_port_info.redirect_qkey", "redirect_qkey", base.HEX, nil, nil, "redirection Q_Key; not used")},
  {"trap_gid", 40, 16, ProtoField.bytes("ema.class_port_info.trap_gid", "trap_gid", base.NONE, "GID of the trap sink; not used")},
  {"trap_tc_fl", 56, 4, ProtoField.uint32("ema.class_port_info.trap_tc_fl", "trap_tc_fl", base.HEX, nil, nil, "traffic class and flow label of traps; not used")},
  {"trap_lid", 60, 4, ProtoField.uint32("ema.class_port_info.trap_lid", "trap_lid", base.HEX, nil, nil, "LID of the trap sink; 0: send no traps")},
  {"trap_hl_qp", 64, 4, ProtoField.uint32("ema.class_port_info.trap_hl_qp", "trap_hl_qp", base.HEX, nil, nil, "hop limit and queue pair of traps; not used, it is QP 1")},
  {"trap_qkey", 68, 4, ProtoField.uint32("ema.class_port_info.trap_qkey", "trap_qkey", base.HEX, nil, nil, "Q_Key of traps; not used")},
  {"trap_pkey", 72, 2, ProtoField.uint16("ema.class_port_info.trap_pkey", "trap_pkey", base.HEX, nil, nil, "P_Key of traps; not used, it is the port's management P_Key")},
  {"redirect_pkey", 74, 2, ProtoField.uint16("ema.class_port_info.redirect_pkey", "redirect_pkey", base.HEX, nil, nil, "redirection P_Key; not used")},
  {"trap_sl_rsvd", 76, 1, ProtoField.uint8("ema.class_port_info.trap_sl_rsvd", "trap_sl_rsvd", base.HEX, nil, nil, "bits 3-7: service level of traps; bits 0-2 kept"), parts = {ProtoField.uint8("ema.class_port_info.trap_sl_rsvd.trap_sl", "trap_sl", base.DEC, nil, 0xF8)}},
  {"reserved_77", 77, 3, ProtoField.bytes("ema.class_port_info.reserved_77", "reserved_77", base.NONE, "reserved")},
}
local NOTICE_SIZE = 48
local notice = {
  {"generic_type", 0, 1, ProtoField.uint8("ema.notice.generic_type", "generic_type", base.HEX, nil, nil, "0x08: notice type 4, vendor specific")},
  {"oui", 1, 3, ProtoField.uint24("ema.notice.oui", "oui", base.HEX, {[0x66a] = "the OUI of the VNIC's management"}, nil, "00066a")},
  {"trap_num", 4, 2, ProtoField.uint16("ema.notice.trap_num", "trap_num", base.DEC, nil, nil, "0")},
  {"toggle_count", 6, 2, ProtoField.uint16("ema.notice.toggle_count", "toggle_count", base.DEC, nil, nil, "0")},
  {"issuer_lid", 8, 4, ProtoField.uint32("ema.notice.issuer_lid", "issuer_lid", base.HEX, nil, nil, "encap_slid of the vport")},
  {"reserved_12", 12, 4, ProtoField.bytes("ema.notice.reserved_12", "reserved_12", base.NONE, "reserved")},
  {"issuer_gid", 16, 16, ProtoField.bytes("ema.notice.issuer_gid", "issuer_gid", base.NONE, "0")},
  {"fabric_id", 32, 2, ProtoField.uint16("ema.notice.fabric_id", "fabric_id", base.HEX, nil, nil, "of the vport")},
  {"vesw_id", 34, 2, ProtoField.uint16("ema.notice.vesw_id", "vesw_id", base.DEC, nil, nil, "of the vport")},
  {"vesw_port_num", 36, 4, ProtoField.uint32("ema.notice.vesw_port_num", "vesw_port_num", base.DEC, nil, nil, "of the vport")},
  {"opa_port_num", 40, 2, ProtoField.uint16("ema.notice.opa_port_num", "opa_port_num", base.DEC, nil, nil, "number of the HFI port")},
  {"vport_num", 42, 1, ProtoField.uint8("ema.notice.vport_num", "vport_num", base.DEC, nil, nil, "number of the vport")},
  {"opcode", 43, 1, ProtoField.uint8("ema.notice.opcode", "opcode", base.DEC, TRAP_OPCODE_NAMES, nil, "1 unicast list, 2 multicast list, 3 link status")},
  {"reserved_44", 44, 4, ProtoField.bytes("ema.notice.reserved_44", "reserved_44", base.NONE, "reserved")},
}
local VESW_PORT_INFO_SIZE = 280
local vesw_port_info = {
  {"fabric_id", 0, 2, ProtoField.uint16("ema.vesw_port_info.fabric_id", "fabric_id", base.HEX, nil, nil, "fabric id, 10 bits used in MAC addresses")},
  {"vesw_id", 2, 2, ProtoField.uint16("ema.vesw_port_info.vesw_id", "vesw_id", base.DEC, nil, nil, "virtual Ethernet switch, 12 bits; 0: on none")},
  {"reserved_4", 4, 6, ProtoField.bytes("ema.vesw_port_info.reserved_4", "reserved_4", base.NONE, "reserved")},
  {"def_port_mask", 10, 2, ProtoField.uint16("ema.vesw_port_info.def_port_mask", "def_port_mask", base.HEX, nil, nil, "which default ports are in use, a bit each")},
  {"reserved_12", 12, 2, ProtoField.bytes("ema.vesw_port_info.reserved_12", "reserved_12", base.NONE, "reserved")},
  {"pkey", 14, 2, ProtoField.uint16("ema.vesw_port_info.pkey", "pkey", base.HEX, nil, nil, "partition key of the packets")},
  {"reserved_16", 16, 4, ProtoField.bytes("ema.vesw_port_info.reserved_16", "reserved_16", base.NONE, "reserved")},
  {"u_mcast_dlid", 20, 4, ProtoField.uint32("ema.vesw_port_info.u_mcast_dlid", "u_mcast_dlid", base.HEX, nil, nil, "LID for multicast and broadcast frames")},
  {"u_ucast_dlid", 24, 4, ProtoField.uint32("ema.vesw_port_info.u_ucast_dlid", "u_ucast_dlid", base.HEX, nil, nil, "LID of each default port"), count = 16},
  {"rc", 88, 4, ProtoField.uint32("ema.vesw_port_info.rc", "rc", base.HEX, nil, nil, "routing controls: 3 bits from bit 0, 4, ... 24; see RcShift"), parts = {ProtoField.uint32("ema.vesw_port_info.rc.default", "default", base.DEC, nil, 0x7), ProtoField.uint32("ema.vesw_port_info.rc.ipv4", "ipv4", base.DEC, nil, 0x70), ProtoField.uint32("ema.vesw_port_info.rc.ipv4_udp", "ipv4_udp", base.DEC, nil, 0x700), ProtoField.uint32("ema.vesw_port_info.rc.ipv4_tcp", "ipv4_tcp", base.DEC, nil, 0x7000), ProtoField.uint32("ema.vesw_port_info.rc.ipv6", "ipv6", base.DEC, nil, 0x70000), ProtoField.uint32("ema.vesw_port_info.rc.ipv6_tcp", "ipv6_tcp", base.DEC, nil, 0x700000), ProtoField.uint32("ema.vesw_port_info.rc.ipv6_udp", "ipv6_udp", base.DEC, nil, 0x7000000)}},
  {"reserved_92", 92, 56, ProtoField.bytes("ema.vesw_port_info.reserved_92", "reserved_92", base.NONE, "reserved")},
  {"eth_mtu", 148, 2, ProtoField.uint16("ema.vesw_port_info.eth_mtu", "eth_mtu", base.DEC, nil, nil, "largest MTU, in bytes of Ethernet payload")},
  {"reserved_150", 150, 2, ProtoField.bytes("ema.vesw_port_info.reserved_150", "reserved_150", base.NONE, "reserved")},
  {"vesw_port_num", 152, 4, ProtoField.uint32("ema.vesw_port_info.vesw_port_num", "vesw_port_num", base.DEC, nil, nil, "number of the port on the virtual switch")},
  {"eth_link_status", 156, 1, ProtoField.uint8("ema.vesw_port_info.eth_link_status", "eth_link_status", base.DEC, {[0x0] = "no such vport", [0x1] = "up", [0x2] = "down"}, nil, "1 up, 2 down, 0 no such vport")},
  {"reserved_157", 157, 3, ProtoField.bytes("ema.vesw_port_info.reserved_157", "reserved_157", base.NONE, "reserved")},
  {"base_mac", 160, 6, ProtoField.ether("ema.vesw_port_info.base_mac", "base_mac", "the MAC address that the EM gives")},
  {"config_state", 166, 1, ProtoField.uint8("ema.vesw_port_info.config_state", "config_state", base.DEC, CONFIG_STATE_NAMES, nil, "3 forwarding; anything else drops all")},
  {"oper_state", 167, 1, ProtoField.uint8("ema.vesw_port_info.oper_state", "oper_state", base.DEC, CONFIG_STATE_NAMES, nil, "3 forwarding, 1 dropping all")},
  {"max_mac_tbl_ent", 168, 2, ProtoField.uint16("ema.vesw_port_info.max_mac_tbl_ent", "max_mac_tbl_ent", base.DEC, nil, nil, "entries of the MAC table, 2048")},
  {"max_smac_ent", 170, 2, ProtoField.uint16("ema.vesw_port_info.max_smac_ent", "max_smac_ent", base.DEC, nil, nil, "how many of them may be source entries, 256")},
  {"mac_tbl_digest", 172, 4, ProtoField.uint32("ema.vesw_port_info.mac_tbl_digest", "mac_tbl_digest", base.HEX, nil, nil, "digest that came with the last MacEntries Set")},
  {"reserved_176", 176, 4, ProtoField.bytes("ema.vesw_port_info.reserved_176", "reserved_176", base.NONE, "reserved")},
  {"encap_slid", 180, 4, ProtoField.uint32("ema.vesw_port_info.encap_slid", "encap_slid", base.HEX, nil, nil, "source LID of the packets")},
  {"pcp_to_sc_uc", 184, 8, ProtoField.bytes("ema.vesw_port_info.pcp_to_sc_uc", "pcp_to_sc_uc", base.NONE, "service channel of tagged unicast frames, one byte for each PCP")},
  {"pcp_to_vl_uc", 192, 8, ProtoField.bytes("ema.vesw_port_info.pcp_to_vl_uc", "pcp_to_vl_uc", base.NONE, "virtual lane of tagged unicast frames, one byte for each PCP")},
  {"pcp_to_sc_mc", 200, 8, ProtoField.bytes("ema.vesw_port_info.pcp_to_sc_mc", "pcp_to_sc_mc", base.NONE, "service channel of tagged multicast frames, one byte for each PCP")},
  {"pcp_to_vl_mc", 208, 8, ProtoField.bytes("ema.vesw_port_info.pcp_to_vl_mc", "pcp_to_vl_mc", base.NONE, "virtual lane of tagged multicast frames, one byte for each PCP")},
  {"non_vlan_sc_uc", 216, 1, ProtoField.uint8("ema.vesw_port_info.non_vlan_sc_uc", "non_vlan_sc_uc", base.DEC, nil, nil, "service channel, unicast, of frames without a VLAN tag")},
  {"non_vlan_vl_uc", 217, 1, ProtoField.uint8("ema.vesw_port_info.non_vlan_vl_uc", "non_vlan_vl_uc", base.DEC, nil, nil, "virtual lane, unicast, of frames without a VLAN tag")},
  {"non_vlan_sc_mc", 218, 1, ProtoField.uint8("ema.vesw_port_info.non_vlan_sc_mc", "non_vlan_sc_mc", base.DEC, nil, nil, "service channel, multicast, of frames without a VLAN tag")},
  {"non_vlan_vl_mc", 219, 1, ProtoField.uint8("ema.vesw_port_info.non_vlan_vl_mc", "non_vlan_vl_mc", base.DEC, nil, nil, "virtual lane, multicast, of frames without a VLAN tag")},
  {"reserved_220", 220, 48, ProtoField.bytes("ema.vesw_port_info.reserved_220", "reserved_220", base.NONE, "reserved")},
  {"uc_macs_gen_count", 268, 2, ProtoField.uint16("ema.vesw_port_info.uc_macs_gen_count", "uc_macs_gen_count", base.DEC, nil, nil, "readings of the unicast list by the driver, modulo 2**16")},
  {"mc_macs_gen_count", 270, 2, ProtoField.uint16("ema.vesw_port_info.mc_macs_gen_count", "mc_macs_gen_count", base.DEC, nil, nil, "readings of the multicast list by the driver, modulo 2**16")},
  {"reserved_272", 272, 8, ProtoField.bytes("ema.vesw_port_info.reserved_272", "reserved_272", base.NONE, "reserved")},
}
local MAC_ENTRIES_SIZE = 8
local mac_entries = {
  {"offset", 0, 2, ProtoField.uint16("ema.mac_entries.offset", "offset", base.DEC, nil, nil, "index of the first entry, 0 to 2048")},
  {"num_entries", 2, 2, ProtoField.uint16("ema.mac_entries.num_entries", "num_entries", base.DEC, nil, nil, "number of entries, 0 to 125")},
  {"digest", 4, 4, ProtoField.uint32("ema.mac_entries.digest", "digest", base.HEX, nil, nil, "the EM's digest of the whole table; a Get ignores it")},
}
local MAC_ENTRY_SIZE = 16
local mac_entry = {
  {"mac", 0, 6, ProtoField.ether("ema.mac_entry.mac", "mac", "MAC address; all zero removes the entry")},
  {"mask", 6, 6, ProtoField.ether("ema.mac_entry.mask", "mask", "mask of the address; destinations are compared whole")},
  {"dlid_sd", 12, 4, ProtoField.uint32("ema.mac_entry.dlid_sd", "dlid_sd", base.HEX, nil, nil, "bits 8-31: LID; bit 5: source entry; others kept"), parts = {ProtoField.uint32("ema.mac_entry.dlid_sd.dlid", "dlid", base.DEC, nil, 0xFFFFFF00), ProtoField.bool("ema.mac_entry.dlid_sd.source_entry", "source_entry", 32, nil, 0x20)}},
}
local IFACE_MACS_SIZE = 8
local iface_macs = {
  {"start", 0, 2, ProtoField.uint16("ema.iface_macs.start", "start", base.DEC, nil, nil, "index of the first address wanted; echoed")},
  {"num_macs", 2, 2, ProtoField.uint16("ema.iface_macs.num_macs", "num_macs", base.DEC, nil, nil, "how many are wanted, 0: up to 333; how many are here")},
  {"total", 4, 2, ProtoField.uint16("ema.iface_macs.total", "total", base.DEC, nil, nil, "addresses in the whole list")},
  {"gen_count", 6, 2, ProtoField.uint16("ema.iface_macs.gen_count", "gen_count", base.DEC, nil, nil, "readings of the list by the driver, modulo 2**16")},
}
local IFACE_MACS_ITEM_SIZE = 6
local iface_macs_item = {
  {"macs", 0, 6, ProtoField.ether("ema.iface_macs.macs", "macs", "6 bytes each")},
}
local SUMMARY_COUNTERS_SIZE = 360
local summary_counters = {
  {"vport_num", 0, 2, ProtoField.uint16("ema.summary_counters.vport_num", "vport_num", base.DEC, nil, nil, "number of the vport")},
  {"vesw_id", 2, 2, ProtoField.uint16("ema.summary_counters.vesw_id", "vesw_id", base.DEC, nil, nil, "virtual Ethernet switch that it is on now")},
  {"opa_port_num", 4, 4, ProtoField.uint32("ema.summary_counters.opa_port_num", "opa_port_num", base.DEC, nil, nil, "number of the HFI port")},
  {"tx_errors", 8, 8, ProtoField.uint64("ema.summary_counters.tx_errors", "tx_errors", base.DEC, nil, nil, "frames not sent: fifo, carrier, state, no destination")},
  {"rx_errors", 16, 8, ProtoField.uint64("ema.summary_counters.rx_errors", "rx_errors", base.DEC, nil, nil, "frames not delivered: fifo, no VNIC, state, oversize, runt")},
  {"tx_packets", 24, 8, ProtoField.uint64("ema.summary_counters.tx_packets", "tx_packets", base.DEC, nil, nil, "attempts to send")},
  {"rx_packets", 32, 8, ProtoField.uint64("ema.summary_counters.rx_packets", "rx_packets", base.DEC, nil, nil, "frames received")},
  {"tx_bytes", 40, 8, ProtoField.uint64("ema.summary_counters.tx_bytes", "tx_bytes", base.DEC, nil, nil, "bytes sent, 4 of FCS each")},
  {"rx_bytes", 48, 8, ProtoField.uint64("ema.summary_counters.rx_bytes", "rx_bytes", base.DEC, nil, nil, "bytes received, 4 of FCS each")},
  {"tx_unicast", 56, 8, ProtoField.uint64("ema.summary_counters.tx_unicast", "tx_unicast", base.DEC, nil, nil, "sent: frames to one station")},
  {"tx_mcastbcast", 64, 8, ProtoField.uint64("ema.summary_counters.tx_mcastbcast", "tx_mcastbcast", base.DEC, nil, nil, "sent: frames to many")},
  {"tx_untagged", 72, 8, ProtoField.uint64("ema.summary_counters.tx_untagged", "tx_untagged", base.DEC, nil, nil, "sent: frames without a VLAN tag")},
  {"tx_vlan", 80, 8, ProtoField.uint64("ema.summary_counters.tx_vlan", "tx_vlan", base.DEC, nil, nil, "sent: frames with a VLAN tag")},
  {"tx_64", 88, 8, ProtoField.uint64("ema.summary_counters.tx_64", "tx_64", base.DEC, nil, nil, "sent: up to 64 bytes, FCS included")},
  {"tx_65_127", 96, 8, ProtoField.uint64("ema.summary_counters.tx_65_127", "tx_65_127", base.DEC, nil, nil, "sent: 65 to 127 bytes")},
  {"tx_128_255", 104, 8, ProtoField.uint64("ema.summary_counters.tx_128_255", "tx_128_255", base.DEC, nil, nil, "sent: 128 to 255 bytes")},
  {"tx_256_511", 112, 8, ProtoField.uint64("ema.summary_counters.tx_256_511", "tx_256_511", base.DEC, nil, nil, "sent: 256 to 511 bytes")},
  {"tx_512_1023", 120, 8, ProtoField.uint64("ema.summary_counters.tx_512_1023", "tx_512_1023", base.DEC, nil, nil, "sent: 512 to 1023 bytes")},
  {"tx_1024_1518", 128, 8, ProtoField.uint64("ema.summary_counters.tx_1024_1518", "tx_1024_1518", base.DEC, nil, nil, "sent: 1024 to 1518 bytes")},
  {"tx_1519_max", 136, 8, ProtoField.uint64("ema.summary_counters.tx_1519_max", "tx_1519_max", base.DEC, nil, nil, "sent: 1519 bytes and more")},
  {"rx_unicast", 144, 8, ProtoField.uint64("ema.summary_counters.rx_unicast", "rx_unicast", base.DEC, nil, nil, "received: frames to one station")},
  {"rx_mcastbcast", 152, 8, ProtoField.uint64("ema.summary_counters.rx_mcastbcast", "rx_mcastbcast", base.DEC, nil, nil, "received: frames to many")},
  {"rx_untagged", 160, 8, ProtoField.uint64("ema.summary_counters.rx_untagged", "rx_untagged", base.DEC, nil, nil, "received: frames without a VLAN tag")},
  {"rx_vlan", 168, 8, ProtoField.uint64("ema.summary_counters.rx_vlan", "rx_vlan", base.DEC, nil, nil, "received: frames with a VLAN tag")},
  {"rx_64", 176, 8, ProtoField.uint64("ema.summary_counters.rx_64", "rx_64", base.DEC, nil, nil, "received: up to 64 bytes, FCS included")},
  {"rx_65_127", 184, 8, ProtoField.uint64("ema.summary_counters.rx_65_127", "rx_65_127", base.DEC, nil, nil, "received: 65 to 127 bytes")},
  {"rx_128_255", 192, 8, ProtoField.uint64("ema.summary_counters.rx_128_255", "rx_128_255", base.DEC, nil, nil, "received: 128 to 255 bytes")},
  {"rx_256_511", 200, 8, ProtoField.uint64("ema.summary_counters.rx_256_511", "rx_256_511", base.DEC, nil, nil, "received: 256 to 511 bytes")},
  {"rx_512_1023", 208, 8, ProtoField.uint64("ema.summary_counters.rx_512_1023", "rx_512_1023", base.DEC, nil, nil, "received: 512 to 1023 bytes")},
  {"rx_1024_1518", 216, 8, ProtoField.uint64("ema.summary_counters.rx_1024_1518", "rx_1024_1518", base.DEC, nil, nil, "received: 1024 to 1518 bytes")},
  {"rx_1519_max", 224, 8, ProtoField.uint64("ema.summary_counters.rx_1519_max", "rx_1519_max", base.DEC, nil, nil, "received: 1519 bytes and more")},
  {"reserved_232", 232, 128, ProtoField.bytes("ema.summary_counters.reserved_232", "reserved_232", base.NONE, "reserved")},
}
local ERROR_COUNTERS_SIZE = 304
local error_counters = {
  {"vport_num", 0, 2, ProtoField.uint16("ema.error_counters.vport_num", "vport_num", base.DEC, nil, nil, "number of the vport")},
  {"vesw_id", 2, 2, ProtoField.uint16("ema.error_counters.vesw_id", "vesw_id", base.DEC, nil, nil, "virtual Ethernet switch that it is on now")},
  {"opa_port_num", 4, 4, ProtoField.uint32("ema.error_counters.opa_port_num", "opa_port_num", base.DEC, nil, nil, "number of the HFI port")},
  {"tx_errors", 8, 8, ProtoField.uint64("ema.error_counters.tx_errors", "tx_errors", base.DEC, nil, nil, "frames not sent, as in SummaryCounters")},
  {"rx_errors", 16, 8, ProtoField.uint64("ema.error_counters.rx_errors", "rx_errors", base.DEC, nil, nil, "frames not delivered, as in SummaryCounters")},
  {"reserved_24", 24, 8, ProtoField.bytes("ema.error_counters.reserved_24", "reserved_24", base.NONE, "reserved")},
  {"tx_smac_filt", 32, 8, ProtoField.uint64("ema.error_counters.tx_smac_filt", "tx_smac_filt", base.DEC, nil, nil, "source address not in the MAC table's source entries")},
  {"reserved_40", 40, 8, ProtoField.bytes("ema.error_counters.reserved_40", "reserved_40", base.NONE, "reserved")},
  {"reserved_48", 48, 8, ProtoField.bytes("ema.error_counters.reserved_48", "reserved_48", base.NONE, "reserved")},
  {"reserved_56", 56, 8, ProtoField.bytes("ema.error_counters.reserved_56", "reserved_56", base.NONE, "reserved")},
  {"tx_dlid_zero", 64, 8, ProtoField.uint64("ema.error_counters.tx_dlid_zero", "tx_dlid_zero", base.DEC, nil, nil, "no destination LID")},
  {"reserved_72", 72, 8, ProtoField.bytes("ema.error_counters.reserved_72", "reserved_72", base.NONE, "reserved")},
  {"tx_logic", 80, 8, ProtoField.uint64("ema.error_counters.tx_logic", "tx_logic", base.DEC, nil, nil, "fifo and carrier errors")},
  {"reserved_88", 88, 8, ProtoField.bytes("ema.error_counters.reserved_88", "reserved_88", base.NONE, "reserved")},
  {"tx_drop_state", 96, 8, ProtoField.uint64("ema.error_counters.tx_drop_state", "tx_drop_state", base.DEC, nil, nil, "sent while not operational")},
  {"rx_bad_veswid", 104, 8, ProtoField.uint64("ema.error_counters.rx_bad_veswid", "rx_bad_veswid", base.DEC, nil, nil, "for a virtual switch that no VNIC here is on")},
  {"reserved_112", 112, 8, ProtoField.bytes("ema.error_counters.reserved_112", "reserved_112", base.NONE, "reserved")},
  {"rx_runt", 120, 8, ProtoField.uint64("ema.error_counters.rx_runt", "rx_runt", base.DEC, nil, nil, "frames under 60 bytes")},
  {"rx_oversize", 128, 8, ProtoField.uint64("ema.error_counters.rx_oversize", "rx_oversize", base.DEC, nil, nil, "frames over MTU + 18 bytes")},
  {"reserved_136", 136, 8, ProtoField.bytes("ema.error_counters.reserved_136", "reserved_136", base.NONE, "reserved")},
  {"rx_eth_down", 144, 8, ProtoField.uint64("ema.error_counters.rx_eth_down", "rx_eth_down", base.DEC, nil, nil, "always 0")},
  {"rx_drop_state", 152, 8, ProtoField.uint64("ema.error_counters.rx_drop_state", "rx_drop_state", base.DEC, nil, nil, "received while not operational")},
  {"rx_logic", 160, 8, ProtoField.uint64("ema.error_counters.rx_logic", "rx_logic", base.DEC, nil, nil, "fifo errors")},
  {"reserved_168", 168, 136, ProtoField.bytes("ema.error_counters.reserved_168", "reserved_168", base.NONE, "reserved")},
}
local attribute_rows = {class_port_info, notice, vesw_port_info, mac_entries, mac_entry, iface_macs, iface_macs_item, summary_counters, error_counters}
local ATTRIBUTES = {
  [ATTR_ID.CLASS_PORT_INFO] = {rows = class_port_info, of_port = true},
  [ATTR_ID.NOTICE] = {rows = notice, of_port = true},
  [ATTR_ID.VESW_PORT_INFO] = {rows = vesw_port_info},
  [ATTR_ID.MAC_ENTRIES] = {rows = mac_entries, list = mac_entry},
  [ATTR_ID.IFACE_UCAST_MACS] = {rows = iface_macs, list = iface_macs_item},
  [ATTR_ID.IFACE_MCAST_MACS] = {rows = iface_macs, list = iface_macs_item},
  [ATTR_ID.DELETE_VESW] = {rows = vesw_port_info},
  [ATTR_ID.SUMMARY_COUNTERS] = {rows = summary_counters},
  [ATTR_ID.ERROR_COUNTERS] = {rows = error_counters},
}
-- end of generated

-- Fields of the declarations --------------------------------------------------------------------------------------

local attr = ProtoField.string("ema.attr", "attr", base.ASCII, "name of the attribute")
local vport = ProtoField.uint8("ema.vport", "vport", base.DEC, nil, nil, "number of the vport: low byte of attr_mod")
local data = ProtoField.bytes("ema.data", "data")
local response_in = ProtoField.framenum("ema.response_in", "response in", base.NONE, frametype.RESPONSE)
local response_to = ProtoField.framenum("ema.response_to", "response to", base.NONE, frametype.REQUEST)
local response_time = ProtoField.relative_time("ema.response_time", "time since the request")
ema.fields = {attr, vport, data, response_in, response_to, response_time}
local declarations = {mad, rmpp, vendor, table.unpack(attribute_rows)}
for _, rows in ipairs(declarations) do
  for _, row in ipairs(rows) do
    table.insert(ema.fields, row[4])
    for _, part in ipairs(row.parts or {}) do
      table.insert(ema.fields, part)
    end
  end
end

local truncated = ProtoExpert.new("ema.truncated", "Truncated", expert.group.MALFORMED, expert.severity.ERROR)
local failed = ProtoExpert.new("ema.failed", "The request failed", expert.group.RESPONSE_CODE, expert.severity.WARN)
ema.experts = {truncated, failed}

-- Returns the bytes of each field of a header that begins at byte `start`, by name.
local function ranges_of(rows, buffer, start)
  local ranges = {}
  for _, row in ipairs(rows) do
    ranges[row[1]] = buffer(start + row[2], row[3])
  end
  return ranges
end

-- Attributes have the fields at the start, the repeated part after them, and a word for the packet list. In a Get, only
-- the start of a list is meaningful.

local function vesw_port_info_text(buffer)
  local range = ranges_of(vesw_port_info, buffer, 0)
  local state = range.config_state:uint()
  return string.format("vesw %d, %s", range.vesw_id:uint(), CONFIG_STATE_NAMES[state] or "state " .. state)
end

local function mac_entries_text(buffer)
  local range = ranges_of(mac_entries, buffer, 0)
  return string.format("%d entries from %d", range.num_entries:uint(), range.offset:uint())
end

local function iface_macs_text(buffer, is_get)
  local range = ranges_of(iface_macs, buffer, 0)
  if is_get then
    return string.format("from %d", range.start:uint())
  end
  return string.format("%d of %d from %d", range.num_macs:uint(), range.total:uint(), range.start:uint())
end

local function notice_text(buffer)
  local range = ranges_of(notice, buffer, 0)
  local opcode = range.opcode:uint()
  return string.format("vport %d, %s", range.vport_num:uint(), TRAP_OPCODE_NAMES[opcode] or "opcode " .. opcode)
end

ATTRIBUTES[ATTR_ID.NOTICE].text = notice_text
ATTRIBUTES[ATTR_ID.VESW_PORT_INFO].text = vesw_port_info_text
ATTRIBUTES[ATTR_ID.DELETE_VESW].text = vesw_port_info_text
ATTRIBUTES[ATTR_ID.MAC_ENTRIES].text = mac_entries_text
ATTRIBUTES[ATTR_ID.IFACE_UCAST_MACS].text = iface_macs_text
ATTRIBUTES[ATTR_ID.IFACE_MCAST_MACS].text = iface_macs_text
local ATTRIBUTE_NAMES = {
  [MAD_CLASS.EMA] = ATTR_ID_NAMES,
  [MAD_CLASS.SUBN_LID] = SUBNET_ATTR_ID_NAMES,
  [MAD_CLASS.SUBN_DIRECTED] = SUBNET_ATTR_ID_NAMES,
  [MAD_CLASS.SUBN_ADM] = SA_ATTR_ID_NAMES,
  [MAD_CLASS.PERFORMANCE] = PM_ATTR_ID_NAMES,
}

local STATUS_NAMES = {
  [MAD_CLASS.SUBN_ADM] = SA_STATUS_NAMES,
  [MAD_CLASS.PERFORMANCE] = PM_STATUS_NAMES,
}

local function status_name(class, status)
  local names = STATUS_NAMES[class] or MAD_STATUS_NAMES
  return names[status] or MAD_STATUS_NAMES[status] or "failed"
end

local function attribute_name(class, id)
  local names = ATTRIBUTE_NAMES[class] or COMMON_ATTR_ID_NAMES
  return names[id] or string.format("attribute 0x%04x", id)
end

-- Adds a header, and its fields below it.
local function add_header(branch, title, rows, size, buffer, start)
  local header, ranges = branch:add(buffer(start, size), title), ranges_of(rows, buffer, start)
  for _, row in ipairs(rows) do
    header:add(row[4], ranges[row[1]])
  end
  return header
end

-- Adds the rows that begin at byte `start`, as far as `buffer` contains them. Returns where they end, and whether all of
-- them were present.
local function add_rows(branch, rows, buffer, start)
  local at = start
  for _, row in ipairs(rows) do
    for index = 1, row.count or 1 do
      if at + row[3] > buffer:len() then
        return at, false
      end
      local item = branch:add(row[4], buffer(at, row[3]))
      if row.count then
        item:append_text(string.format(" [%d]", index - 1))
      end
      for _, part in ipairs(row.parts or {}) do
        item:add(part, buffer(at, row[3]))
      end
      at = at + row[3]
    end
  end
  return at, true
end

-- Adds the repeated part of a list, with as many entries as the start of the attribute states and the bytes contain.
local function add_list(branch, rows, buffer, at)
  local first, wanted = buffer(0, 2):uint(), buffer(2, 2):uint()
  for index = 0, wanted - 1 do
    local from, complete = at, true
    if #rows == 1 then
      at, complete = add_rows(branch, rows, buffer, from)
    elseif from < buffer:len() then
      local entry = branch:add(buffer(from, math.min(MAC_ENTRY_SIZE, buffer:len() - from)), "Entry " .. first + index)
      at, complete = add_rows(entry, rows, buffer, from)
      if complete then
        entry:append_text(string.format(": %s, LID 0x%x", buffer(from, 6):ether(), buffer(from + 12, 3):uint()))
      end
    end
    if not complete or at == from then
      branch:add_proto_expert_info(truncated, string.format("%d of %d are there", index, wanted))
      return at
    end
  end
  return at
end

-- Adds a line for the meaningless bytes after an attribute.
local function add_rest(branch, buffer, at)
  if at < buffer:len() then
    local rest = buffer(at)
    local zero = rest:raw():find("[^%z]") == nil
    branch:add(rest, string.format("Not used: %d bytes%s", rest:len(), zero and ", all zero" or ""))
  end
end

-- Returns which part of an attribute's data is meaningful: "none", the "start" of a list, or "all".
local function extent(method, status, id)
  if method >= 0x80 and status ~= 0 or method == METHOD.SET and id == ATTR_ID.DELETE_VESW then
    return "none"
  elseif method == METHOD.GET then
    return ATTRIBUTES[id].list and "start" or "none"
  end
  return "all"
end

-- Adds the data of an EMA MAD and returns a few words about it.
local function add_attribute(branch, buffer, method, status, id)
  local attribute = ATTRIBUTES[id]
  if not attribute then
    branch:add(data, buffer())
    return nil
  end
  local part = extent(method, status, id)
  if part == "none" then
    add_rest(branch, buffer, 0)
    return nil
  end
  local inner = branch:add(buffer(), ATTR_ID_NAMES[id])
  local at, complete = add_rows(inner, attribute.rows, buffer, 0)
  if not complete then
    inner:add_proto_expert_info(truncated)
    return nil
  end
  local text = attribute.text and attribute.text(buffer, method == METHOD.GET)
  inner:append_text(text and ", " .. text or "")
  if attribute.list and part == "all" then
    at = add_list(inner, attribute.list, buffer, at)
  end
  add_rest(branch, buffer, at)
  return text
end

-- Requests and responses ------------------------------------------------------------------------------------------

local exchanges, exchange_of_frame = {}, {}

function ema.init()
  exchanges, exchange_of_frame = {}, {}
end

-- Finds the exchange of a MAD when it first appears. A capture of a whole fabric contains it once per link.
local function note_exchange(packet, slid, dlid, tid, is_response)
  local key = is_response and dlid .. slid .. tid or slid .. dlid .. tid
  local exchange = exchanges[key]
  if is_response and exchange then
    exchange.response = exchange.response or packet.number
  elseif not is_response and (not exchange or exchange.response) then
    exchange = {request = packet.number, sent_s = packet.rel_ts}
    exchanges[key] = exchange
  end
  exchange_of_frame[packet.number] = exchange
end

local function add_exchange(branch, packet, is_response)
  local exchange = exchange_of_frame[packet.number]
  if not exchange then
    return
  elseif is_response then
    local elapsed = packet.rel_ts - exchange.sent_s
    local seconds = math.floor(elapsed)
    branch:add(response_to, exchange.request):set_generated()
    branch:add(response_time, NSTime.new(seconds, math.floor((elapsed - seconds) * 1e9 + 0.5))):set_generated()
  elseif exchange.response then
    branch:add(response_in, exchange.response):set_generated()
  end
end

-- The whole MAD ---------------------------------------------------------------------------------------------------

function ema.dissector(buffer, packet, tree)
  packet.cols.protocol:set("OPA MAD")
  local branch = tree:add(ema, buffer())
  branch:set_text("OPA MAD")
  if buffer:len() < MAD_SIZE then
    local reason = string.format("%d bytes, the MAD header needs %d", buffer:len(), MAD_SIZE)
    branch:add_proto_expert_info(truncated, reason)
    packet.cols.info:append(", MAD [truncated]")
    return buffer:len()
  end
  local range = ranges_of(mad, buffer, 0)
  local class, method = range.mgmt_class:uint(), range.method:uint()
  local status, id = range.status:uint(), range.attr_id:uint()
  if class == MAD_CLASS.SUBN_DIRECTED then
    status = status % 0x8000  -- the uppermost bit is the direction
  end
  local tid = range.tid:uint64():tohex():gsub("^0+(.)", "%1")
  local vport_range = range.attr_mod(3, 1)
  local slid, dlid = packet.private["opa_slid"] or "?", packet.private["opa_dlid"] or "?"
  local is_response = method >= 0x80 or method == METHOD.TRAP_REPRESS
  local name = attribute_name(class, id)
  local title = string.format("%s %s", METHOD_NAMES[method] or string.format("method 0x%02x", method), name)
  local of_vport = class == MAD_CLASS.EMA and not (ATTRIBUTES[id] and ATTRIBUTES[id].of_port)
  if of_vport then
    title = string.format("%s vport %d", title, vport_range:uint())
  end
  branch:set_text(string.format("%s, %s", class == MAD_CLASS.EMA and "OPA EMA" or "OPA MAD", title))
  packet.cols.info:set(string.format("%s, %s > %s tid 0x%s", title, slid, dlid, tid))
  local header = add_header(branch, "MAD header", mad, MAD_SIZE, buffer, 0)
  header:add(attr, range.attr_id, name):set_generated()
  if of_vport then
    header:add(vport, vport_range):set_generated()
  end
  if method >= 0x80 and status ~= 0 then
    local reason = string.format("status 0x%04x: %s", status, status_name(class, status))
    header:add_proto_expert_info(failed, reason)
    packet.cols.info:append(", " .. reason)
  end
  if not packet.visited then
    note_exchange(packet, slid, dlid, tid, is_response)
  end
  add_exchange(branch, packet, is_response)
  if ATTRIBUTE_NAMES[class] and class ~= MAD_CLASS.EMA and Dissector.get("opa_mgmt") then
    Dissector.get("opa_mgmt"):call(buffer, packet, tree)
    return buffer:len()
  elseif class < 0x30 or class > 0x4F then
    if buffer:len() > MAD_SIZE then
      branch:add(data, buffer(MAD_SIZE))
    end
    return buffer:len()
  elseif buffer:len() < VENDOR_DATA then
    branch:add_proto_expert_info(truncated, "No room for RMPP and vendor header")
    return buffer:len()
  end
  add_header(branch, "RMPP header", rmpp, RMPP_SIZE, buffer, MAD_SIZE)
  add_header(branch, "Vendor header", vendor, VENDOR_SIZE, buffer, MAD_SIZE + RMPP_SIZE)
  if buffer:len() == VENDOR_DATA then
    return buffer:len()
  elseif class == MAD_CLASS.EMA and ranges_of(vendor, buffer, MAD_SIZE + RMPP_SIZE).oui:uint() == OUI_EMA then
    packet.cols.protocol:set("OPA EMA")
    local text = add_attribute(branch, buffer(VENDOR_DATA):tvb(), method, status, id)
    packet.cols.info:append(text and ": " .. text or "")
  else
    branch:add(data, buffer(VENDOR_DATA))
  end
  return buffer:len()
end
