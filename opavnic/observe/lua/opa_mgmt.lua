-- Subnet management, subnet administration and performance management of Omni-Path, below opa_ema.lua, which shows the
-- header of every MAD and hands on those of the classes 0x01, 0x81, 0x03 and 0x04.
--
-- Rows of fields are generated from the declarations of hfi_sim.

local mgmt = Proto("opa_mgmt", "OPA management")

-- generated: attributes (made by `make generated` from hfi_sim/wire/mad/header.py, hfi_sim/wire/mad/pma_attributes.py, hfi_sim/wire/mad/smp_header.py, hfi_sim/wire/sa/message.py, hfi_sim/wire/sa/records.py, hfi_sim/wire/sa/records_ib.py, hfi_sim/wire/sa/records_tables.py, hfi_sim/wire/sma/node.py, hfi_sim/wire/sma/notice.py, hfi_sim/wire/sma/port_info.py, hfi_sim/wire/sma/tables.py; do not edit)
local attributes = {}
attributes.smp = {title = "SMP header", size = 8, rows = {
  {"mkey", 0, 8, ProtoField.uint64("opa_mgmt.smp.mkey", "mkey", base.HEX, nil, nil, "management key")},
}}
attributes.smp_directed = {title = "directed route", size = 152, rows = {
  {"mkey", 0, 8, ProtoField.uint64("opa_mgmt.smp_directed.mkey", "mkey", base.HEX, nil, nil, "management key")},
  {"dr_slid", 8, 4, ProtoField.uint32("opa_mgmt.smp_directed.dr_slid", "dr_slid", base.HEX, nil, nil, "LID before the directed part; all ones: it begins at the sender")},
  {"dr_dlid", 12, 4, ProtoField.uint32("opa_mgmt.smp_directed.dr_dlid", "dr_dlid", base.HEX, nil, nil, "LID after the directed part; all ones: it ends at the receiver")},
  {"initial_path", 16, 64, ProtoField.bytes("opa_mgmt.smp_directed.initial_path", "initial_path", base.NONE, "port by which each hop leaves, from byte 1")},
  {"return_path", 80, 64, ProtoField.bytes("opa_mgmt.smp_directed.return_path", "return_path", base.NONE, "port by which each hop has come")},
  {"reserved", 144, 8, ProtoField.uint64("opa_mgmt.smp_directed.reserved", "reserved", base.HEX, nil, nil, "reserved")},
}}
attributes.smp_directed_ib = {title = "directed route of base version 1", size = 232, rows = {
  {"mkey", 0, 8, ProtoField.uint64("opa_mgmt.smp_directed_ib.mkey", "mkey", base.HEX, nil, nil, "management key")},
  {"dr_slid", 8, 2, ProtoField.uint16("opa_mgmt.smp_directed_ib.dr_slid", "dr_slid", base.HEX, nil, nil, "LID before the directed part; all ones: it begins at the sender")},
  {"dr_dlid", 10, 2, ProtoField.uint16("opa_mgmt.smp_directed_ib.dr_dlid", "dr_dlid", base.HEX, nil, nil, "LID after the directed part; all ones: it ends at the receiver")},
  {"reserved", 12, 28, ProtoField.bytes("opa_mgmt.smp_directed_ib.reserved", "reserved", base.NONE, "reserved")},
  {"data", 40, 64, ProtoField.bytes("opa_mgmt.smp_directed_ib.data", "data", base.NONE, "data")},
  {"initial_path", 104, 64, ProtoField.bytes("opa_mgmt.smp_directed_ib.initial_path", "initial_path", base.NONE, "port by which each hop leaves, from byte 1")},
  {"return_path", 168, 64, ProtoField.bytes("opa_mgmt.smp_directed_ib.return_path", "return_path", base.NONE, "port by which each hop has come")},
}}
attributes.rmpp = {title = "RMPP header", size = 12, rows = {
  {"version", 0, 1, ProtoField.uint8("opa_mgmt.rmpp.version", "version", base.DEC, nil, nil, "0: not in use")},
  {"type", 1, 1, ProtoField.uint8("opa_mgmt.rmpp.type", "type", base.DEC, nil, nil, "0: not in use")},
  {"rtime_flags", 2, 1, ProtoField.uint8("opa_mgmt.rmpp.rtime_flags", "rtime_flags", base.HEX, nil, nil, "response time (5 bits) and flags (3 bits)")},
  {"rmpp_status", 3, 1, ProtoField.uint8("opa_mgmt.rmpp.rmpp_status", "rmpp_status", base.DEC, nil, nil, "0: normal")},
  {"segment", 4, 4, ProtoField.uint32("opa_mgmt.rmpp.segment", "segment", base.DEC, nil, nil, "segment number")},
  {"length", 8, 4, ProtoField.uint32("opa_mgmt.rmpp.length", "length", base.DEC, nil, nil, "payload length, or new window")},
}}
attributes.sa_header = {title = "SA header", size = 20, rows = {
  {"sm_key", 0, 8, ProtoField.uint64("opa_mgmt.sa_header.sm_key", "sm_key", base.HEX, nil, nil, "SM_Key: 0, or the key that makes the sender trusted")},
  {"attribute_offset", 8, 2, ProtoField.uint16("opa_mgmt.sa_header.attribute_offset", "attribute_offset", base.DEC, nil, nil, "from one record of a table to the next, in units of 8 bytes")},
  {"reserved", 10, 2, ProtoField.uint16("opa_mgmt.sa_header.reserved", "reserved", base.HEX, nil, nil, "0")},
  {"component_mask", 12, 8, ProtoField.uint64("opa_mgmt.sa_header.component_mask", "component_mask", base.HEX, nil, nil, "a bit for each component that the sender has filled in")},
}}
attributes.sm_notice = {title = "Notice of subnet management", size = 96, rows = {
  {"is_generic", 0, 1, ProtoField.bool("opa_mgmt.sm_notice.is_generic", "is_generic", 8, nil, 0x80, "of the architecture, not of a vendor")},
  {"type", 0, 1, ProtoField.uint8("opa_mgmt.sm_notice.type", "type", base.DEC, {[0x0] = "fatal", [0x1] = "urgent", [0x2] = "security", [0x3] = "subnet management", [0x4] = "informational"}, 0x7F, "how grave it is")},
  {"producer", 1, 3, ProtoField.uint24("opa_mgmt.sm_notice.producer", "producer", base.DEC, {[0x1] = "HFI", [0x2] = "switch", [0x3] = "router", [0x4] = "class manager"}, nil, "kind of the issuer")},
  {"trap_number", 4, 2, ProtoField.uint16("opa_mgmt.sm_notice.trap_number", "trap_number", base.DEC, {[0x40] = "a port is in service", [0x41] = "a port is out of service", [0x42] = "there is a new multicast group", [0x43] = "a multicast group is gone", [0x80] = "a port of a switch has changed its state", [0x81] = "too many errors on a link", [0x82] = "a buffer has overrun", [0x83] = "flow control has timed out", [0x90] = "capabilities or the description have changed", [0x91] = "the system image GUID has changed", [0x100] = "wrong M_Key", [0x101] = "wrong P_Key", [0x102] = "wrong Q_Key", [0x103] = "wrong P_Key at a switch", [0x800] = "the width of a link has changed"}, nil, "what happened")},
  {"toggle", 6, 1, ProtoField.bool("opa_mgmt.sm_notice.toggle", "toggle", 8, nil, 0x80, "changes with each notice")},
  {"count", 6, 2, ProtoField.uint16("opa_mgmt.sm_notice.count", "count", base.DEC, nil, 0x7FFF, "notices that wait")},
  {"issuer_lid", 8, 4, ProtoField.uint32("opa_mgmt.sm_notice.issuer_lid", "issuer_lid", base.HEX, nil, nil, "LID of the port that speaks")},
  {"reserved", 12, 4, ProtoField.uint32("opa_mgmt.sm_notice.reserved", "reserved", base.HEX, nil, nil, "reserved")},
  {"issuer_gid", 16, 16, ProtoField.bytes("opa_mgmt.sm_notice.issuer_gid", "issuer_gid", base.NONE, "its GID")},
  {"data", 32, 64, ProtoField.bytes("opa_mgmt.sm_notice.data", "data", base.NONE, "by the number")},
}}
attributes.node_description = {title = "NodeDescription", size = 64, rows = {
  {"text", 0, 64, ProtoField.bytes("opa_mgmt.node_description.text", "text", base.NONE, "UTF-8, ends with a zero byte")},
}}
attributes.node_info = {title = "NodeInfo", size = 44, rows = {
  {"base_version", 0, 1, ProtoField.uint8("opa_mgmt.node_info.base_version", "base_version", base.HEX, nil, nil, "0x80")},
  {"class_version", 1, 1, ProtoField.uint8("opa_mgmt.node_info.class_version", "class_version", base.HEX, nil, nil, "0x80")},
  {"node_type", 2, 1, ProtoField.uint8("opa_mgmt.node_info.node_type", "node_type", base.DEC, {[0x1] = "HFI", [0x2] = "switch"}, nil, "HFI or switch")},
  {"num_ports", 3, 1, ProtoField.uint8("opa_mgmt.node_info.num_ports", "num_ports", base.DEC, nil, nil, "ports with a cable; a switch's port 0 does not count")},
  {"reserved", 4, 4, ProtoField.uint32("opa_mgmt.node_info.reserved", "reserved", base.HEX, nil, nil, "reserved")},
  {"system_image_guid", 8, 8, ProtoField.uint64("opa_mgmt.node_info.system_image_guid", "system_image_guid", base.HEX, nil, nil, "GUID of the whole system")},
  {"node_guid", 16, 8, ProtoField.uint64("opa_mgmt.node_info.node_guid", "node_guid", base.HEX, nil, nil, "GUID of the node")},
  {"port_guid", 24, 8, ProtoField.uint64("opa_mgmt.node_info.port_guid", "port_guid", base.HEX, nil, nil, "GUID of the port that was asked")},
  {"partition_cap", 32, 2, ProtoField.uint16("opa_mgmt.node_info.partition_cap", "partition_cap", base.DEC, nil, nil, "entries of the partition table")},
  {"device_id", 34, 2, ProtoField.uint16("opa_mgmt.node_info.device_id", "device_id", base.HEX, nil, nil, "device, by its vendor")},
  {"revision", 36, 4, ProtoField.uint32("opa_mgmt.node_info.revision", "revision", base.HEX, nil, nil, "revision of the device")},
  {"local_port_num", 40, 1, ProtoField.uint8("opa_mgmt.node_info.local_port_num", "local_port_num", base.DEC, nil, nil, "the port that the question came by")},
  {"vendor_id", 41, 3, ProtoField.uint24("opa_mgmt.node_info.vendor_id", "vendor_id", base.HEX, nil, nil, "OUI of the vendor")},
}}
attributes.switch_info = {title = "SwitchInfo", size = 84, rows = {
  {"linear_fdb_cap", 0, 4, ProtoField.uint32("opa_mgmt.switch_info.linear_fdb_cap", "linear_fdb_cap", base.DEC, nil, nil, "entries of the linear forwarding table")},
  {"port_group_fdb_cap", 4, 4, ProtoField.uint32("opa_mgmt.switch_info.port_group_fdb_cap", "port_group_fdb_cap", base.DEC, nil, nil, "entries of the port group forwarding table")},
  {"multicast_fdb_cap", 8, 4, ProtoField.uint32("opa_mgmt.switch_info.multicast_fdb_cap", "multicast_fdb_cap", base.DEC, nil, nil, "entries of the multicast forwarding table")},
  {"linear_fdb_top", 12, 4, ProtoField.uint32("opa_mgmt.switch_info.linear_fdb_top", "linear_fdb_top", base.HEX, nil, nil, "the highest LID in the linear table")},
  {"multicast_fdb_top", 16, 4, ProtoField.uint32("opa_mgmt.switch_info.multicast_fdb_top", "multicast_fdb_top", base.HEX, nil, nil, "the highest LID in the multicast table")},
  {"collective_cap", 20, 4, ProtoField.uint32("opa_mgmt.switch_info.collective_cap", "collective_cap", base.DEC, nil, nil, "entries of the collective table")},
  {"collective_top", 24, 4, ProtoField.uint32("opa_mgmt.switch_info.collective_top", "collective_top", base.HEX, nil, nil, "the highest LID in the collective table")},
  {"reserved_28", 28, 4, ProtoField.uint32("opa_mgmt.switch_info.reserved_28", "reserved_28", base.HEX, nil, nil, "reserved")},
  {"ipv6", 32, 16, ProtoField.bytes("opa_mgmt.switch_info.ipv6", "ipv6", base.NONE, "IPv6 address of its management")},
  {"ipv4", 48, 4, ProtoField.bytes("opa_mgmt.switch_info.ipv4", "ipv4", base.NONE, "IPv4 address of its management")},
  {"reserved_52", 52, 15, ProtoField.bytes("opa_mgmt.switch_info.reserved_52", "reserved_52", base.NONE, "reserved")},
  {"life_time_value", 67, 1, ProtoField.uint8("opa_mgmt.switch_info.life_time_value", "life_time_value", base.DEC, nil, 0xF8, "how long a packet lives in it, 4.096 us * 2**n")},
  {"port_state_change", 67, 1, ProtoField.bool("opa_mgmt.switch_info.port_state_change", "port_state_change", 8, nil, 0x4, "a port has changed its state; a Set of 1 clears it")},
  {"reserved_67", 67, 1, ProtoField.uint8("opa_mgmt.switch_info.reserved_67", "reserved_67", base.DEC, nil, 0x3, "reserved")},
  {"reserved_68", 68, 2, ProtoField.uint16("opa_mgmt.switch_info.reserved_68", "reserved_68", base.HEX, nil, nil, "reserved")},
  {"partition_enforcement_cap", 70, 2, ProtoField.uint16("opa_mgmt.switch_info.partition_enforcement_cap", "partition_enforcement_cap", base.DEC, nil, nil, "P_Keys that a port can enforce")},
  {"port_group_cap", 72, 1, ProtoField.uint8("opa_mgmt.switch_info.port_group_cap", "port_group_cap", base.DEC, nil, nil, "entries of the port group table")},
  {"port_group_top", 73, 1, ProtoField.uint8("opa_mgmt.switch_info.port_group_top", "port_group_top", base.DEC, nil, nil, "entries in use in the port group table")},
  {"routing_supported", 74, 1, ProtoField.uint8("opa_mgmt.switch_info.routing_supported", "routing_supported", base.HEX, nil, nil, "routing modes that it has; 1: linear")},
  {"routing_enabled", 75, 1, ProtoField.uint8("opa_mgmt.switch_info.routing_enabled", "routing_enabled", base.HEX, nil, nil, "the mode in use; a Set of 0 changes nothing")},
  {"reserved_76", 76, 1, ProtoField.uint8("opa_mgmt.switch_info.reserved_76", "reserved_76", base.DEC, nil, 0xF0, "reserved")},
  {"enhanced_port0", 76, 1, ProtoField.bool("opa_mgmt.switch_info.enhanced_port0", "enhanced_port0", 8, nil, 0x8, "its port 0 is a full end port")},
  {"reserved_76_3", 76, 1, ProtoField.uint8("opa_mgmt.switch_info.reserved_76_3", "reserved_76_3", base.DEC, nil, 0x7, "reserved")},
  {"reserved_77", 77, 1, ProtoField.uint8("opa_mgmt.switch_info.reserved_77", "reserved_77", base.DEC, nil, 0xC0, "reserved")},
  {"collective_mask", 77, 1, ProtoField.uint8("opa_mgmt.switch_info.collective_mask", "collective_mask", base.DEC, nil, 0x38, "upper ones of a collective LID")},
  {"multicast_mask", 77, 1, ProtoField.uint8("opa_mgmt.switch_info.multicast_mask", "multicast_mask", base.DEC, nil, 0x7, "upper ones of a multicast LID")},
  {"adaptive_routing", 78, 2, ProtoField.uint16("opa_mgmt.switch_info.adaptive_routing", "adaptive_routing", base.HEX, nil, nil, "settings of adaptive routing")},
  {"capability_mask", 80, 2, ProtoField.uint16("opa_mgmt.switch_info.capability_mask", "capability_mask", base.HEX, nil, nil, "bit 0: adaptive routing")},
  {"collective_capabilities", 82, 2, ProtoField.uint16("opa_mgmt.switch_info.collective_capabilities", "collective_capabilities", base.HEX, nil, nil, "collective capabilities")},
}}
attributes.port_info = {title = "PortInfo", size = 242, rows = {
  {"lid", 0, 4, ProtoField.uint32("opa_mgmt.port_info.lid", "lid", base.HEX, nil, nil, "base LID; at a switch's port with a cable, that of the neighbour")},
  {"flow_control_mask", 4, 4, ProtoField.uint32("opa_mgmt.port_info.flow_control_mask", "flow_control_mask", base.HEX, nil, nil, "VLs without flow control")},
  {"preempt_cap", 8, 1, ProtoField.uint8("opa_mgmt.port_info.preempt_cap", "preempt_cap", base.DEC, nil, nil, "entries of the table of preempting VLs")},
  {"reserved_9", 9, 1, ProtoField.uint8("opa_mgmt.port_info.reserved_9", "reserved_9", base.DEC, nil, 0xE0, "reserved")},
  {"vl_cap", 9, 1, ProtoField.uint8("opa_mgmt.port_info.vl_cap", "vl_cap", base.DEC, nil, 0x1F, "virtual lanes that it has")},
  {"vl_high_limit", 10, 2, ProtoField.uint16("opa_mgmt.port_info.vl_high_limit", "vl_high_limit", base.DEC, nil, nil, "limit of the high-priority VLs")},
  {"vl_preempting_limit", 12, 2, ProtoField.uint16("opa_mgmt.port_info.vl_preempting_limit", "vl_preempting_limit", base.DEC, nil, nil, "limit of the preempting VLs")},
  {"arb_high_cap", 14, 1, ProtoField.uint8("opa_mgmt.port_info.arb_high_cap", "arb_high_cap", base.DEC, nil, nil, "entries of the high-priority table")},
  {"arb_low_cap", 15, 1, ProtoField.uint8("opa_mgmt.port_info.arb_low_cap", "arb_low_cap", base.DEC, nil, nil, "entries of the low-priority table")},
  {"reserved_16", 16, 2, ProtoField.uint16("opa_mgmt.port_info.reserved_16", "reserved_16", base.DEC, nil, 0xFF80, "reserved")},
  {"led_enabled", 17, 1, ProtoField.bool("opa_mgmt.port_info.led_enabled", "led_enabled", 8, nil, 0x40, "the beacon is on")},
  {"is_sm_configuration_started", 17, 1, ProtoField.bool("opa_mgmt.port_info.is_sm_configuration_started", "is_sm_configuration_started", 8, nil, 0x20, "a manager has begun to set the port up")},
  {"neighbor_normal", 17, 1, ProtoField.bool("opa_mgmt.port_info.neighbor_normal", "neighbor_normal", 8, nil, 0x10, "the neighbour is ARMED or ACTIVE")},
  {"offline_disabled_reason", 17, 1, ProtoField.uint8("opa_mgmt.port_info.offline_disabled_reason", "offline_disabled_reason", base.DEC, nil, 0xF, "why the port is offline or disabled")},
  {"reserved_18", 18, 1, ProtoField.uint8("opa_mgmt.port_info.reserved_18", "reserved_18", base.DEC, nil, nil, "reserved")},
  {"physical_state", 19, 1, ProtoField.uint8("opa_mgmt.port_info.physical_state", "physical_state", base.DEC, {[0x0] = "no change", [0x2] = "polling", [0x3] = "disabled", [0x4] = "training", [0x5] = "link up", [0x9] = "offline", [0xb] = "test"}, 0xF0, "physical state")},
  {"state", 19, 1, ProtoField.uint8("opa_mgmt.port_info.state", "state", base.DEC, {[0x1] = "DOWN", [0x2] = "INIT", [0x3] = "ARMED", [0x4] = "ACTIVE"}, 0xF, "logical state")},
  {"reserved_20", 20, 1, ProtoField.uint8("opa_mgmt.port_info.reserved_20", "reserved_20", base.DEC, nil, 0xF0, "reserved")},
  {"port_type", 20, 1, ProtoField.uint8("opa_mgmt.port_info.port_type", "port_type", base.DEC, {[0x0] = "unknown", [0x1] = "disconnected", [0x2] = "fixed", [0x3] = "variable", [0x4] = "standard", [0x5] = "silicon photonics"}, 0xF, "what its cable is")},
  {"reserved_21", 21, 1, ProtoField.uint8("opa_mgmt.port_info.reserved_21", "reserved_21", base.DEC, nil, 0xC0, "reserved")},
  {"collective_mask", 21, 1, ProtoField.uint8("opa_mgmt.port_info.collective_mask", "collective_mask", base.DEC, nil, 0x38, "upper ones of a collective LID")},
  {"multicast_mask", 21, 1, ProtoField.uint8("opa_mgmt.port_info.multicast_mask", "multicast_mask", base.DEC, nil, 0x7, "upper ones of a multicast LID")},
  {"mkey_protect", 22, 1, ProtoField.uint8("opa_mgmt.port_info.mkey_protect", "mkey_protect", base.DEC, nil, 0xC0, "what needs the M_Key: 2 and 3 reading too")},
  {"reserved_22", 22, 1, ProtoField.uint8("opa_mgmt.port_info.reserved_22", "reserved_22", base.DEC, nil, 0x30, "reserved")},
  {"lmc", 22, 1, ProtoField.uint8("opa_mgmt.port_info.lmc", "lmc", base.DEC, nil, 0xF, "it has 2**n LIDs")},
  {"reserved_23", 23, 1, ProtoField.uint8("opa_mgmt.port_info.reserved_23", "reserved_23", base.DEC, nil, 0xE0, "reserved")},
  {"master_sm_sl", 23, 1, ProtoField.uint8("opa_mgmt.port_info.master_sm_sl", "master_sm_sl", base.DEC, nil, 0x1F, "service level to the subnet manager")},
  {"link_init_reason", 24, 1, ProtoField.uint8("opa_mgmt.port_info.link_init_reason", "link_init_reason", base.DEC, {[0x0] = "no change", [0x1] = "the link came up", [0x2] = "the manager ignores a port that flaps", [0x8] = "width or speed are outside the policy", [0x9] = "quarantined", [0xa] = "capabilities are insufficient"}, 0xF0, "why the link is in INIT")},
  {"enforce_inbound", 24, 1, ProtoField.bool("opa_mgmt.port_info.enforce_inbound", "enforce_inbound", 8, nil, 0x8, "partitions are enforced on what comes in")},
  {"enforce_outbound", 24, 1, ProtoField.bool("opa_mgmt.port_info.enforce_outbound", "enforce_outbound", 8, nil, 0x4, "partitions are enforced on what leaves")},
  {"reserved_24", 24, 1, ProtoField.uint8("opa_mgmt.port_info.reserved_24", "reserved_24", base.DEC, nil, 0x3, "reserved")},
  {"reserved_25", 25, 1, ProtoField.uint8("opa_mgmt.port_info.reserved_25", "reserved_25", base.DEC, nil, 0xE0, "reserved")},
  {"operational_vls", 25, 1, ProtoField.uint8("opa_mgmt.port_info.operational_vls", "operational_vls", base.DEC, nil, 0x1F, "virtual lanes in use")},
  {"pkey_8b", 26, 2, ProtoField.uint16("opa_mgmt.port_info.pkey_8b", "pkey_8b", base.HEX, nil, nil, "P_Key of packets of 8B")},
  {"pkey_10b", 28, 2, ProtoField.uint16("opa_mgmt.port_info.pkey_10b", "pkey_10b", base.HEX, nil, nil, "upper bits of the P_Key of packets of 10B")},
  {"mkey_violations", 30, 2, ProtoField.uint16("opa_mgmt.port_info.mkey_violations", "mkey_violations", base.DEC, nil, nil, "SMPs with a wrong M_Key")},
  {"pkey_violations", 32, 2, ProtoField.uint16("opa_mgmt.port_info.pkey_violations", "pkey_violations", base.DEC, nil, nil, "packets with a wrong P_Key")},
  {"qkey_violations", 34, 2, ProtoField.uint16("opa_mgmt.port_info.qkey_violations", "qkey_violations", base.DEC, nil, nil, "packets with a wrong Q_Key")},
  {"sm_trap_qp", 36, 4, ProtoField.uint32("opa_mgmt.port_info.sm_trap_qp", "sm_trap_qp", base.DEC, nil, nil, "queue pair of traps to the subnet manager")},
  {"sa_qp", 40, 4, ProtoField.uint32("opa_mgmt.port_info.sa_qp", "sa_qp", base.DEC, nil, nil, "queue pair of the subnet administration")},
  {"neighbor_port_num", 44, 1, ProtoField.uint8("opa_mgmt.port_info.neighbor_port_num", "neighbor_port_num", base.DEC, nil, nil, "port of the neighbour")},
  {"link_down_reason", 45, 1, ProtoField.uint8("opa_mgmt.port_info.link_down_reason", "link_down_reason", base.DEC, nil, nil, "why the link went down last")},
  {"neighbor_link_down_reason", 46, 1, ProtoField.uint8("opa_mgmt.port_info.neighbor_link_down_reason", "neighbor_link_down_reason", base.DEC, nil, nil, "why, as the neighbour said")},
  {"client_reregister", 47, 1, ProtoField.bool("opa_mgmt.port_info.client_reregister", "client_reregister", 8, nil, 0x80, "clients are to register again")},
  {"multicast_pkey_trap_suppression", 47, 1, ProtoField.uint8("opa_mgmt.port_info.multicast_pkey_trap_suppression", "multicast_pkey_trap_suppression", base.DEC, nil, 0x60, "traps of multicast P_Keys")},
  {"subnet_timeout", 47, 1, ProtoField.uint8("opa_mgmt.port_info.subnet_timeout", "subnet_timeout", base.DEC, nil, 0x1F, "how long a packet may need, 4.096 us * 2**n")},
  {"speed_supported", 48, 2, ProtoField.uint16("opa_mgmt.port_info.speed_supported", "speed_supported", base.HEX, nil, nil, "speeds that it has")},
  {"speed_enabled", 50, 2, ProtoField.uint16("opa_mgmt.port_info.speed_enabled", "speed_enabled", base.HEX, nil, nil, "speeds that it may use")},
  {"speed_active", 52, 2, ProtoField.uint16("opa_mgmt.port_info.speed_active", "speed_active", base.HEX, nil, nil, "speed in use")},
  {"width_supported", 54, 2, ProtoField.uint16("opa_mgmt.port_info.width_supported", "width_supported", base.HEX, nil, nil, "widths that it has")},
  {"width_enabled", 56, 2, ProtoField.uint16("opa_mgmt.port_info.width_enabled", "width_enabled", base.HEX, nil, nil, "widths that it may use")},
  {"width_active", 58, 2, ProtoField.uint16("opa_mgmt.port_info.width_active", "width_active", base.HEX, nil, nil, "width in use")},
  {"downgrade_supported", 60, 2, ProtoField.uint16("opa_mgmt.port_info.downgrade_supported", "downgrade_supported", base.HEX, nil, nil, "widths that it may fall back to, at most")},
  {"downgrade_enabled", 62, 2, ProtoField.uint16("opa_mgmt.port_info.downgrade_enabled", "downgrade_enabled", base.HEX, nil, nil, "widths that it may fall back to")},
  {"width_tx_active", 64, 2, ProtoField.uint16("opa_mgmt.port_info.width_tx_active", "width_tx_active", base.HEX, nil, nil, "width in use to send")},
  {"width_rx_active", 66, 2, ProtoField.uint16("opa_mgmt.port_info.width_rx_active", "width_rx_active", base.HEX, nil, nil, "width in use to receive")},
  {"reserved_68", 68, 1, ProtoField.uint8("opa_mgmt.port_info.reserved_68", "reserved_68", base.DEC, nil, 0x80, "reserved")},
  {"mode_supported", 68, 1, ProtoField.uint8("opa_mgmt.port_info.mode_supported", "mode_supported", base.DEC, nil, 0x7C, "link modes that it has; 4: OPA")},
  {"mode_enabled", 68, 2, ProtoField.uint16("opa_mgmt.port_info.mode_enabled", "mode_enabled", base.DEC, nil, 0x3E0, "link modes that it may use")},
  {"mode_active", 69, 1, ProtoField.uint8("opa_mgmt.port_info.mode_active", "mode_active", base.DEC, nil, 0x1F, "link mode in use")},
  {"reserved_70", 70, 1, ProtoField.uint8("opa_mgmt.port_info.reserved_70", "reserved_70", base.DEC, nil, 0xF0, "reserved")},
  {"crc_supported", 70, 1, ProtoField.uint8("opa_mgmt.port_info.crc_supported", "crc_supported", base.DEC, nil, 0xF, "CRC modes that it has")},
  {"crc_enabled", 71, 1, ProtoField.uint8("opa_mgmt.port_info.crc_enabled", "crc_enabled", base.DEC, nil, 0xF0, "CRC modes that it may use")},
  {"crc_active", 71, 1, ProtoField.uint8("opa_mgmt.port_info.crc_active", "crc_active", base.DEC, nil, 0xF, "CRC mode in use")},
  {"port_mode", 72, 2, ProtoField.uint16("opa_mgmt.port_info.port_mode", "port_mode", base.HEX, nil, nil, "modes of the port")},
  {"formats_supported", 74, 2, ProtoField.uint16("opa_mgmt.port_info.formats_supported", "formats_supported", base.HEX, nil, nil, "packet formats that it has; 2: 9B, 8: 16B")},
  {"formats_enabled", 76, 2, ProtoField.uint16("opa_mgmt.port_info.formats_enabled", "formats_enabled", base.HEX, nil, nil, "packet formats that it may use")},
  {"reserved_78", 78, 1, ProtoField.uint8("opa_mgmt.port_info.reserved_78", "reserved_78", base.DEC, nil, 0xC0, "reserved")},
  {"distance_supported", 78, 1, ProtoField.uint8("opa_mgmt.port_info.distance_supported", "distance_supported", base.DEC, nil, 0x30, "flit distance modes that it has")},
  {"distance_enabled", 78, 1, ProtoField.uint8("opa_mgmt.port_info.distance_enabled", "distance_enabled", base.DEC, nil, 0xC, "flit distance modes that it may use")},
  {"nest_tx_enabled", 78, 2, ProtoField.uint16("opa_mgmt.port_info.nest_tx_enabled", "nest_tx_enabled", base.DEC, nil, 0x3E0, "nesting level to send")},
  {"nest_rx_supported", 79, 1, ProtoField.uint8("opa_mgmt.port_info.nest_rx_supported", "nest_rx_supported", base.DEC, nil, 0x1F, "nesting level to receive")},
  {"preempt_min_initial", 80, 2, ProtoField.uint16("opa_mgmt.port_info.preempt_min_initial", "preempt_min_initial", base.DEC, nil, nil, "bytes before a preempted head")},
  {"preempt_min_tail", 82, 2, ProtoField.uint16("opa_mgmt.port_info.preempt_min_tail", "preempt_min_tail", base.DEC, nil, nil, "bytes before a preempted tail")},
  {"large_packet_limit", 84, 1, ProtoField.uint8("opa_mgmt.port_info.large_packet_limit", "large_packet_limit", base.DEC, nil, nil, "size of a packet that can be preempted")},
  {"small_packet_limit", 85, 1, ProtoField.uint8("opa_mgmt.port_info.small_packet_limit", "small_packet_limit", base.DEC, nil, nil, "size of a packet that can preempt")},
  {"max_small_packet_limit", 86, 1, ProtoField.uint8("opa_mgmt.port_info.max_small_packet_limit", "max_small_packet_limit", base.DEC, nil, nil, "the most of that")},
  {"preemption_limit", 87, 1, ProtoField.uint8("opa_mgmt.port_info.preemption_limit", "preemption_limit", base.DEC, nil, nil, "bytes of preemption, in 256")},
  {"max_lid", 88, 4, ProtoField.uint32("opa_mgmt.port_info.max_lid", "max_lid", base.HEX, nil, nil, "the highest LID")},
  {"port_error_action", 92, 4, ProtoField.uint32("opa_mgmt.port_info.port_error_action", "port_error_action", base.HEX, nil, nil, "errors that take the link down")},
  {"pass_through_egress_port", 96, 1, ProtoField.uint8("opa_mgmt.port_info.pass_through_egress_port", "pass_through_egress_port", base.DEC, nil, nil, "port that everything passes to; 0: none")},
  {"reserved_97", 97, 1, ProtoField.uint8("opa_mgmt.port_info.reserved_97", "reserved_97", base.DEC, nil, 0xFE, "reserved")},
  {"pass_through_dr_control", 97, 1, ProtoField.bool("opa_mgmt.port_info.pass_through_dr_control", "pass_through_dr_control", 8, nil, 0x1, "directed routes pass as well")},
  {"mkey_lease_period", 98, 2, ProtoField.uint16("opa_mgmt.port_info.mkey_lease_period", "mkey_lease_period", base.DEC, nil, nil, "seconds until a wrong M_Key opens the port; 0: never")},
  {"reserved_100", 100, 2, ProtoField.uint16("opa_mgmt.port_info.reserved_100", "reserved_100", base.DEC, nil, 0xFF80, "reserved")},
  {"vl15_init", 101, 2, ProtoField.uint16("opa_mgmt.port_info.vl15_init", "vl15_init", base.DEC, nil, 0x7FF8, "buffer of VL15, in units")},
  {"vl15_credit_rate", 102, 2, ProtoField.uint16("opa_mgmt.port_info.vl15_credit_rate", "vl15_credit_rate", base.DEC, nil, 0x7C0, "rate of credits of VL15")},
  {"credit_ack", 103, 1, ProtoField.uint8("opa_mgmt.port_info.credit_ack", "credit_ack", base.DEC, nil, 0x38, "unit in which credits come back")},
  {"buffer_alloc", 103, 1, ProtoField.uint8("opa_mgmt.port_info.buffer_alloc", "buffer_alloc", base.DEC, nil, 0x7, "unit of buffers, 8 * 2**n bytes")},
  {"reserved_104", 104, 2, ProtoField.uint16("opa_mgmt.port_info.reserved_104", "reserved_104", base.HEX, nil, nil, "reserved")},
  {"bundle_next_port", 106, 1, ProtoField.uint8("opa_mgmt.port_info.bundle_next_port", "bundle_next_port", base.DEC, nil, nil, "next port of the connector")},
  {"bundle_lane", 107, 1, ProtoField.uint8("opa_mgmt.port_info.bundle_lane", "bundle_lane", base.DEC, nil, nil, "first lane of the connector")},
  {"master_sm_lid", 108, 4, ProtoField.uint32("opa_mgmt.port_info.master_sm_lid", "master_sm_lid", base.HEX, nil, nil, "LID of the subnet manager")},
  {"mkey", 112, 8, ProtoField.uint64("opa_mgmt.port_info.mkey", "mkey", base.HEX, nil, nil, "management key")},
  {"subnet_prefix", 120, 8, ProtoField.uint64("opa_mgmt.port_info.subnet_prefix", "subnet_prefix", base.HEX, nil, nil, "upper half of GIDs")},
  {"neighbor_mtu", 128, 1, ProtoField.uint8("opa_mgmt.port_info.neighbor_mtu", "neighbor_mtu", base.HEX, nil, nil, "MTU of two VLs each"), count = 16},
  {"xmit_q", 144, 1, ProtoField.uint8("opa_mgmt.port_info.xmit_q", "xmit_q", base.HEX, nil, nil, "of each VL, VLStallCount (3 bits) and HOQLife (5 bits)"), count = 32},
  {"ipv6", 176, 16, ProtoField.bytes("opa_mgmt.port_info.ipv6", "ipv6", base.NONE, "IPv6 address of its management")},
  {"ipv4", 192, 4, ProtoField.bytes("opa_mgmt.port_info.ipv4", "ipv4", base.NONE, "IPv4 address of its management")},
  {"reserved_196", 196, 12, ProtoField.bytes("opa_mgmt.port_info.reserved_196", "reserved_196", base.NONE, "reserved")},
  {"neighbor_node_guid", 208, 8, ProtoField.uint64("opa_mgmt.port_info.neighbor_node_guid", "neighbor_node_guid", base.HEX, nil, nil, "GUID of the neighbour")},
  {"capability_mask", 216, 4, ProtoField.uint32("opa_mgmt.port_info.capability_mask", "capability_mask", base.HEX, nil, nil, "what runs on it")},
  {"reserved_220", 220, 2, ProtoField.uint16("opa_mgmt.port_info.reserved_220", "reserved_220", base.HEX, nil, nil, "reserved")},
  {"capability_mask3", 222, 2, ProtoField.uint16("opa_mgmt.port_info.capability_mask3", "capability_mask3", base.HEX, nil, nil, "what it can do")},
  {"reserved_224", 224, 4, ProtoField.uint32("opa_mgmt.port_info.reserved_224", "reserved_224", base.HEX, nil, nil, "reserved")},
  {"overall_buffer_space", 228, 2, ProtoField.uint16("opa_mgmt.port_info.overall_buffer_space", "overall_buffer_space", base.DEC, nil, nil, "buffer of all VLs, in units")},
  {"replay_buffer_depth_high", 230, 1, ProtoField.uint8("opa_mgmt.port_info.replay_buffer_depth_high", "replay_buffer_depth_high", base.DEC, nil, nil, "depth of the replay buffer, upper byte")},
  {"replay_wire_depth_high", 231, 1, ProtoField.uint8("opa_mgmt.port_info.replay_wire_depth_high", "replay_wire_depth_high", base.DEC, nil, nil, "depth of the wire, upper byte")},
  {"diag_code", 232, 2, ProtoField.uint16("opa_mgmt.port_info.diag_code", "diag_code", base.HEX, nil, nil, "diagnostic code")},
  {"replay_buffer_depth", 234, 1, ProtoField.uint8("opa_mgmt.port_info.replay_buffer_depth", "replay_buffer_depth", base.DEC, nil, nil, "depth of the replay buffer, lower byte")},
  {"replay_wire_depth", 235, 1, ProtoField.uint8("opa_mgmt.port_info.replay_wire_depth", "replay_wire_depth", base.DEC, nil, nil, "depth of the wire, lower byte")},
  {"reserved_236", 236, 1, ProtoField.uint8("opa_mgmt.port_info.reserved_236", "reserved_236", base.DEC, nil, 0xF0, "reserved")},
  {"mgmt_allowed", 236, 1, ProtoField.bool("opa_mgmt.port_info.mgmt_allowed", "mgmt_allowed", 8, nil, 0x8, "a manager may run behind it")},
  {"neighbor_auth_bypass", 236, 1, ProtoField.bool("opa_mgmt.port_info.neighbor_auth_bypass", "neighbor_auth_bypass", 8, nil, 0x4, "the neighbour's firmware is not checked")},
  {"neighbor_node_type", 236, 1, ProtoField.uint8("opa_mgmt.port_info.neighbor_node_type", "neighbor_node_type", base.DEC, {[0x0] = "HFI", [0x1] = "switch"}, 0x3, "what the neighbour is")},
  {"reserved_237", 237, 1, ProtoField.uint8("opa_mgmt.port_info.reserved_237", "reserved_237", base.DEC, nil, 0xF0, "reserved")},
  {"mtu_cap", 237, 1, ProtoField.uint8("opa_mgmt.port_info.mtu_cap", "mtu_cap", base.DEC, {[0x0] = "none", [0x1] = "256", [0x2] = "512", [0x3] = "1024", [0x4] = "2048", [0x5] = "4096", [0x6] = "8192", [0x7] = "10240"}, 0xF, "the largest MTU")},
  {"reserved_238", 238, 1, ProtoField.uint8("opa_mgmt.port_info.reserved_238", "reserved_238", base.DEC, nil, 0xE0, "reserved")},
  {"response_time", 238, 1, ProtoField.uint8("opa_mgmt.port_info.response_time", "response_time", base.DEC, nil, 0x1F, "how long an answer takes, 4.096 us * 2**n")},
  {"local_port_num", 239, 1, ProtoField.uint8("opa_mgmt.port_info.local_port_num", "local_port_num", base.DEC, nil, nil, "the port that the question came by")},
  {"reserved_240", 240, 2, ProtoField.uint16("opa_mgmt.port_info.reserved_240", "reserved_240", base.HEX, nil, nil, "reserved")},
}}
attributes.partition_table = {title = "PartitionTable", size = 64, rows = {
  {"pkeys", 0, 2, ProtoField.uint16("opa_mgmt.partition_table.pkeys", "pkeys", base.HEX, nil, nil, "P_Keys; 0: none"), count = 32},
}}
attributes.sl_to_sc = {title = "SLtoSC", size = 32, rows = {
  {"scs", 0, 1, ProtoField.uint8("opa_mgmt.sl_to_sc.scs", "scs", base.DEC, nil, nil, "service channel of each service level"), count = 32},
}}
attributes.vl_arb_entry = {title = "entry of VLArb", size = 2, rows = {
  {"reserved", 0, 1, ProtoField.uint8("opa_mgmt.vl_arb_entry.reserved", "reserved", base.DEC, nil, 0xE0, "reserved")},
  {"vl", 0, 1, ProtoField.uint8("opa_mgmt.vl_arb_entry.vl", "vl", base.DEC, nil, 0x1F, "virtual lane")},
  {"weight", 1, 1, ProtoField.uint8("opa_mgmt.vl_arb_entry.weight", "weight", base.DEC, nil, nil, "its weight; 0: no turn")},
}}
attributes.vl_arb = {title = "VLArb", size = 256, rows = {
  {"entries", 0, 2, ProtoField.bytes("opa_mgmt.vl_arb.entries", "entries", base.NONE, "turns"), count = 128, of = attributes.vl_arb_entry},
}}
attributes.lft = {title = "linear forwarding table", size = 64, rows = {
  {"ports", 0, 1, ProtoField.uint8("opa_mgmt.lft.ports", "ports", base.DEC, nil, nil, "port to each LID; 255: none"), count = 64},
}}
attributes.mft = {title = "multicast forwarding table", size = 64, rows = {
  {"masks", 0, 8, ProtoField.uint64("opa_mgmt.mft.masks", "masks", base.HEX, nil, nil, "ports of each group, 64 of them"), count = 8},
}}
attributes.sm_info = {title = "SMInfo", size = 26, rows = {
  {"port_guid", 0, 8, ProtoField.uint64("opa_mgmt.sm_info.port_guid", "port_guid", base.HEX, nil, nil, "GUID of its port")},
  {"sm_key", 8, 8, ProtoField.uint64("opa_mgmt.sm_info.sm_key", "sm_key", base.HEX, nil, nil, "its key; shown to managers only")},
  {"act_count", 16, 4, ProtoField.uint32("opa_mgmt.sm_info.act_count", "act_count", base.DEC, nil, nil, "grows with what it does")},
  {"elapsed_time", 20, 4, ProtoField.uint32("opa_mgmt.sm_info.elapsed_time", "elapsed_time", base.DEC, nil, nil, "seconds that it has been master, or heard of one")},
  {"priority", 24, 1, ProtoField.uint8("opa_mgmt.sm_info.priority", "priority", base.DEC, nil, 0xF0, "priority now")},
  {"elevated_priority", 24, 1, ProtoField.uint8("opa_mgmt.sm_info.elevated_priority", "elevated_priority", base.DEC, nil, 0xF, "priority once it is master")},
  {"initial_priority", 25, 1, ProtoField.uint8("opa_mgmt.sm_info.initial_priority", "initial_priority", base.DEC, nil, 0xF0, "priority at its start")},
  {"state", 25, 1, ProtoField.uint8("opa_mgmt.sm_info.state", "state", base.DEC, {[0x0] = "not active", [0x1] = "discovering", [0x2] = "standby", [0x3] = "master"}, 0xF, "1: discovering, 2: standby, 3: master")},
}}
attributes.led_info = {title = "LedInfo", size = 8, rows = {
  {"led_mask", 0, 4, ProtoField.uint32("opa_mgmt.led_info.led_mask", "led_mask", base.HEX, nil, nil, "bit 31: the beacon is on")},
  {"reserved", 4, 4, ProtoField.uint32("opa_mgmt.led_info.reserved", "reserved", base.HEX, nil, nil, "reserved")},
}}
attributes.sc_to_sc = {title = "SCtoSC", size = 32, rows = {
  {"scs", 0, 1, ProtoField.uint8("opa_mgmt.sc_to_sc.scs", "scs", base.DEC, nil, nil, "service channel that each leaves on"), count = 32},
}}
attributes.sc_to_sc_multi_set = {title = "SCtoSCMultiSet", size = 96, rows = {
  {"ingress", 0, 32, ProtoField.bytes("opa_mgmt.sc_to_sc_multi_set.ingress", "ingress", base.NONE, "ports by which packets come in: bit n is port n")},
  {"egress", 32, 32, ProtoField.bytes("opa_mgmt.sc_to_sc_multi_set.egress", "egress", base.NONE, "ports by which they leave, likewise")},
  {"scs", 64, 1, ProtoField.uint8("opa_mgmt.sc_to_sc_multi_set.scs", "scs", base.DEC, nil, nil, "service channel that each leaves on"), count = 32},
}}
attributes.sc_to_sl = {title = "SCtoSL", size = 32, rows = {
  {"sls", 0, 1, ProtoField.uint8("opa_mgmt.sc_to_sl.sls", "sls", base.DEC, nil, nil, "service level of each service channel"), count = 32},
}}
attributes.sc_to_vl = {title = "SCtoVLr, SCtoVLt, SCtoVLnt", size = 32, rows = {
  {"vls", 0, 1, ProtoField.uint8("opa_mgmt.sc_to_vl.vls", "vls", base.DEC, nil, nil, "virtual lane of each service channel"), count = 32},
}}
attributes.port_state_info = {title = "PortStateInfo", size = 8, rows = {
  {"reserved", 0, 2, ProtoField.uint16("opa_mgmt.port_state_info.reserved", "reserved", base.DEC, nil, 0xFF80, "reserved")},
  {"led_enabled", 1, 1, ProtoField.bool("opa_mgmt.port_state_info.led_enabled", "led_enabled", 8, nil, 0x40, "the beacon is on")},
  {"is_sm_configuration_started", 1, 1, ProtoField.bool("opa_mgmt.port_state_info.is_sm_configuration_started", "is_sm_configuration_started", 8, nil, 0x20, "a manager has begun to set the port up")},
  {"neighbor_normal", 1, 1, ProtoField.bool("opa_mgmt.port_state_info.neighbor_normal", "neighbor_normal", 8, nil, 0x10, "the neighbour is ARMED or ACTIVE")},
  {"offline_disabled_reason", 1, 1, ProtoField.uint8("opa_mgmt.port_state_info.offline_disabled_reason", "offline_disabled_reason", base.DEC, nil, 0xF, "why the port is offline or disabled")},
  {"reserved_8", 2, 1, ProtoField.uint8("opa_mgmt.port_state_info.reserved_8", "reserved_8", base.DEC, nil, nil, "reserved")},
  {"physical_state", 3, 1, ProtoField.uint8("opa_mgmt.port_state_info.physical_state", "physical_state", base.DEC, {[0x0] = "no change", [0x2] = "polling", [0x3] = "disabled", [0x4] = "training", [0x5] = "link up", [0x9] = "offline", [0xb] = "test"}, 0xF0, "physical state")},
  {"state", 3, 1, ProtoField.uint8("opa_mgmt.port_state_info.state", "state", base.DEC, {[0x1] = "DOWN", [0x2] = "INIT", [0x3] = "ARMED", [0x4] = "ACTIVE"}, 0xF, "logical state")},
  {"width_tx_active", 4, 2, ProtoField.uint16("opa_mgmt.port_state_info.width_tx_active", "width_tx_active", base.HEX, nil, nil, "width in use to send")},
  {"width_rx_active", 6, 2, ProtoField.uint16("opa_mgmt.port_state_info.width_rx_active", "width_rx_active", base.HEX, nil, nil, "width in use to receive")},
}}
attributes.buffer_control_vl = {title = "buffer of a VL", size = 4, rows = {
  {"dedicated", 0, 2, ProtoField.uint16("opa_mgmt.buffer_control_vl.dedicated", "dedicated", base.DEC, nil, nil, "its own, in units")},
  {"shared", 2, 2, ProtoField.uint16("opa_mgmt.buffer_control_vl.shared", "shared", base.DEC, nil, nil, "of the shared, in units")},
}}
attributes.buffer_control = {title = "BufferControl", size = 132, rows = {
  {"reserved", 0, 2, ProtoField.uint16("opa_mgmt.buffer_control.reserved", "reserved", base.HEX, nil, nil, "reserved")},
  {"overall_shared", 2, 2, ProtoField.uint16("opa_mgmt.buffer_control.overall_shared", "overall_shared", base.DEC, nil, nil, "shared by all VLs, in units")},
  {"vls", 4, 4, ProtoField.bytes("opa_mgmt.buffer_control.vls", "vls", base.NONE, "each VL"), count = 32, of = attributes.buffer_control_vl},
}}
attributes.congestion_info = {title = "CongestionInfo", size = 4, rows = {
  {"congestion_info", 0, 2, ProtoField.uint16("opa_mgmt.congestion_info.congestion_info", "congestion_info", base.HEX, nil, nil, "bit 0: credit starvation")},
  {"control_table_cap", 2, 1, ProtoField.uint8("opa_mgmt.congestion_info.control_table_cap", "control_table_cap", base.DEC, nil, nil, "blocks of the congestion control table")},
  {"log_length", 3, 1, ProtoField.uint8("opa_mgmt.congestion_info.log_length", "log_length", base.DEC, nil, nil, "entries of the congestion log")},
}}
attributes.switch_congestion_setting = {title = "switch congestion setting", size = 76, rows = {
  {"control_map", 0, 4, ProtoField.uint32("opa_mgmt.switch_congestion_setting.control_map", "control_map", base.HEX, nil, nil, "which of the following count")},
  {"victim_mask", 4, 32, ProtoField.bytes("opa_mgmt.switch_congestion_setting.victim_mask", "victim_mask", base.NONE, "ports")},
  {"credit_mask", 36, 32, ProtoField.bytes("opa_mgmt.switch_congestion_setting.credit_mask", "credit_mask", base.NONE, "ports")},
  {"threshold", 68, 1, ProtoField.uint8("opa_mgmt.switch_congestion_setting.threshold", "threshold", base.HEX, nil, nil, "bits 4-7: how early it marks")},
  {"packet_size", 69, 1, ProtoField.uint8("opa_mgmt.switch_congestion_setting.packet_size", "packet_size", base.DEC, nil, nil, "what is shorter is not marked, in 64 bytes")},
  {"cs_threshold", 70, 1, ProtoField.uint8("opa_mgmt.switch_congestion_setting.cs_threshold", "cs_threshold", base.HEX, nil, nil, "bits 4-7: of credit starvation")},
  {"reserved", 71, 1, ProtoField.uint8("opa_mgmt.switch_congestion_setting.reserved", "reserved", base.HEX, nil, nil, "reserved")},
  {"cs_return_delay", 72, 2, ProtoField.uint16("opa_mgmt.switch_congestion_setting.cs_return_delay", "cs_return_delay", base.DEC, nil, nil, "delay of credits")},
  {"marking_rate", 74, 2, ProtoField.uint16("opa_mgmt.switch_congestion_setting.marking_rate", "marking_rate", base.DEC, nil, nil, "packets between two marks")},
}}
attributes.hfi_congestion_entry = {title = "HFI congestion setting of an SL", size = 6, rows = {
  {"ccti_increase", 0, 1, ProtoField.uint8("opa_mgmt.hfi_congestion_entry.ccti_increase", "ccti_increase", base.DEC, nil, nil, "steps for each mark")},
  {"reserved", 1, 1, ProtoField.uint8("opa_mgmt.hfi_congestion_entry.reserved", "reserved", base.HEX, nil, nil, "reserved")},
  {"ccti_timer", 2, 2, ProtoField.uint16("opa_mgmt.hfi_congestion_entry.ccti_timer", "ccti_timer", base.DEC, nil, nil, "time of a step back")},
  {"trigger_threshold", 4, 1, ProtoField.uint8("opa_mgmt.hfi_congestion_entry.trigger_threshold", "trigger_threshold", base.DEC, nil, nil, "step that is logged")},
  {"ccti_min", 5, 1, ProtoField.uint8("opa_mgmt.hfi_congestion_entry.ccti_min", "ccti_min", base.DEC, nil, nil, "the lowest step")},
}}
attributes.hfi_congestion_setting = {title = "HFI congestion setting", size = 198, rows = {
  {"control_map", 0, 4, ProtoField.uint32("opa_mgmt.hfi_congestion_setting.control_map", "control_map", base.HEX, nil, nil, "service levels that it is for")},
  {"port_control", 4, 2, ProtoField.uint16("opa_mgmt.hfi_congestion_setting.port_control", "port_control", base.HEX, nil, nil, "bit 0: by service level")},
  {"entries", 6, 6, ProtoField.bytes("opa_mgmt.hfi_congestion_setting.entries", "entries", base.NONE, "each service level"), count = 32, of = attributes.hfi_congestion_entry},
}}
attributes.hfi_congestion_control = {title = "HFI congestion control table", size = 130, rows = {
  {"ccti_limit", 0, 2, ProtoField.uint16("opa_mgmt.hfi_congestion_control.ccti_limit", "ccti_limit", base.DEC, nil, nil, "the highest step")},
  {"entries", 2, 2, ProtoField.uint16("opa_mgmt.hfi_congestion_control.entries", "entries", base.HEX, nil, nil, "delay of each step"), count = 64},
}}
attributes.ib_node_info = {title = "NodeInfo of base version 1", size = 40, rows = {
  {"base_version", 0, 1, ProtoField.uint8("opa_mgmt.ib_node_info.base_version", "base_version", base.HEX, nil, nil, "0x80: the node speaks OPA")},
  {"class_version", 1, 1, ProtoField.uint8("opa_mgmt.ib_node_info.class_version", "class_version", base.HEX, nil, nil, "0x80")},
  {"node_type", 2, 1, ProtoField.uint8("opa_mgmt.ib_node_info.node_type", "node_type", base.DEC, {[0x1] = "HFI", [0x2] = "switch"}, nil, "HFI or switch")},
  {"num_ports", 3, 1, ProtoField.uint8("opa_mgmt.ib_node_info.num_ports", "num_ports", base.DEC, nil, nil, "ports with a cable; a switch's port 0 does not count")},
  {"system_image_guid", 4, 8, ProtoField.uint64("opa_mgmt.ib_node_info.system_image_guid", "system_image_guid", base.HEX, nil, nil, "GUID of the whole system")},
  {"node_guid", 12, 8, ProtoField.uint64("opa_mgmt.ib_node_info.node_guid", "node_guid", base.HEX, nil, nil, "GUID of the node")},
  {"port_guid", 20, 8, ProtoField.uint64("opa_mgmt.ib_node_info.port_guid", "port_guid", base.HEX, nil, nil, "GUID of the port that was asked")},
  {"partition_cap", 28, 2, ProtoField.uint16("opa_mgmt.ib_node_info.partition_cap", "partition_cap", base.DEC, nil, nil, "entries of the partition table")},
  {"device_id", 30, 2, ProtoField.uint16("opa_mgmt.ib_node_info.device_id", "device_id", base.HEX, nil, nil, "device, by its vendor")},
  {"revision", 32, 4, ProtoField.uint32("opa_mgmt.ib_node_info.revision", "revision", base.HEX, nil, nil, "revision of the device")},
  {"local_port_num", 36, 1, ProtoField.uint8("opa_mgmt.ib_node_info.local_port_num", "local_port_num", base.DEC, nil, nil, "the port that the question came by")},
  {"vendor_id", 37, 3, ProtoField.uint24("opa_mgmt.ib_node_info.vendor_id", "vendor_id", base.HEX, nil, nil, "OUI of the vendor")},
}}
attributes.sa_class_port_info = {title = "ClassPortInfo", size = 80, rows = {
  {"base_version", 0, 1, ProtoField.uint8("opa_mgmt.sa_class_port_info.base_version", "base_version", base.HEX, nil, nil, "0x80")},
  {"class_version", 1, 1, ProtoField.uint8("opa_mgmt.sa_class_port_info.class_version", "class_version", base.HEX, nil, nil, "0x80")},
  {"capabilities", 2, 2, ProtoField.uint16("opa_mgmt.sa_class_port_info.capabilities", "capabilities", base.HEX, nil, nil, "bit 2: there are more; bit 9: multicast")},
  {"capabilities2", 4, 4, ProtoField.uint32("opa_mgmt.sa_class_port_info.capabilities2", "capabilities2", base.HEX, nil, 0xFFFFFFE0, "more of them")},
  {"response_time", 7, 1, ProtoField.uint8("opa_mgmt.sa_class_port_info.response_time", "response_time", base.DEC, nil, 0x1F, "4.096 us times 2 to this")},
  {"reserved_8", 8, 72, ProtoField.bytes("opa_mgmt.sa_class_port_info.reserved_8", "reserved_8", base.NONE, "redirection and sink of traps: 0")},
}}
attributes.inform_info = {title = "InformInfo", size = 40, rows = {
  {"gid", 0, 16, ProtoField.bytes("opa_mgmt.inform_info.gid", "gid", base.NONE, "notices about this GID only; 0: about any")},
  {"lid_begin", 16, 4, ProtoField.uint32("opa_mgmt.inform_info.lid_begin", "lid_begin", base.HEX, nil, nil, "notices of LIDs from this one; 0xffffffff: of all")},
  {"lid_end", 20, 4, ProtoField.uint32("opa_mgmt.inform_info.lid_end", "lid_end", base.HEX, nil, nil, "the last LID")},
  {"is_generic", 24, 1, ProtoField.uint8("opa_mgmt.inform_info.is_generic", "is_generic", base.DEC, nil, nil, "1: generic notices, 0: a vendor's")},
  {"subscribe", 25, 1, ProtoField.uint8("opa_mgmt.inform_info.subscribe", "subscribe", base.DEC, nil, nil, "1: subscribe, 0: end that")},
  {"type", 26, 2, ProtoField.uint16("opa_mgmt.inform_info.type", "type", base.HEX, nil, nil, "type of notice; 0xffff: all")},
  {"reserved_28", 28, 2, ProtoField.uint16("opa_mgmt.inform_info.reserved_28", "reserved_28", base.HEX, nil, nil, "0")},
  {"trap", 30, 2, ProtoField.uint16("opa_mgmt.inform_info.trap", "trap", base.DEC, nil, nil, "number of the trap; 0xffff: all")},
  {"qpn", 32, 3, ProtoField.uint24("opa_mgmt.inform_info.qpn", "qpn", base.HEX, nil, nil, "queue pair of the subscriber; 1: its QP1")},
  {"reserved_35", 35, 1, ProtoField.uint8("opa_mgmt.inform_info.reserved_35", "reserved_35", base.HEX, nil, 0xE0, "0")},
  {"response_time", 35, 1, ProtoField.uint8("opa_mgmt.inform_info.response_time", "response_time", base.DEC, nil, 0x1F, "how long a ReportResp may take")},
  {"reserved_36", 36, 1, ProtoField.uint8("opa_mgmt.inform_info.reserved_36", "reserved_36", base.HEX, nil, nil, "0")},
  {"producer", 37, 3, ProtoField.uint24("opa_mgmt.inform_info.producer", "producer", base.HEX, nil, nil, "type of the node; 0xffffff: any")},
}}
attributes.node_record = {title = "NodeRecord", size = 116, rows = {
  {"lid", 0, 4, ProtoField.uint32("opa_mgmt.node_record.lid", "lid", base.HEX, nil, nil, "LID of the port, or of port 0 of the switch")},
  {"reserved_4", 4, 4, ProtoField.uint32("opa_mgmt.node_record.reserved_4", "reserved_4", base.HEX, nil, nil, "0")},
  {"node_info", 8, 44, ProtoField.bytes("opa_mgmt.node_record.node_info", "node_info", base.NONE, "NodeInfo"), of = attributes.node_info},
  {"node_description", 52, 64, ProtoField.bytes("opa_mgmt.node_record.node_description", "node_description", base.NONE, "its name, filled up with zeros")},
}}
attributes.port_info_record = {title = "PortInfoRecord", size = 378, rows = {
  {"lid", 0, 4, ProtoField.uint32("opa_mgmt.port_info_record.lid", "lid", base.HEX, nil, nil, "LID of the port, or of port 0 of its switch")},
  {"port_num", 4, 1, ProtoField.uint8("opa_mgmt.port_info_record.port_num", "port_num", base.DEC, nil, nil, "its number on its node")},
  {"reserved_5", 5, 1, ProtoField.uint8("opa_mgmt.port_info_record.reserved_5", "reserved_5", base.HEX, nil, nil, "0")},
  {"reserved_6", 6, 2, ProtoField.uint16("opa_mgmt.port_info_record.reserved_6", "reserved_6", base.HEX, nil, nil, "0")},
  {"port_info", 8, 242, ProtoField.bytes("opa_mgmt.port_info_record.port_info", "port_info", base.NONE, "PortInfo")},
  {"link_down_reasons", 250, 128, ProtoField.bytes("opa_mgmt.port_info_record.link_down_reasons", "link_down_reasons", base.NONE, "the last eight reasons why the link went down")},
}}
attributes.switch_info_record = {title = "SwitchInfoRecord", size = 92, rows = {
  {"lid", 0, 4, ProtoField.uint32("opa_mgmt.switch_info_record.lid", "lid", base.HEX, nil, nil, "LID of its port 0")},
  {"reserved_4", 4, 4, ProtoField.uint32("opa_mgmt.switch_info_record.reserved_4", "reserved_4", base.HEX, nil, nil, "0")},
  {"switch_info", 8, 84, ProtoField.bytes("opa_mgmt.switch_info_record.switch_info", "switch_info", base.NONE, "SwitchInfo")},
}}
attributes.linear_forwarding_table_record = {title = "LinearForwardingTableRecord", size = 72, rows = {
  {"lid", 0, 4, ProtoField.uint32("opa_mgmt.linear_forwarding_table_record.lid", "lid", base.HEX, nil, nil, "LID of the switch")},
  {"reserved_4", 4, 2, ProtoField.uint16("opa_mgmt.linear_forwarding_table_record.reserved_4", "reserved_4", base.HEX, nil, 0xFFFC, "0")},
  {"block", 5, 3, ProtoField.uint24("opa_mgmt.linear_forwarding_table_record.block", "block", base.DEC, nil, 0x3FFFF, "number of the block: its first LID divided by 64")},
  {"ports", 8, 64, ProtoField.bytes("opa_mgmt.linear_forwarding_table_record.ports", "ports", base.NONE, "a port for each LID; 255: none")},
}}
attributes.multicast_forwarding_table_record = {title = "MulticastForwardingTableRecord", size = 72, rows = {
  {"lid", 0, 4, ProtoField.uint32("opa_mgmt.multicast_forwarding_table_record.lid", "lid", base.HEX, nil, nil, "LID of the switch")},
  {"position", 4, 1, ProtoField.uint8("opa_mgmt.multicast_forwarding_table_record.position", "position", base.DEC, nil, 0xC0, "which 64 ports the masks are of")},
  {"reserved_4", 4, 2, ProtoField.uint16("opa_mgmt.multicast_forwarding_table_record.reserved_4", "reserved_4", base.HEX, nil, 0x3FE0, "0")},
  {"block", 5, 3, ProtoField.uint24("opa_mgmt.multicast_forwarding_table_record.block", "block", base.DEC, nil, 0x1FFFFF, "number of the block: its first group, from 0, divided by 8")},
  {"port_masks", 8, 8, ProtoField.uint64("opa_mgmt.multicast_forwarding_table_record.port_masks", "port_masks", base.HEX, nil, nil, "a bit for each port of the group's tree"), count = 8},
}}
attributes.sm_info_record = {title = "SMInfoRecord", size = 34, rows = {
  {"lid", 0, 4, ProtoField.uint32("opa_mgmt.sm_info_record.lid", "lid", base.HEX, nil, nil, "LID of the port that it runs on")},
  {"reserved_4", 4, 4, ProtoField.uint32("opa_mgmt.sm_info_record.reserved_4", "reserved_4", base.HEX, nil, nil, "0")},
  {"sm_info", 8, 26, ProtoField.bytes("opa_mgmt.sm_info_record.sm_info", "sm_info", base.NONE, "SMInfo")},
}}
attributes.link_record = {title = "LinkRecord", size = 12, rows = {
  {"from_lid", 0, 4, ProtoField.uint32("opa_mgmt.link_record.from_lid", "from_lid", base.HEX, nil, nil, "LID of the node that it begins at")},
  {"from_port", 4, 1, ProtoField.uint8("opa_mgmt.link_record.from_port", "from_port", base.DEC, nil, nil, "number of the port there")},
  {"to_port", 5, 1, ProtoField.uint8("opa_mgmt.link_record.to_port", "to_port", base.DEC, nil, nil, "number of the port that it ends at")},
  {"reserved_6", 6, 2, ProtoField.uint16("opa_mgmt.link_record.reserved_6", "reserved_6", base.HEX, nil, nil, "0")},
  {"to_lid", 8, 4, ProtoField.uint32("opa_mgmt.link_record.to_lid", "to_lid", base.HEX, nil, nil, "LID of the node that it ends at")},
}}
attributes.service_record = {title = "ServiceRecord", size = 184, rows = {
  {"service_id", 0, 8, ProtoField.uint64("opa_mgmt.service_record.service_id", "service_id", base.HEX, nil, nil, "number of the service")},
  {"lid", 8, 4, ProtoField.uint32("opa_mgmt.service_record.lid", "lid", base.HEX, nil, nil, "LID of the port that offers it")},
  {"pkey", 12, 2, ProtoField.uint16("opa_mgmt.service_record.pkey", "pkey", base.HEX, nil, nil, "partition that it is offered in")},
  {"reserved_14", 14, 2, ProtoField.uint16("opa_mgmt.service_record.reserved_14", "reserved_14", base.HEX, nil, nil, "0")},
  {"gid", 16, 16, ProtoField.bytes("opa_mgmt.service_record.gid", "gid", base.NONE, "GID of the port that offers it")},
  {"lease", 32, 4, ProtoField.uint32("opa_mgmt.service_record.lease", "lease", base.DEC, nil, nil, "seconds that the record still holds; 0xffffffff: until deleted")},
  {"reserved_36", 36, 4, ProtoField.uint32("opa_mgmt.service_record.reserved_36", "reserved_36", base.HEX, nil, nil, "0")},
  {"key", 40, 16, ProtoField.bytes("opa_mgmt.service_record.key", "key", base.NONE, "key of the service")},
  {"name", 56, 64, ProtoField.bytes("opa_mgmt.service_record.name", "name", base.NONE, "name, filled up with zeros")},
  {"data", 120, 64, ProtoField.bytes("opa_mgmt.service_record.data", "data", base.NONE, "16 bytes, 8 words of 16, 4 of 32 and 2 of 64 bits: the service's own")},
}}
attributes.p_key_table_record = {title = "P_KeyTableRecord", size = 72, rows = {
  {"lid", 0, 4, ProtoField.uint32("opa_mgmt.p_key_table_record.lid", "lid", base.HEX, nil, nil, "LID of the port, or of port 0 of its switch")},
  {"block", 4, 2, ProtoField.uint16("opa_mgmt.p_key_table_record.block", "block", base.DEC, nil, nil, "number of the block")},
  {"port_num", 6, 1, ProtoField.uint8("opa_mgmt.p_key_table_record.port_num", "port_num", base.DEC, nil, nil, "its number on its node")},
  {"reserved_7", 7, 1, ProtoField.uint8("opa_mgmt.p_key_table_record.reserved_7", "reserved_7", base.HEX, nil, nil, "0")},
  {"pkeys", 8, 2, ProtoField.uint16("opa_mgmt.p_key_table_record.pkeys", "pkeys", base.HEX, nil, nil, "P_Keys; 0: no entry"), count = 32},
}}
attributes.ib_path_record = {title = "PathRecord", size = 64, rows = {
  {"service_id", 0, 8, ProtoField.uint64("opa_mgmt.ib_path_record.service_id", "service_id", base.HEX, nil, nil, "number of a service")},
  {"dgid", 8, 16, ProtoField.bytes("opa_mgmt.ib_path_record.dgid", "dgid", base.NONE, "GID of the destination")},
  {"sgid", 24, 16, ProtoField.bytes("opa_mgmt.ib_path_record.sgid", "sgid", base.NONE, "GID of the source")},
  {"dlid", 40, 2, ProtoField.uint16("opa_mgmt.ib_path_record.dlid", "dlid", base.HEX, nil, nil, "LID of the destination")},
  {"slid", 42, 2, ProtoField.uint16("opa_mgmt.ib_path_record.slid", "slid", base.HEX, nil, nil, "LID of the source")},
  {"raw", 44, 1, ProtoField.bool("opa_mgmt.ib_path_record.raw", "raw", 8, nil, 0x80, "raw packets")},
  {"reserved_44", 44, 1, ProtoField.uint8("opa_mgmt.ib_path_record.reserved_44", "reserved_44", base.HEX, nil, 0x70, "0")},
  {"flow_label", 44, 3, ProtoField.uint24("opa_mgmt.ib_path_record.flow_label", "flow_label", base.HEX, nil, 0xFFFFF, "flow label")},
  {"hop_limit", 47, 1, ProtoField.uint8("opa_mgmt.ib_path_record.hop_limit", "hop_limit", base.DEC, nil, nil, "hop limit")},
  {"traffic_class", 48, 1, ProtoField.uint8("opa_mgmt.ib_path_record.traffic_class", "traffic_class", base.HEX, nil, nil, "traffic class")},
  {"reversible", 49, 1, ProtoField.bool("opa_mgmt.ib_path_record.reversible", "reversible", 8, nil, 0x80, "the way back is the same")},
  {"number_of_paths", 49, 1, ProtoField.uint8("opa_mgmt.ib_path_record.number_of_paths", "number_of_paths", base.DEC, nil, 0x7F, "paths that are wanted at most")},
  {"pkey", 50, 2, ProtoField.uint16("opa_mgmt.ib_path_record.pkey", "pkey", base.HEX, nil, nil, "P_Key")},
  {"qos_class", 52, 2, ProtoField.uint16("opa_mgmt.ib_path_record.qos_class", "qos_class", base.HEX, nil, 0xFFF0, "class of service")},
  {"sl", 53, 1, ProtoField.uint8("opa_mgmt.ib_path_record.sl", "sl", base.DEC, nil, 0xF, "SL")},
  {"mtu_selector", 54, 1, ProtoField.uint8("opa_mgmt.ib_path_record.mtu_selector", "mtu_selector", base.DEC, nil, 0xC0, "how `mtu` is meant")},
  {"mtu", 54, 1, ProtoField.uint8("opa_mgmt.ib_path_record.mtu", "mtu", base.DEC, nil, 0x3F, "MTU, as a code")},
  {"rate_selector", 55, 1, ProtoField.uint8("opa_mgmt.ib_path_record.rate_selector", "rate_selector", base.DEC, nil, 0xC0, "how `rate` is meant")},
  {"rate", 55, 1, ProtoField.uint8("opa_mgmt.ib_path_record.rate", "rate", base.DEC, nil, 0x3F, "rate, as a code")},
  {"life_selector", 56, 1, ProtoField.uint8("opa_mgmt.ib_path_record.life_selector", "life_selector", base.DEC, nil, 0xC0, "how `life` is meant")},
  {"life", 56, 1, ProtoField.uint8("opa_mgmt.ib_path_record.life", "life", base.DEC, nil, 0x3F, "lifetime of a packet, 4.096 us times 2 to this")},
  {"preference", 57, 1, ProtoField.uint8("opa_mgmt.ib_path_record.preference", "preference", base.DEC, nil, nil, "0: preferred")},
  {"reserved_58", 58, 6, ProtoField.bytes("opa_mgmt.ib_path_record.reserved_58", "reserved_58", base.NONE, "0")},
}}
attributes.vl_arbitration_table_record = {title = "VLArbitrationTableRecord", size = 264, rows = {
  {"lid", 0, 4, ProtoField.uint32("opa_mgmt.vl_arbitration_table_record.lid", "lid", base.HEX, nil, nil, "LID of the port, or of port 0 of its switch")},
  {"port_num", 4, 1, ProtoField.uint8("opa_mgmt.vl_arbitration_table_record.port_num", "port_num", base.DEC, nil, nil, "its number on its node")},
  {"block", 5, 1, ProtoField.uint8("opa_mgmt.vl_arbitration_table_record.block", "block", base.DEC, nil, nil, "the section: 0 low, 1 high, 2 preemption elements, 3 preemption matrix")},
  {"reserved_6", 6, 2, ProtoField.uint16("opa_mgmt.vl_arbitration_table_record.reserved_6", "reserved_6", base.HEX, nil, nil, "0")},
  {"elements", 8, 256, ProtoField.bytes("opa_mgmt.vl_arbitration_table_record.elements", "elements", base.NONE, "the section")},
}}
attributes.sc_to_sc_record = {title = "SCtoSCRecord", size = 40, rows = {
  {"lid", 0, 4, ProtoField.uint32("opa_mgmt.sc_to_sc_record.lid", "lid", base.HEX, nil, nil, "LID of the port, or of port 0 of its switch")},
  {"in_port", 4, 1, ProtoField.uint8("opa_mgmt.sc_to_sc_record.in_port", "in_port", base.DEC, nil, nil, "number of the port that they come by")},
  {"out_port", 5, 1, ProtoField.uint8("opa_mgmt.sc_to_sc_record.out_port", "out_port", base.DEC, nil, nil, "number of the port that they leave by")},
  {"reserved_6", 6, 2, ProtoField.uint16("opa_mgmt.sc_to_sc_record.reserved_6", "reserved_6", base.HEX, nil, nil, "0")},
  {"table", 8, 32, ProtoField.bytes("opa_mgmt.sc_to_sc_record.table", "table", base.NONE, "the SC of each SC")},
}}
attributes.buffer_control_table_record = {title = "BufferControlTableRecord", size = 140, rows = {
  {"lid", 0, 4, ProtoField.uint32("opa_mgmt.buffer_control_table_record.lid", "lid", base.HEX, nil, nil, "LID of the port, or of port 0 of its switch")},
  {"port_num", 4, 1, ProtoField.uint8("opa_mgmt.buffer_control_table_record.port_num", "port_num", base.DEC, nil, nil, "its number on its node")},
  {"reserved_5", 5, 3, ProtoField.uint24("opa_mgmt.buffer_control_table_record.reserved_5", "reserved_5", base.HEX, nil, nil, "0")},
  {"table", 8, 132, ProtoField.bytes("opa_mgmt.buffer_control_table_record.table", "table", base.NONE, "BufferControl")},
}}
attributes.cable_info_record = {title = "CableInfoRecord", size = 72, rows = {
  {"lid", 0, 4, ProtoField.uint32("opa_mgmt.cable_info_record.lid", "lid", base.HEX, nil, nil, "LID of the port, or of port 0 of its switch")},
  {"port_num", 4, 1, ProtoField.uint8("opa_mgmt.cable_info_record.port_num", "port_num", base.DEC, nil, nil, "its number on its node")},
  {"length", 5, 1, ProtoField.uint8("opa_mgmt.cable_info_record.length", "length", base.DEC, nil, 0xFE, "bytes less one; of a request: up to 127")},
  {"reserved_6", 5, 1, ProtoField.uint8("opa_mgmt.cable_info_record.reserved_6", "reserved_6", base.HEX, nil, 0x1, "0")},
  {"address", 6, 2, ProtoField.uint16("opa_mgmt.cable_info_record.address", "address", base.DEC, nil, 0xFFF0, "where they begin, 128 to 255")},
  {"port_type", 7, 1, ProtoField.uint8("opa_mgmt.cable_info_record.port_type", "port_type", base.DEC, nil, 0xF, "what the port is, as in PortInfo")},
  {"memory", 8, 64, ProtoField.bytes("opa_mgmt.cable_info_record.memory", "memory", base.NONE, "the bytes")},
}}
attributes.congestion_info_record = {title = "CongestionInfoRecord", size = 12, rows = {
  {"lid", 0, 4, ProtoField.uint32("opa_mgmt.congestion_info_record.lid", "lid", base.HEX, nil, nil, "LID of the port, or of port 0 of its switch")},
  {"reserved_4", 4, 4, ProtoField.uint32("opa_mgmt.congestion_info_record.reserved_4", "reserved_4", base.HEX, nil, nil, "0")},
  {"congestion_info", 8, 4, ProtoField.bytes("opa_mgmt.congestion_info_record.congestion_info", "congestion_info", base.NONE, "CongestionInfo")},
}}
attributes.switch_congestion_record = {title = "SwitchCongestionRecord", size = 84, rows = {
  {"lid", 0, 4, ProtoField.uint32("opa_mgmt.switch_congestion_record.lid", "lid", base.HEX, nil, nil, "LID of the port, or of port 0 of its switch")},
  {"reserved_4", 4, 4, ProtoField.uint32("opa_mgmt.switch_congestion_record.reserved_4", "reserved_4", base.HEX, nil, nil, "0")},
  {"setting", 8, 76, ProtoField.bytes("opa_mgmt.switch_congestion_record.setting", "setting", base.NONE, "the setting")},
}}
attributes.switch_port_congestion_record = {title = "SwitchPortCongestionRecord", size = 12, rows = {
  {"lid", 0, 4, ProtoField.uint32("opa_mgmt.switch_port_congestion_record.lid", "lid", base.HEX, nil, nil, "LID of the port, or of port 0 of its switch")},
  {"port_num", 4, 1, ProtoField.uint8("opa_mgmt.switch_port_congestion_record.port_num", "port_num", base.DEC, nil, nil, "its number on its node")},
  {"reserved_5", 5, 3, ProtoField.uint24("opa_mgmt.switch_port_congestion_record.reserved_5", "reserved_5", base.HEX, nil, nil, "0")},
  {"setting", 8, 4, ProtoField.bytes("opa_mgmt.switch_port_congestion_record.setting", "setting", base.NONE, "the setting")},
}}
attributes.hfi_congestion_record = {title = "HfiCongestionRecord", size = 206, rows = {
  {"lid", 0, 4, ProtoField.uint32("opa_mgmt.hfi_congestion_record.lid", "lid", base.HEX, nil, nil, "LID of the port, or of port 0 of its switch")},
  {"reserved_4", 4, 4, ProtoField.uint32("opa_mgmt.hfi_congestion_record.reserved_4", "reserved_4", base.HEX, nil, nil, "0")},
  {"setting", 8, 198, ProtoField.bytes("opa_mgmt.hfi_congestion_record.setting", "setting", base.NONE, "the setting")},
}}
attributes.hfi_congestion_control_record = {title = "HfiCongestionControlRecord", size = 138, rows = {
  {"lid", 0, 4, ProtoField.uint32("opa_mgmt.hfi_congestion_control_record.lid", "lid", base.HEX, nil, nil, "LID of the port, or of port 0 of its switch")},
  {"block", 4, 2, ProtoField.uint16("opa_mgmt.hfi_congestion_control_record.block", "block", base.DEC, nil, nil, "number of the block")},
  {"reserved_6", 6, 2, ProtoField.uint16("opa_mgmt.hfi_congestion_control_record.reserved_6", "reserved_6", base.HEX, nil, nil, "0")},
  {"table", 8, 130, ProtoField.bytes("opa_mgmt.hfi_congestion_control_record.table", "table", base.NONE, "the limit and 64 entries")},
}}
attributes.mc_member_record = {title = "MCMemberRecord", size = 56, rows = {
  {"mgid", 0, 16, ProtoField.bytes("opa_mgmt.mc_member_record.mgid", "mgid", base.NONE, "GID of the group; 0 in a join: make one")},
  {"port_gid", 16, 16, ProtoField.bytes("opa_mgmt.mc_member_record.port_gid", "port_gid", base.NONE, "GID of the member")},
  {"q_key", 32, 4, ProtoField.uint32("opa_mgmt.mc_member_record.q_key", "q_key", base.HEX, nil, nil, "Q_Key of the group")},
  {"reserved_36", 36, 2, ProtoField.uint16("opa_mgmt.mc_member_record.reserved_36", "reserved_36", base.HEX, nil, nil, "0")},
  {"mtu_selector", 38, 1, ProtoField.uint8("opa_mgmt.mc_member_record.mtu_selector", "mtu_selector", base.DEC, {[0x0] = "greater than", [0x1] = "less than", [0x2] = "exactly", [0x3] = "the largest there is"}, 0xC0, "how `mtu` is meant")},
  {"mtu", 38, 1, ProtoField.uint8("opa_mgmt.mc_member_record.mtu", "mtu", base.DEC, nil, 0x3F, "MTU of the group, as a code")},
  {"traffic_class", 39, 1, ProtoField.uint8("opa_mgmt.mc_member_record.traffic_class", "traffic_class", base.HEX, nil, nil, "traffic class")},
  {"pkey", 40, 2, ProtoField.uint16("opa_mgmt.mc_member_record.pkey", "pkey", base.HEX, nil, nil, "P_Key of the group")},
  {"rate_selector", 42, 1, ProtoField.uint8("opa_mgmt.mc_member_record.rate_selector", "rate_selector", base.DEC, {[0x0] = "greater than", [0x1] = "less than", [0x2] = "exactly", [0x3] = "the largest there is"}, 0xC0, "how `rate` is meant")},
  {"rate", 42, 1, ProtoField.uint8("opa_mgmt.mc_member_record.rate", "rate", base.DEC, nil, 0x3F, "rate of the group, as a code")},
  {"life_selector", 43, 1, ProtoField.uint8("opa_mgmt.mc_member_record.life_selector", "life_selector", base.DEC, {[0x0] = "greater than", [0x1] = "less than", [0x2] = "exactly", [0x3] = "the largest there is"}, 0xC0, "how `life` is meant")},
  {"life", 43, 1, ProtoField.uint8("opa_mgmt.mc_member_record.life", "life", base.DEC, nil, 0x3F, "lifetime of a packet, 4.096 us times 2 to this")},
  {"sl", 44, 1, ProtoField.uint8("opa_mgmt.mc_member_record.sl", "sl", base.DEC, nil, 0xF8, "SL of the group")},
  {"reserved_44", 44, 3, ProtoField.uint24("opa_mgmt.mc_member_record.reserved_44", "reserved_44", base.HEX, nil, 0x7FFFF, "0")},
  {"hop_limit", 47, 1, ProtoField.uint8("opa_mgmt.mc_member_record.hop_limit", "hop_limit", base.DEC, nil, nil, "hop limit")},
  {"scope", 48, 1, ProtoField.uint8("opa_mgmt.mc_member_record.scope", "scope", base.DEC, nil, 0xF0, "scope of the GID")},
  {"join_state", 48, 1, ProtoField.uint8("opa_mgmt.mc_member_record.join_state", "join_state", base.HEX, nil, 0xF, "1 full member, 2 non-member, 4 send-only non-member, 8 send-only full member")},
  {"proxy_join", 49, 1, ProtoField.bool("opa_mgmt.mc_member_record.proxy_join", "proxy_join", 8, nil, 0x80, "joined on behalf of another port")},
  {"reserved_49", 49, 1, ProtoField.uint8("opa_mgmt.mc_member_record.reserved_49", "reserved_49", base.HEX, nil, 0x7F, "0")},
  {"reserved_50", 50, 2, ProtoField.uint16("opa_mgmt.mc_member_record.reserved_50", "reserved_50", base.HEX, nil, nil, "0")},
  {"mlid", 52, 4, ProtoField.uint32("opa_mgmt.mc_member_record.mlid", "mlid", base.HEX, nil, nil, "LID of the group, in the 32-bit form that begins at 0xf0000000")},
}}
attributes.trace_record = {title = "TraceRecord", size = 40, rows = {
  {"generation", 0, 2, ProtoField.uint16("opa_mgmt.trace_record.generation", "generation", base.DEC, nil, nil, "changes when ids do")},
  {"reserved_2", 2, 1, ProtoField.uint8("opa_mgmt.trace_record.reserved_2", "reserved_2", base.HEX, nil, nil, "0")},
  {"node_type", 3, 1, ProtoField.uint8("opa_mgmt.trace_record.node_type", "node_type", base.DEC, nil, nil, "1 HFI, 2 switch")},
  {"entry_port", 4, 1, ProtoField.uint8("opa_mgmt.trace_record.entry_port", "entry_port", base.DEC, nil, nil, "number of the port that the path enters by")},
  {"exit_port", 5, 1, ProtoField.uint8("opa_mgmt.trace_record.exit_port", "exit_port", base.DEC, nil, nil, "number of the port that the path leaves by")},
  {"reserved_6", 6, 2, ProtoField.uint16("opa_mgmt.trace_record.reserved_6", "reserved_6", base.HEX, nil, nil, "0")},
  {"node_id", 8, 8, ProtoField.uint64("opa_mgmt.trace_record.node_id", "node_id", base.HEX, nil, nil, "GUID of the node")},
  {"chassis_id", 16, 8, ProtoField.uint64("opa_mgmt.trace_record.chassis_id", "chassis_id", base.HEX, nil, nil, "GUID of its system")},
  {"entry_port_id", 24, 8, ProtoField.uint64("opa_mgmt.trace_record.entry_port_id", "entry_port_id", base.HEX, nil, nil, "GUID of the port that the path enters by")},
  {"exit_port_id", 32, 8, ProtoField.uint64("opa_mgmt.trace_record.exit_port_id", "exit_port_id", base.HEX, nil, nil, "GUID of the port that the path leaves by")},
}}
attributes.sl_to_sc_record = {title = "SLtoSCRecord", size = 40, rows = {
  {"lid", 0, 4, ProtoField.uint32("opa_mgmt.sl_to_sc_record.lid", "lid", base.HEX, nil, nil, "LID of the port")},
  {"reserved_4", 4, 2, ProtoField.uint16("opa_mgmt.sl_to_sc_record.reserved_4", "reserved_4", base.HEX, nil, nil, "0")},
  {"reserved_6", 6, 2, ProtoField.uint16("opa_mgmt.sl_to_sc_record.reserved_6", "reserved_6", base.HEX, nil, nil, "0")},
  {"table", 8, 32, ProtoField.bytes("opa_mgmt.sl_to_sc_record.table", "table", base.NONE, "the SC of each SL, or the SL of each SC")},
}}
attributes.sc_to_vl_record = {title = "SCtoVLRecord", size = 40, rows = {
  {"lid", 0, 4, ProtoField.uint32("opa_mgmt.sc_to_vl_record.lid", "lid", base.HEX, nil, nil, "LID of the port, or of port 0 of its switch")},
  {"port_num", 4, 1, ProtoField.uint8("opa_mgmt.sc_to_vl_record.port_num", "port_num", base.DEC, nil, nil, "its number on its node")},
  {"reserved_5", 5, 3, ProtoField.uint24("opa_mgmt.sc_to_vl_record.reserved_5", "reserved_5", base.HEX, nil, nil, "0")},
  {"table", 8, 32, ProtoField.bytes("opa_mgmt.sc_to_vl_record.table", "table", base.NONE, "the VL of each SC; 15: none but SC15's own")},
}}
attributes.vf_info_record = {title = "VFInfoRecord", size = 128, rows = {
  {"index", 0, 2, ProtoField.uint16("opa_mgmt.vf_info_record.index", "index", base.DEC, nil, nil, "number of the virtual fabric")},
  {"pkey", 2, 2, ProtoField.uint16("opa_mgmt.vf_info_record.pkey", "pkey", base.HEX, nil, nil, "its P_Key")},
  {"reserved_4", 4, 4, ProtoField.uint32("opa_mgmt.vf_info_record.reserved_4", "reserved_4", base.HEX, nil, nil, "0")},
  {"name", 8, 64, ProtoField.bytes("opa_mgmt.vf_info_record.name", "name", base.NONE, "its name, filled up with zeros")},
  {"service_id", 72, 8, ProtoField.uint64("opa_mgmt.vf_info_record.service_id", "service_id", base.HEX, nil, nil, "only asked for: of a service in it")},
  {"mgid", 80, 16, ProtoField.bytes("opa_mgmt.vf_info_record.mgid", "mgid", base.NONE, "only asked for: of a group in it")},
  {"select_flags", 96, 1, ProtoField.uint8("opa_mgmt.vf_info_record.select_flags", "select_flags", base.HEX, nil, 0xC0, "bit 0: asked for by P_Key, bit 1: by SL")},
  {"reserved_96", 96, 1, ProtoField.uint8("opa_mgmt.vf_info_record.reserved_96", "reserved_96", base.HEX, nil, 0x20, "0")},
  {"sl_base", 96, 1, ProtoField.uint8("opa_mgmt.vf_info_record.sl_base", "sl_base", base.DEC, nil, 0x1F, "its SL")},
  {"mtu_specified", 97, 1, ProtoField.bool("opa_mgmt.vf_info_record.mtu_specified", "mtu_specified", 8, nil, 0x80, "`mtu` holds")},
  {"reserved_97", 97, 1, ProtoField.uint8("opa_mgmt.vf_info_record.reserved_97", "reserved_97", base.HEX, nil, 0x40, "0")},
  {"mtu", 97, 1, ProtoField.uint8("opa_mgmt.vf_info_record.mtu", "mtu", base.DEC, nil, 0x3F, "its MTU, as a code")},
  {"rate_specified", 98, 1, ProtoField.bool("opa_mgmt.vf_info_record.rate_specified", "rate_specified", 8, nil, 0x80, "`rate` holds")},
  {"reserved_98", 98, 1, ProtoField.uint8("opa_mgmt.vf_info_record.reserved_98", "reserved_98", base.HEX, nil, 0x40, "0")},
  {"rate", 98, 1, ProtoField.uint8("opa_mgmt.vf_info_record.rate", "rate", base.DEC, nil, 0x3F, "its rate, as a code")},
  {"life_specified", 99, 1, ProtoField.bool("opa_mgmt.vf_info_record.life_specified", "life_specified", 8, nil, 0x80, "`life` holds")},
  {"reserved_99", 99, 1, ProtoField.uint8("opa_mgmt.vf_info_record.reserved_99", "reserved_99", base.HEX, nil, 0x78, "0")},
  {"life", 99, 1, ProtoField.uint8("opa_mgmt.vf_info_record.life", "life", base.DEC, nil, 0x7, "what is added to the lifetime of packets")},
  {"option_flags", 100, 1, ProtoField.uint8("opa_mgmt.vf_info_record.option_flags", "option_flags", base.HEX, nil, nil, "bit 0: security, bit 1: QoS, bit 2: flow control disabled")},
  {"bandwidth_percent", 101, 1, ProtoField.uint8("opa_mgmt.vf_info_record.bandwidth_percent", "bandwidth_percent", base.DEC, nil, nil, "share of the bandwidth, in percent")},
  {"reserved_102", 102, 1, ProtoField.uint8("opa_mgmt.vf_info_record.reserved_102", "reserved_102", base.HEX, nil, 0xFE, "0")},
  {"priority", 102, 1, ProtoField.bool("opa_mgmt.vf_info_record.priority", "priority", 8, nil, 0x1, "high priority")},
  {"routing_sls", 103, 1, ProtoField.uint8("opa_mgmt.vf_info_record.routing_sls", "routing_sls", base.DEC, nil, nil, "1")},
  {"reserved_104", 104, 1, ProtoField.uint8("opa_mgmt.vf_info_record.reserved_104", "reserved_104", base.HEX, nil, 0x80, "0")},
  {"preemption_rank", 104, 1, ProtoField.uint8("opa_mgmt.vf_info_record.preemption_rank", "preemption_rank", base.DEC, nil, 0x7F, "rank in preemption")},
  {"reserved_105", 105, 1, ProtoField.uint8("opa_mgmt.vf_info_record.reserved_105", "reserved_105", base.HEX, nil, 0xE0, "0")},
  {"hoq_life", 105, 1, ProtoField.uint8("opa_mgmt.vf_info_record.hoq_life", "hoq_life", base.DEC, nil, 0x1F, "lifetime at the head of a queue")},
  {"sl_response_specified", 106, 1, ProtoField.bool("opa_mgmt.vf_info_record.sl_response_specified", "sl_response_specified", 8, nil, 0x80, "`sl_response` holds")},
  {"reserved_106", 106, 1, ProtoField.uint8("opa_mgmt.vf_info_record.reserved_106", "reserved_106", base.HEX, nil, 0x60, "0")},
  {"sl_response", 106, 1, ProtoField.uint8("opa_mgmt.vf_info_record.sl_response", "sl_response", base.DEC, nil, 0x1F, "SL of responses")},
  {"sl_multicast_specified", 107, 1, ProtoField.bool("opa_mgmt.vf_info_record.sl_multicast_specified", "sl_multicast_specified", 8, nil, 0x80, "`sl_multicast` holds")},
  {"reserved_107", 107, 1, ProtoField.uint8("opa_mgmt.vf_info_record.reserved_107", "reserved_107", base.HEX, nil, 0x60, "0")},
  {"sl_multicast", 107, 1, ProtoField.uint8("opa_mgmt.vf_info_record.sl_multicast", "sl_multicast", base.DEC, nil, 0x1F, "SL of multicast")},
  {"reserved_108", 108, 20, ProtoField.bytes("opa_mgmt.vf_info_record.reserved_108", "reserved_108", base.NONE, "0")},
}}
attributes.fabric_info_record = {title = "FabricInfoRecord", size = 408, rows = {
  {"hfis", 0, 4, ProtoField.uint32("opa_mgmt.fabric_info_record.hfis", "hfis", base.DEC, nil, nil, "HFIs")},
  {"switches", 4, 4, ProtoField.uint32("opa_mgmt.fabric_info_record.switches", "switches", base.DEC, nil, nil, "switches")},
  {"internal_hfi_links", 8, 4, ProtoField.uint32("opa_mgmt.fabric_info_record.internal_hfi_links", "internal_hfi_links", base.DEC, nil, nil, "links of HFIs inside a system")},
  {"external_hfi_links", 12, 4, ProtoField.uint32("opa_mgmt.fabric_info_record.external_hfi_links", "external_hfi_links", base.DEC, nil, nil, "links of HFIs")},
  {"internal_switch_links", 16, 4, ProtoField.uint32("opa_mgmt.fabric_info_record.internal_switch_links", "internal_switch_links", base.DEC, nil, nil, "links between switches inside a system")},
  {"external_switch_links", 20, 4, ProtoField.uint32("opa_mgmt.fabric_info_record.external_switch_links", "external_switch_links", base.DEC, nil, nil, "links between switches")},
  {"degraded_hfi_links", 24, 4, ProtoField.uint32("opa_mgmt.fabric_info_record.degraded_hfi_links", "degraded_hfi_links", base.DEC, nil, nil, "links of HFIs below their best")},
  {"degraded_switch_links", 28, 4, ProtoField.uint32("opa_mgmt.fabric_info_record.degraded_switch_links", "degraded_switch_links", base.DEC, nil, nil, "links between switches below their best")},
  {"omitted_hfi_links", 32, 4, ProtoField.uint32("opa_mgmt.fabric_info_record.omitted_hfi_links", "omitted_hfi_links", base.DEC, nil, nil, "links of HFIs that are not in use")},
  {"omitted_switch_links", 36, 4, ProtoField.uint32("opa_mgmt.fabric_info_record.omitted_switch_links", "omitted_switch_links", base.DEC, nil, nil, "links between switches that are not in use")},
  {"reserved_40", 40, 368, ProtoField.bytes("opa_mgmt.fabric_info_record.reserved_40", "reserved_40", base.NONE, "0")},
}}
attributes.inform_info_record = {title = "InformInfoRecord", size = 48, rows = {
  {"lid", 0, 4, ProtoField.uint32("opa_mgmt.inform_info_record.lid", "lid", base.HEX, nil, nil, "LID of the subscriber")},
  {"number", 4, 2, ProtoField.uint16("opa_mgmt.inform_info_record.number", "number", base.DEC, nil, nil, "which of its subscriptions")},
  {"reserved_6", 6, 2, ProtoField.uint16("opa_mgmt.inform_info_record.reserved_6", "reserved_6", base.HEX, nil, nil, "0")},
  {"inform_info", 8, 40, ProtoField.bytes("opa_mgmt.inform_info_record.inform_info", "inform_info", base.NONE, "InformInfo")},
}}
attributes.ib_class_port_info = {title = "ClassPortInfo", size = 72, rows = {
  {"base_version", 0, 1, ProtoField.uint8("opa_mgmt.ib_class_port_info.base_version", "base_version", base.HEX, nil, nil, "1")},
  {"class_version", 1, 1, ProtoField.uint8("opa_mgmt.ib_class_port_info.class_version", "class_version", base.HEX, nil, nil, "2")},
  {"capabilities", 2, 2, ProtoField.uint16("opa_mgmt.ib_class_port_info.capabilities", "capabilities", base.HEX, nil, nil, "bit 2: there are more; bit 9: multicast")},
  {"capabilities2", 4, 4, ProtoField.uint32("opa_mgmt.ib_class_port_info.capabilities2", "capabilities2", base.HEX, nil, 0xFFFFFFE0, "more of them")},
  {"response_time", 7, 1, ProtoField.uint8("opa_mgmt.ib_class_port_info.response_time", "response_time", base.DEC, nil, 0x1F, "4.096 us times 2 to this")},
  {"reserved_8", 8, 64, ProtoField.bytes("opa_mgmt.ib_class_port_info.reserved_8", "reserved_8", base.NONE, "redirection and sink of traps: 0")},
}}
attributes.ib_notice = {title = "Notice", size = 80, rows = {
  {"is_generic", 0, 1, ProtoField.bool("opa_mgmt.ib_notice.is_generic", "is_generic", 8, nil, 0x80, "a generic notice")},
  {"type", 0, 1, ProtoField.uint8("opa_mgmt.ib_notice.type", "type", base.DEC, nil, 0x7F, "0 fatal, 1 urgent, 2 security, 3 subnet management, 4 information")},
  {"producer", 1, 3, ProtoField.uint24("opa_mgmt.ib_notice.producer", "producer", base.DEC, nil, nil, "type of the node: 1 HFI, 2 switch, 4 subnet manager")},
  {"trap", 4, 2, ProtoField.uint16("opa_mgmt.ib_notice.trap", "trap", base.DEC, nil, nil, "number of the trap")},
  {"issuer_lid", 6, 2, ProtoField.uint16("opa_mgmt.ib_notice.issuer_lid", "issuer_lid", base.HEX, nil, nil, "LID of the issuer")},
  {"toggle_count", 8, 2, ProtoField.uint16("opa_mgmt.ib_notice.toggle_count", "toggle_count", base.DEC, nil, nil, "0")},
  {"data", 10, 54, ProtoField.bytes("opa_mgmt.ib_notice.data", "data", base.NONE, "what the trap is about: six bytes of 0 and a GID, or a LID")},
  {"issuer_gid", 64, 16, ProtoField.bytes("opa_mgmt.ib_notice.issuer_gid", "issuer_gid", base.NONE, "GID of the issuer")},
}}
attributes.ib_inform_info = {title = "InformInfo", size = 36, rows = {
  {"gid", 0, 16, ProtoField.bytes("opa_mgmt.ib_inform_info.gid", "gid", base.NONE, "notices about this GID only; 0: about any")},
  {"lid_begin", 16, 2, ProtoField.uint16("opa_mgmt.ib_inform_info.lid_begin", "lid_begin", base.HEX, nil, nil, "notices of LIDs from this one; 0xffff: of all")},
  {"lid_end", 18, 2, ProtoField.uint16("opa_mgmt.ib_inform_info.lid_end", "lid_end", base.HEX, nil, nil, "the last LID")},
  {"reserved_20", 20, 2, ProtoField.uint16("opa_mgmt.ib_inform_info.reserved_20", "reserved_20", base.HEX, nil, nil, "0")},
  {"is_generic", 22, 1, ProtoField.uint8("opa_mgmt.ib_inform_info.is_generic", "is_generic", base.DEC, nil, nil, "1: generic notices, 0: a vendor's")},
  {"subscribe", 23, 1, ProtoField.uint8("opa_mgmt.ib_inform_info.subscribe", "subscribe", base.DEC, nil, nil, "1: subscribe, 0: end that")},
  {"type", 24, 2, ProtoField.uint16("opa_mgmt.ib_inform_info.type", "type", base.HEX, nil, nil, "type of notice; 0xffff: all")},
  {"trap", 26, 2, ProtoField.uint16("opa_mgmt.ib_inform_info.trap", "trap", base.DEC, nil, nil, "number of the trap; 0xffff: all")},
  {"qpn", 28, 3, ProtoField.uint24("opa_mgmt.ib_inform_info.qpn", "qpn", base.HEX, nil, nil, "queue pair of the subscriber; 1: its QP1")},
  {"reserved_31", 31, 1, ProtoField.uint8("opa_mgmt.ib_inform_info.reserved_31", "reserved_31", base.HEX, nil, 0xE0, "0")},
  {"response_time", 31, 1, ProtoField.uint8("opa_mgmt.ib_inform_info.response_time", "response_time", base.DEC, nil, 0x1F, "how long a ReportResp may take")},
  {"reserved_32", 32, 1, ProtoField.uint8("opa_mgmt.ib_inform_info.reserved_32", "reserved_32", base.HEX, nil, nil, "0")},
  {"producer", 33, 3, ProtoField.uint24("opa_mgmt.ib_inform_info.producer", "producer", base.HEX, nil, nil, "type of the node; 0xffffff: any")},
}}
attributes.ib_node_record = {title = "NodeRecord", size = 108, rows = {
  {"lid", 0, 2, ProtoField.uint16("opa_mgmt.ib_node_record.lid", "lid", base.HEX, nil, nil, "LID of the port, or of port 0 of the switch")},
  {"reserved_2", 2, 2, ProtoField.uint16("opa_mgmt.ib_node_record.reserved_2", "reserved_2", base.HEX, nil, nil, "0")},
  {"base_version", 4, 1, ProtoField.uint8("opa_mgmt.ib_node_record.base_version", "base_version", base.HEX, nil, nil, "0x80")},
  {"class_version", 5, 1, ProtoField.uint8("opa_mgmt.ib_node_record.class_version", "class_version", base.HEX, nil, nil, "0x80")},
  {"node_type", 6, 1, ProtoField.uint8("opa_mgmt.ib_node_record.node_type", "node_type", base.DEC, {[0x1] = "HFI", [0x2] = "switch"}, nil, "HFI or switch")},
  {"num_ports", 7, 1, ProtoField.uint8("opa_mgmt.ib_node_record.num_ports", "num_ports", base.DEC, nil, nil, "ports with a cable; a switch's port 0 does not count")},
  {"system_image_guid", 8, 8, ProtoField.uint64("opa_mgmt.ib_node_record.system_image_guid", "system_image_guid", base.HEX, nil, nil, "GUID of the whole system")},
  {"node_guid", 16, 8, ProtoField.uint64("opa_mgmt.ib_node_record.node_guid", "node_guid", base.HEX, nil, nil, "GUID of the node")},
  {"port_guid", 24, 8, ProtoField.uint64("opa_mgmt.ib_node_record.port_guid", "port_guid", base.HEX, nil, nil, "GUID of the port that was asked")},
  {"partition_cap", 32, 2, ProtoField.uint16("opa_mgmt.ib_node_record.partition_cap", "partition_cap", base.DEC, nil, nil, "entries of the partition table")},
  {"device_id", 34, 2, ProtoField.uint16("opa_mgmt.ib_node_record.device_id", "device_id", base.HEX, nil, nil, "device, by its vendor")},
  {"revision", 36, 4, ProtoField.uint32("opa_mgmt.ib_node_record.revision", "revision", base.HEX, nil, nil, "revision of the device")},
  {"local_port_num", 40, 1, ProtoField.uint8("opa_mgmt.ib_node_record.local_port_num", "local_port_num", base.DEC, nil, nil, "the port that the question came by")},
  {"vendor_id", 41, 3, ProtoField.uint24("opa_mgmt.ib_node_record.vendor_id", "vendor_id", base.HEX, nil, nil, "OUI of the vendor")},
  {"node_description", 44, 64, ProtoField.bytes("opa_mgmt.ib_node_record.node_description", "node_description", base.NONE, "its name, filled up with zeros")},
}}
attributes.ib_service_record = {title = "ServiceRecord", size = 176, rows = {
  {"service_id", 0, 8, ProtoField.uint64("opa_mgmt.ib_service_record.service_id", "service_id", base.HEX, nil, nil, "number of the service")},
  {"gid", 8, 16, ProtoField.bytes("opa_mgmt.ib_service_record.gid", "gid", base.NONE, "GID of the port that offers it")},
  {"pkey", 24, 2, ProtoField.uint16("opa_mgmt.ib_service_record.pkey", "pkey", base.HEX, nil, nil, "partition that it is offered in")},
  {"reserved_26", 26, 2, ProtoField.uint16("opa_mgmt.ib_service_record.reserved_26", "reserved_26", base.HEX, nil, nil, "0")},
  {"lease", 28, 4, ProtoField.uint32("opa_mgmt.ib_service_record.lease", "lease", base.DEC, nil, nil, "seconds that the record still holds; 0xffffffff: until deleted")},
  {"key", 32, 16, ProtoField.bytes("opa_mgmt.ib_service_record.key", "key", base.NONE, "key of the service")},
  {"name", 48, 64, ProtoField.bytes("opa_mgmt.ib_service_record.name", "name", base.NONE, "name, filled up with zeros")},
  {"data", 112, 64, ProtoField.bytes("opa_mgmt.ib_service_record.data", "data", base.NONE, "16 bytes, 8 words of 16, 4 of 32 and 2 of 64 bits: the service's own")},
}}
attributes.ib_mc_member_record = {title = "MCMemberRecord", size = 52, rows = {
  {"mgid", 0, 16, ProtoField.bytes("opa_mgmt.ib_mc_member_record.mgid", "mgid", base.NONE, "GID of the group; 0 in a join: make one")},
  {"port_gid", 16, 16, ProtoField.bytes("opa_mgmt.ib_mc_member_record.port_gid", "port_gid", base.NONE, "GID of the member")},
  {"q_key", 32, 4, ProtoField.uint32("opa_mgmt.ib_mc_member_record.q_key", "q_key", base.HEX, nil, nil, "Q_Key of the group")},
  {"mlid", 36, 2, ProtoField.uint16("opa_mgmt.ib_mc_member_record.mlid", "mlid", base.HEX, nil, nil, "LID of the group, in the 16-bit form that begins at 0xc000")},
  {"mtu_selector", 38, 1, ProtoField.uint8("opa_mgmt.ib_mc_member_record.mtu_selector", "mtu_selector", base.DEC, nil, 0xC0, "how `mtu` is meant")},
  {"mtu", 38, 1, ProtoField.uint8("opa_mgmt.ib_mc_member_record.mtu", "mtu", base.DEC, nil, 0x3F, "MTU of the group, as a code")},
  {"traffic_class", 39, 1, ProtoField.uint8("opa_mgmt.ib_mc_member_record.traffic_class", "traffic_class", base.HEX, nil, nil, "traffic class")},
  {"pkey", 40, 2, ProtoField.uint16("opa_mgmt.ib_mc_member_record.pkey", "pkey", base.HEX, nil, nil, "P_Key of the group")},
  {"rate_selector", 42, 1, ProtoField.uint8("opa_mgmt.ib_mc_member_record.rate_selector", "rate_selector", base.DEC, nil, 0xC0, "how `rate` is meant")},
  {"rate", 42, 1, ProtoField.uint8("opa_mgmt.ib_mc_member_record.rate", "rate", base.DEC, nil, 0x3F, "rate of the group, as a code")},
  {"life_selector", 43, 1, ProtoField.uint8("opa_mgmt.ib_mc_member_record.life_selector", "life_selector", base.DEC, nil, 0xC0, "how `life` is meant")},
  {"life", 43, 1, ProtoField.uint8("opa_mgmt.ib_mc_member_record.life", "life", base.DEC, nil, 0x3F, "lifetime of a packet, 4.096 us times 2 to this")},
  {"sl", 44, 1, ProtoField.uint8("opa_mgmt.ib_mc_member_record.sl", "sl", base.DEC, nil, 0xF0, "SL of the group")},
  {"flow_label", 44, 3, ProtoField.uint24("opa_mgmt.ib_mc_member_record.flow_label", "flow_label", base.HEX, nil, 0xFFFFF, "flow label")},
  {"hop_limit", 47, 1, ProtoField.uint8("opa_mgmt.ib_mc_member_record.hop_limit", "hop_limit", base.DEC, nil, nil, "hop limit")},
  {"scope", 48, 1, ProtoField.uint8("opa_mgmt.ib_mc_member_record.scope", "scope", base.DEC, nil, 0xF0, "scope of the GID")},
  {"join_state", 48, 1, ProtoField.uint8("opa_mgmt.ib_mc_member_record.join_state", "join_state", base.HEX, nil, 0xF, "1 full member, 2 non-member, 4 send-only non-member, 8 send-only full member")},
  {"proxy_join", 49, 1, ProtoField.bool("opa_mgmt.ib_mc_member_record.proxy_join", "proxy_join", 8, nil, 0x80, "joined on behalf of another port")},
  {"reserved_49", 49, 3, ProtoField.uint24("opa_mgmt.ib_mc_member_record.reserved_49", "reserved_49", base.HEX, nil, 0x7FFFFF, "0")},
}}
attributes.ib_inform_info_record = {title = "InformInfoRecord", size = 60, rows = {
  {"gid", 0, 16, ProtoField.bytes("opa_mgmt.ib_inform_info_record.gid", "gid", base.NONE, "GID of the subscriber")},
  {"number", 16, 2, ProtoField.uint16("opa_mgmt.ib_inform_info_record.number", "number", base.DEC, nil, nil, "which of its subscriptions")},
  {"reserved_18", 18, 6, ProtoField.bytes("opa_mgmt.ib_inform_info_record.reserved_18", "reserved_18", base.NONE, "0")},
  {"inform_info", 24, 36, ProtoField.bytes("opa_mgmt.ib_inform_info_record.inform_info", "inform_info", base.NONE, "InformInfo")},
}}
attributes.pm_port_status_request = {title = "PortStatus request", size = 8, rows = {
  {"port_num", 0, 1, ProtoField.uint8("opa_mgmt.pm_port_status_request.port_num", "port_num", base.DEC, nil, nil, "number of the port")},
  {"reserved_1", 1, 3, ProtoField.bytes("opa_mgmt.pm_port_status_request.reserved_1", "reserved_1", base.NONE, "0")},
  {"vl_mask", 4, 4, ProtoField.uint32("opa_mgmt.pm_port_status_request.vl_mask", "vl_mask", base.HEX, nil, nil, "VLs: bit n is VL n")},
}}
attributes.port_status = {title = "PortStatus", size = 216, rows = {
  {"port_num", 0, 1, ProtoField.uint8("opa_mgmt.port_status.port_num", "port_num", base.DEC, nil, nil, "number of the port")},
  {"reserved_1", 1, 3, ProtoField.bytes("opa_mgmt.port_status.reserved_1", "reserved_1", base.NONE, "0")},
  {"vl_mask", 4, 4, ProtoField.uint32("opa_mgmt.port_status.vl_mask", "vl_mask", base.HEX, nil, nil, "VLs: bit n is VL n")},
  {"xmit_data", 8, 8, ProtoField.uint64("opa_mgmt.port_status.xmit_data", "xmit_data", base.DEC, nil, nil, "flits of 8 bytes sent")},
  {"rcv_data", 16, 8, ProtoField.uint64("opa_mgmt.port_status.rcv_data", "rcv_data", base.DEC, nil, nil, "flits of 8 bytes received")},
  {"xmit_pkts", 24, 8, ProtoField.uint64("opa_mgmt.port_status.xmit_pkts", "xmit_pkts", base.DEC, nil, nil, "packets sent")},
  {"rcv_pkts", 32, 8, ProtoField.uint64("opa_mgmt.port_status.rcv_pkts", "rcv_pkts", base.DEC, nil, nil, "packets received")},
  {"multicast_xmit_pkts", 40, 8, ProtoField.uint64("opa_mgmt.port_status.multicast_xmit_pkts", "multicast_xmit_pkts", base.DEC, nil, nil, "packets sent to groups")},
  {"multicast_rcv_pkts", 48, 8, ProtoField.uint64("opa_mgmt.port_status.multicast_rcv_pkts", "multicast_rcv_pkts", base.DEC, nil, nil, "packets received for groups")},
  {"xmit_wait", 56, 8, ProtoField.uint64("opa_mgmt.port_status.xmit_wait", "xmit_wait", base.DEC, nil, nil, "flit times in which a packet waited and nothing of its VL was sent")},
  {"sw_congestion", 64, 8, ProtoField.uint64("opa_mgmt.port_status.sw_congestion", "sw_congestion", base.DEC, nil, nil, "packets of a switch dropped because the queue was full")},
  {"rcv_fecn", 72, 8, ProtoField.uint64("opa_mgmt.port_status.rcv_fecn", "rcv_fecn", base.DEC, nil, nil, "packets received with FECN")},
  {"rcv_becn", 80, 8, ProtoField.uint64("opa_mgmt.port_status.rcv_becn", "rcv_becn", base.DEC, nil, nil, "packets received with BECN")},
  {"xmit_time_cong", 88, 8, ProtoField.uint64("opa_mgmt.port_status.xmit_time_cong", "xmit_time_cong", base.DEC, nil, nil, "always 0 here")},
  {"xmit_wasted_bw", 96, 8, ProtoField.uint64("opa_mgmt.port_status.xmit_wasted_bw", "xmit_wasted_bw", base.DEC, nil, nil, "always 0 here")},
  {"xmit_wait_data", 104, 8, ProtoField.uint64("opa_mgmt.port_status.xmit_wait_data", "xmit_wait_data", base.DEC, nil, nil, "always 0 here")},
  {"rcv_bubble", 112, 8, ProtoField.uint64("opa_mgmt.port_status.rcv_bubble", "rcv_bubble", base.DEC, nil, nil, "always 0 here")},
  {"mark_fecn", 120, 8, ProtoField.uint64("opa_mgmt.port_status.mark_fecn", "mark_fecn", base.DEC, nil, nil, "packets that a switch marked with FECN as it sent them")},
  {"rcv_constraint_errors", 128, 8, ProtoField.uint64("opa_mgmt.port_status.rcv_constraint_errors", "rcv_constraint_errors", base.DEC, nil, nil, "packets received with a P_Key that does not fit")},
  {"rcv_switch_relay_errors", 136, 8, ProtoField.uint64("opa_mgmt.port_status.rcv_switch_relay_errors", "rcv_switch_relay_errors", base.DEC, nil, nil, "packets that a switch received and had no way for")},
  {"xmit_discards", 144, 8, ProtoField.uint64("opa_mgmt.port_status.xmit_discards", "xmit_discards", base.DEC, nil, nil, "packets not sent: port or link down, queue full, longer than the MTU")},
  {"xmit_constraint_errors", 152, 8, ProtoField.uint64("opa_mgmt.port_status.xmit_constraint_errors", "xmit_constraint_errors", base.DEC, nil, nil, "packets not sent for their P_Key or SLID")},
  {"rcv_remote_physical_errors", 160, 8, ProtoField.uint64("opa_mgmt.port_status.rcv_remote_physical_errors", "rcv_remote_physical_errors", base.DEC, nil, nil, "always 0 here")},
  {"local_link_integrity_errors", 168, 8, ProtoField.uint64("opa_mgmt.port_status.local_link_integrity_errors", "local_link_integrity_errors", base.DEC, nil, nil, "packets damaged or lost on the wire on their way here")},
  {"rcv_errors", 176, 8, ProtoField.uint64("opa_mgmt.port_status.rcv_errors", "rcv_errors", base.DEC, nil, nil, "packets received that are malformed, damaged, or not for this port")},
  {"excessive_buffer_overruns", 184, 8, ProtoField.uint64("opa_mgmt.port_status.excessive_buffer_overruns", "excessive_buffer_overruns", base.DEC, nil, nil, "packets received for which the buffer had no room")},
  {"fm_config_errors", 192, 8, ProtoField.uint64("opa_mgmt.port_status.fm_config_errors", "fm_config_errors", base.DEC, nil, nil, "always 0 here")},
  {"link_error_recovery", 200, 4, ProtoField.uint32("opa_mgmt.port_status.link_error_recovery", "link_error_recovery", base.DEC, nil, nil, "always 0 here")},
  {"link_downed", 204, 4, ProtoField.uint32("opa_mgmt.port_status.link_downed", "link_downed", base.DEC, nil, nil, "how often the link went down")},
  {"uncorrectable_errors", 208, 1, ProtoField.uint8("opa_mgmt.port_status.uncorrectable_errors", "uncorrectable_errors", base.DEC, nil, nil, "always 0 here")},
  {"link_quality", 209, 1, ProtoField.uint8("opa_mgmt.port_status.link_quality", "link_quality", base.DEC, nil, nil, "link quality: 5 excellent, 4 very good, 3 good, 2 poor, 1 bad, 0 down")},
  {"reserved_210", 210, 6, ProtoField.bytes("opa_mgmt.port_status.reserved_210", "reserved_210", base.NONE, "0")},
}}
attributes.port_status_vl = {title = "PortStatusVl", size = 112, rows = {
  {"xmit_data", 0, 8, ProtoField.uint64("opa_mgmt.port_status_vl.xmit_data", "xmit_data", base.DEC, nil, nil, "of this VL")},
  {"rcv_data", 8, 8, ProtoField.uint64("opa_mgmt.port_status_vl.rcv_data", "rcv_data", base.DEC, nil, nil, "of this VL")},
  {"xmit_pkts", 16, 8, ProtoField.uint64("opa_mgmt.port_status_vl.xmit_pkts", "xmit_pkts", base.DEC, nil, nil, "of this VL")},
  {"rcv_pkts", 24, 8, ProtoField.uint64("opa_mgmt.port_status_vl.rcv_pkts", "rcv_pkts", base.DEC, nil, nil, "of this VL")},
  {"xmit_wait", 32, 8, ProtoField.uint64("opa_mgmt.port_status_vl.xmit_wait", "xmit_wait", base.DEC, nil, nil, "of this VL")},
  {"sw_congestion", 40, 8, ProtoField.uint64("opa_mgmt.port_status_vl.sw_congestion", "sw_congestion", base.DEC, nil, nil, "of this VL")},
  {"rcv_fecn", 48, 8, ProtoField.uint64("opa_mgmt.port_status_vl.rcv_fecn", "rcv_fecn", base.DEC, nil, nil, "of this VL")},
  {"rcv_becn", 56, 8, ProtoField.uint64("opa_mgmt.port_status_vl.rcv_becn", "rcv_becn", base.DEC, nil, nil, "of this VL")},
  {"xmit_time_cong", 64, 8, ProtoField.uint64("opa_mgmt.port_status_vl.xmit_time_cong", "xmit_time_cong", base.DEC, nil, nil, "of this VL")},
  {"xmit_wasted_bw", 72, 8, ProtoField.uint64("opa_mgmt.port_status_vl.xmit_wasted_bw", "xmit_wasted_bw", base.DEC, nil, nil, "of this VL")},
  {"xmit_wait_data", 80, 8, ProtoField.uint64("opa_mgmt.port_status_vl.xmit_wait_data", "xmit_wait_data", base.DEC, nil, nil, "of this VL")},
  {"rcv_bubble", 88, 8, ProtoField.uint64("opa_mgmt.port_status_vl.rcv_bubble", "rcv_bubble", base.DEC, nil, nil, "of this VL")},
  {"mark_fecn", 96, 8, ProtoField.uint64("opa_mgmt.port_status_vl.mark_fecn", "mark_fecn", base.DEC, nil, nil, "of this VL")},
  {"xmit_discards", 104, 8, ProtoField.uint64("opa_mgmt.port_status_vl.xmit_discards", "xmit_discards", base.DEC, nil, nil, "of this VL")},
}}
attributes.pm_clear_port_status = {title = "ClearPortStatus", size = 36, rows = {
  {"port_mask", 0, 32, ProtoField.bytes("opa_mgmt.pm_clear_port_status.port_mask", "port_mask", base.NONE, "ports: bit n is port n")},
  {"counter_mask", 32, 4, ProtoField.uint32("opa_mgmt.pm_clear_port_status.counter_mask", "counter_mask", base.HEX, nil, nil, "counters: bit 31 is xmit_data, the others follow downwards")},
}}
attributes.pm_port_counters_request = {title = "DataPortCounters request", size = 40, rows = {
  {"port_mask", 0, 32, ProtoField.bytes("opa_mgmt.pm_port_counters_request.port_mask", "port_mask", base.NONE, "ports: bit n is port n")},
  {"vl_mask", 32, 4, ProtoField.uint32("opa_mgmt.pm_port_counters_request.vl_mask", "vl_mask", base.HEX, nil, nil, "VLs: bit n is VL n")},
  {"reserved_36", 36, 3, ProtoField.bytes("opa_mgmt.pm_port_counters_request.reserved_36", "reserved_36", base.NONE, "0")},
  {"resolutions", 39, 1, ProtoField.uint8("opa_mgmt.pm_port_counters_request.resolutions", "resolutions", base.HEX, nil, nil, "how far two errors are shifted down in the sum; DataPortCounters only")},
}}
attributes.data_port_counters_port = {title = "DataPortCountersPort", size = 136, rows = {
  {"port_num", 0, 1, ProtoField.uint8("opa_mgmt.data_port_counters_port.port_num", "port_num", base.DEC, nil, nil, "number of the port")},
  {"reserved_1", 1, 3, ProtoField.bytes("opa_mgmt.data_port_counters_port.reserved_1", "reserved_1", base.NONE, "0")},
  {"link_quality", 4, 4, ProtoField.uint32("opa_mgmt.data_port_counters_port.link_quality", "link_quality", base.DEC, nil, nil, "link quality: 5 excellent, 4 very good, 3 good, 2 poor, 1 bad, 0 down")},
  {"xmit_data", 8, 8, ProtoField.uint64("opa_mgmt.data_port_counters_port.xmit_data", "xmit_data", base.DEC, nil, nil, "flits of 8 bytes sent")},
  {"rcv_data", 16, 8, ProtoField.uint64("opa_mgmt.data_port_counters_port.rcv_data", "rcv_data", base.DEC, nil, nil, "flits of 8 bytes received")},
  {"xmit_pkts", 24, 8, ProtoField.uint64("opa_mgmt.data_port_counters_port.xmit_pkts", "xmit_pkts", base.DEC, nil, nil, "packets sent")},
  {"rcv_pkts", 32, 8, ProtoField.uint64("opa_mgmt.data_port_counters_port.rcv_pkts", "rcv_pkts", base.DEC, nil, nil, "packets received")},
  {"multicast_xmit_pkts", 40, 8, ProtoField.uint64("opa_mgmt.data_port_counters_port.multicast_xmit_pkts", "multicast_xmit_pkts", base.DEC, nil, nil, "packets sent to groups")},
  {"multicast_rcv_pkts", 48, 8, ProtoField.uint64("opa_mgmt.data_port_counters_port.multicast_rcv_pkts", "multicast_rcv_pkts", base.DEC, nil, nil, "packets received for groups")},
  {"xmit_wait", 56, 8, ProtoField.uint64("opa_mgmt.data_port_counters_port.xmit_wait", "xmit_wait", base.DEC, nil, nil, "flit times in which a packet waited and nothing of its VL was sent")},
  {"sw_congestion", 64, 8, ProtoField.uint64("opa_mgmt.data_port_counters_port.sw_congestion", "sw_congestion", base.DEC, nil, nil, "packets of a switch dropped because the queue was full")},
  {"rcv_fecn", 72, 8, ProtoField.uint64("opa_mgmt.data_port_counters_port.rcv_fecn", "rcv_fecn", base.DEC, nil, nil, "packets received with FECN")},
  {"rcv_becn", 80, 8, ProtoField.uint64("opa_mgmt.data_port_counters_port.rcv_becn", "rcv_becn", base.DEC, nil, nil, "packets received with BECN")},
  {"xmit_time_cong", 88, 8, ProtoField.uint64("opa_mgmt.data_port_counters_port.xmit_time_cong", "xmit_time_cong", base.DEC, nil, nil, "always 0 here")},
  {"xmit_wasted_bw", 96, 8, ProtoField.uint64("opa_mgmt.data_port_counters_port.xmit_wasted_bw", "xmit_wasted_bw", base.DEC, nil, nil, "always 0 here")},
  {"xmit_wait_data", 104, 8, ProtoField.uint64("opa_mgmt.data_port_counters_port.xmit_wait_data", "xmit_wait_data", base.DEC, nil, nil, "always 0 here")},
  {"rcv_bubble", 112, 8, ProtoField.uint64("opa_mgmt.data_port_counters_port.rcv_bubble", "rcv_bubble", base.DEC, nil, nil, "always 0 here")},
  {"mark_fecn", 120, 8, ProtoField.uint64("opa_mgmt.data_port_counters_port.mark_fecn", "mark_fecn", base.DEC, nil, nil, "packets that a switch marked with FECN as it sent them")},
  {"error_summary", 128, 8, ProtoField.uint64("opa_mgmt.data_port_counters_port.error_summary", "error_summary", base.DEC, nil, nil, "sum of all error counters, some of them shifted by the resolutions")},
}}
attributes.data_port_counters_vl = {title = "DataPortCountersVl", size = 104, rows = {
  {"xmit_data", 0, 8, ProtoField.uint64("opa_mgmt.data_port_counters_vl.xmit_data", "xmit_data", base.DEC, nil, nil, "of this VL")},
  {"rcv_data", 8, 8, ProtoField.uint64("opa_mgmt.data_port_counters_vl.rcv_data", "rcv_data", base.DEC, nil, nil, "of this VL")},
  {"xmit_pkts", 16, 8, ProtoField.uint64("opa_mgmt.data_port_counters_vl.xmit_pkts", "xmit_pkts", base.DEC, nil, nil, "of this VL")},
  {"rcv_pkts", 24, 8, ProtoField.uint64("opa_mgmt.data_port_counters_vl.rcv_pkts", "rcv_pkts", base.DEC, nil, nil, "of this VL")},
  {"xmit_wait", 32, 8, ProtoField.uint64("opa_mgmt.data_port_counters_vl.xmit_wait", "xmit_wait", base.DEC, nil, nil, "of this VL")},
  {"sw_congestion", 40, 8, ProtoField.uint64("opa_mgmt.data_port_counters_vl.sw_congestion", "sw_congestion", base.DEC, nil, nil, "of this VL")},
  {"rcv_fecn", 48, 8, ProtoField.uint64("opa_mgmt.data_port_counters_vl.rcv_fecn", "rcv_fecn", base.DEC, nil, nil, "of this VL")},
  {"rcv_becn", 56, 8, ProtoField.uint64("opa_mgmt.data_port_counters_vl.rcv_becn", "rcv_becn", base.DEC, nil, nil, "of this VL")},
  {"xmit_time_cong", 64, 8, ProtoField.uint64("opa_mgmt.data_port_counters_vl.xmit_time_cong", "xmit_time_cong", base.DEC, nil, nil, "of this VL")},
  {"xmit_wasted_bw", 72, 8, ProtoField.uint64("opa_mgmt.data_port_counters_vl.xmit_wasted_bw", "xmit_wasted_bw", base.DEC, nil, nil, "of this VL")},
  {"xmit_wait_data", 80, 8, ProtoField.uint64("opa_mgmt.data_port_counters_vl.xmit_wait_data", "xmit_wait_data", base.DEC, nil, nil, "of this VL")},
  {"rcv_bubble", 88, 8, ProtoField.uint64("opa_mgmt.data_port_counters_vl.rcv_bubble", "rcv_bubble", base.DEC, nil, nil, "of this VL")},
  {"mark_fecn", 96, 8, ProtoField.uint64("opa_mgmt.data_port_counters_vl.mark_fecn", "mark_fecn", base.DEC, nil, nil, "of this VL")},
}}
attributes.error_port_counters_port = {title = "ErrorPortCountersPort", size = 96, rows = {
  {"port_num", 0, 1, ProtoField.uint8("opa_mgmt.error_port_counters_port.port_num", "port_num", base.DEC, nil, nil, "number of the port")},
  {"reserved_1", 1, 7, ProtoField.bytes("opa_mgmt.error_port_counters_port.reserved_1", "reserved_1", base.NONE, "0")},
  {"rcv_constraint_errors", 8, 8, ProtoField.uint64("opa_mgmt.error_port_counters_port.rcv_constraint_errors", "rcv_constraint_errors", base.DEC, nil, nil, "packets received with a P_Key that does not fit")},
  {"rcv_switch_relay_errors", 16, 8, ProtoField.uint64("opa_mgmt.error_port_counters_port.rcv_switch_relay_errors", "rcv_switch_relay_errors", base.DEC, nil, nil, "packets that a switch received and had no way for")},
  {"xmit_discards", 24, 8, ProtoField.uint64("opa_mgmt.error_port_counters_port.xmit_discards", "xmit_discards", base.DEC, nil, nil, "packets not sent: port or link down, queue full, longer than the MTU")},
  {"xmit_constraint_errors", 32, 8, ProtoField.uint64("opa_mgmt.error_port_counters_port.xmit_constraint_errors", "xmit_constraint_errors", base.DEC, nil, nil, "packets not sent for their P_Key or SLID")},
  {"rcv_remote_physical_errors", 40, 8, ProtoField.uint64("opa_mgmt.error_port_counters_port.rcv_remote_physical_errors", "rcv_remote_physical_errors", base.DEC, nil, nil, "always 0 here")},
  {"local_link_integrity_errors", 48, 8, ProtoField.uint64("opa_mgmt.error_port_counters_port.local_link_integrity_errors", "local_link_integrity_errors", base.DEC, nil, nil, "packets damaged or lost on the wire on their way here")},
  {"rcv_errors", 56, 8, ProtoField.uint64("opa_mgmt.error_port_counters_port.rcv_errors", "rcv_errors", base.DEC, nil, nil, "packets received that are malformed, damaged, or not for this port")},
  {"excessive_buffer_overruns", 64, 8, ProtoField.uint64("opa_mgmt.error_port_counters_port.excessive_buffer_overruns", "excessive_buffer_overruns", base.DEC, nil, nil, "packets received for which the buffer had no room")},
  {"fm_config_errors", 72, 8, ProtoField.uint64("opa_mgmt.error_port_counters_port.fm_config_errors", "fm_config_errors", base.DEC, nil, nil, "always 0 here")},
  {"link_error_recovery", 80, 4, ProtoField.uint32("opa_mgmt.error_port_counters_port.link_error_recovery", "link_error_recovery", base.DEC, nil, nil, "always 0 here")},
  {"link_downed", 84, 4, ProtoField.uint32("opa_mgmt.error_port_counters_port.link_downed", "link_downed", base.DEC, nil, nil, "how often the link went down")},
  {"uncorrectable_errors", 88, 1, ProtoField.uint8("opa_mgmt.error_port_counters_port.uncorrectable_errors", "uncorrectable_errors", base.DEC, nil, nil, "always 0 here")},
  {"reserved_89", 89, 7, ProtoField.bytes("opa_mgmt.error_port_counters_port.reserved_89", "reserved_89", base.NONE, "0")},
}}
attributes.error_port_counters_vl = {title = "ErrorPortCountersVl", size = 8, rows = {
  {"xmit_discards", 0, 8, ProtoField.uint64("opa_mgmt.error_port_counters_vl.xmit_discards", "xmit_discards", base.DEC, nil, nil, "of this VL")},
}}
attributes.pm_error_info_request = {title = "ErrorInfo request", size = 40, rows = {
  {"port_mask", 0, 32, ProtoField.bytes("opa_mgmt.pm_error_info_request.port_mask", "port_mask", base.NONE, "ports: bit n is port n")},
  {"info_mask", 32, 4, ProtoField.uint32("opa_mgmt.pm_error_info_request.info_mask", "info_mask", base.HEX, nil, nil, "bits 31 to 25: in the order of the block")},
  {"reserved_36", 36, 4, ProtoField.bytes("opa_mgmt.pm_error_info_request.reserved_36", "reserved_36", base.NONE, "0")},
}}
attributes.pm_error_info = {title = "ErrorInfo", size = 72, rows = {
  {"port_num", 0, 1, ProtoField.uint8("opa_mgmt.pm_error_info.port_num", "port_num", base.DEC, nil, nil, "number of the port")},
  {"reserved_1", 1, 7, ProtoField.bytes("opa_mgmt.pm_error_info.reserved_1", "reserved_1", base.NONE, "0")},
  {"rcv_status", 8, 1, ProtoField.uint8("opa_mgmt.pm_error_info.rcv_status", "rcv_status", base.HEX, nil, nil, "PortRcvErrorInfo")},
  {"rcv_flit_1", 9, 8, ProtoField.bytes("opa_mgmt.pm_error_info.rcv_flit_1", "rcv_flit_1", base.NONE, "the packet's first 8 bytes")},
  {"rcv_flit_2", 17, 8, ProtoField.bytes("opa_mgmt.pm_error_info.rcv_flit_2", "rcv_flit_2", base.NONE, "the packet's next 8 bytes")},
  {"rcv_flit_bits", 25, 1, ProtoField.uint8("opa_mgmt.pm_error_info.rcv_flit_bits", "rcv_flit_bits", base.HEX, nil, nil, "bits 64 of both flits; 0 here")},
  {"reserved_26", 26, 6, ProtoField.bytes("opa_mgmt.pm_error_info.reserved_26", "reserved_26", base.NONE, "0")},
  {"overrun_status", 32, 1, ProtoField.uint8("opa_mgmt.pm_error_info.overrun_status", "overrun_status", base.HEX, nil, nil, "ExcessiveBufferOverrunInfo")},
  {"reserved_33", 33, 7, ProtoField.bytes("opa_mgmt.pm_error_info.reserved_33", "reserved_33", base.NONE, "0")},
  {"xmit_constraint_status", 40, 1, ProtoField.uint8("opa_mgmt.pm_error_info.xmit_constraint_status", "xmit_constraint_status", base.HEX, nil, nil, "PortXmitConstraintErrorInfo")},
  {"reserved_41", 41, 1, ProtoField.bytes("opa_mgmt.pm_error_info.reserved_41", "reserved_41", base.NONE, "0")},
  {"xmit_constraint_pkey", 42, 2, ProtoField.uint16("opa_mgmt.pm_error_info.xmit_constraint_pkey", "xmit_constraint_pkey", base.HEX, nil, nil, "the packet's P_Key")},
  {"xmit_constraint_slid", 44, 4, ProtoField.uint32("opa_mgmt.pm_error_info.xmit_constraint_slid", "xmit_constraint_slid", base.HEX, nil, nil, "the packet's SLID")},
  {"rcv_constraint_status", 48, 1, ProtoField.uint8("opa_mgmt.pm_error_info.rcv_constraint_status", "rcv_constraint_status", base.HEX, nil, nil, "PortRcvConstraintErrorInfo")},
  {"reserved_49", 49, 1, ProtoField.bytes("opa_mgmt.pm_error_info.reserved_49", "reserved_49", base.NONE, "0")},
  {"rcv_constraint_pkey", 50, 2, ProtoField.uint16("opa_mgmt.pm_error_info.rcv_constraint_pkey", "rcv_constraint_pkey", base.HEX, nil, nil, "the packet's P_Key")},
  {"rcv_constraint_slid", 52, 4, ProtoField.uint32("opa_mgmt.pm_error_info.rcv_constraint_slid", "rcv_constraint_slid", base.HEX, nil, nil, "the packet's SLID")},
  {"relay_status", 56, 1, ProtoField.uint8("opa_mgmt.pm_error_info.relay_status", "relay_status", base.HEX, nil, nil, "PortRcvSwitchRelayErrorInfo")},
  {"relay_slid", 57, 3, ProtoField.uint24("opa_mgmt.pm_error_info.relay_slid", "relay_slid", base.HEX, nil, nil, "the packet's SLID")},
  {"relay_sc", 60, 1, ProtoField.uint8("opa_mgmt.pm_error_info.relay_sc", "relay_sc", base.DEC, nil, nil, "the packet's service channel")},
  {"relay_dlid", 61, 3, ProtoField.uint24("opa_mgmt.pm_error_info.relay_dlid", "relay_dlid", base.HEX, nil, nil, "the packet's DLID")},
  {"uncorrectable_status", 64, 1, ProtoField.uint8("opa_mgmt.pm_error_info.uncorrectable_status", "uncorrectable_status", base.HEX, nil, nil, "UncorrectableErrorInfo; 0 here")},
  {"reserved_65", 65, 1, ProtoField.bytes("opa_mgmt.pm_error_info.reserved_65", "reserved_65", base.NONE, "0")},
  {"fm_config_status", 66, 1, ProtoField.uint8("opa_mgmt.pm_error_info.fm_config_status", "fm_config_status", base.HEX, nil, nil, "FMConfigErrorInfo; 0 here")},
  {"fm_config_info", 67, 1, ProtoField.uint8("opa_mgmt.pm_error_info.fm_config_info", "fm_config_info", base.HEX, nil, nil, "0 here")},
  {"reserved_68", 68, 4, ProtoField.bytes("opa_mgmt.pm_error_info.reserved_68", "reserved_68", base.NONE, "0")},
}}
local SUBNET = {
  [0x02] = {attributes.sm_notice, 96},
  [0x10] = {attributes.node_description, 64},
  [0x11] = {attributes.node_info, 44},
  [0x12] = {attributes.switch_info, 84},
  [0x15] = {attributes.port_info, 248},
  [0x16] = {attributes.partition_table, 64},
  [0x17] = {attributes.sl_to_sc, 32},
  [0x18] = {attributes.vl_arb, 256},
  [0x19] = {attributes.lft, 64},
  [0x1B] = {attributes.mft, 64},
  [0x20] = {attributes.sm_info, 26},
  [0x31] = {attributes.led_info, 8},
  [0x81] = {attributes.sc_to_sc, 32},
  [0x94] = {attributes.sc_to_sc_multi_set, 96},
  [0x82] = {attributes.sc_to_sl, 32},
  [0x83] = {attributes.sc_to_vl, 32},
  [0x84] = {attributes.sc_to_vl, 32},
  [0x85] = {attributes.sc_to_vl, 32},
  [0x87] = {attributes.port_state_info, 8},
  [0x8A] = {attributes.buffer_control, 136},
  [0x8B] = {attributes.congestion_info, 4},
  [0x8D] = {attributes.switch_congestion_setting, 76},
  [0x90] = {attributes.hfi_congestion_setting, 198},
  [0x91] = {attributes.hfi_congestion_control, 130},
}
local SUBNET_IB = {
  [0x11] = {attributes.ib_node_info, 40},
}
local ADMINISTRATION = {
  [0x02] = {attributes.sm_notice, 96},
  [0x01] = {attributes.sa_class_port_info, 80},
  [0x03] = {attributes.inform_info, 40},
  [0x11] = {attributes.node_record, 116},
  [0x12] = {attributes.port_info_record, 378},
  [0x14] = {attributes.switch_info_record, 92},
  [0x15] = {attributes.linear_forwarding_table_record, 72},
  [0x17] = {attributes.multicast_forwarding_table_record, 72},
  [0x18] = {attributes.sm_info_record, 34},
  [0x20] = {attributes.link_record, 12},
  [0x31] = {attributes.service_record, 184},
  [0x33] = {attributes.p_key_table_record, 72},
  [0x35] = {attributes.ib_path_record, 64},
  [0x36] = {attributes.vl_arbitration_table_record, 264},
  [0x13] = {attributes.sc_to_sc_record, 40},
  [0x8C] = {attributes.buffer_control_table_record, 140},
  [0x88] = {attributes.cable_info_record, 72},
  [0x91] = {attributes.congestion_info_record, 12},
  [0x92] = {attributes.switch_congestion_record, 84},
  [0x93] = {attributes.switch_port_congestion_record, 12},
  [0x94] = {attributes.hfi_congestion_record, 206},
  [0x95] = {attributes.hfi_congestion_control_record, 138},
  [0x38] = {attributes.mc_member_record, 56},
  [0x39] = {attributes.trace_record, 40},
  [0x80] = {attributes.sl_to_sc_record, 40},
  [0x81] = {attributes.sl_to_sc_record, 40},
  [0x82] = {attributes.sc_to_vl_record, 40},
  [0x83] = {attributes.sc_to_vl_record, 40},
  [0x84] = {attributes.sc_to_vl_record, 40},
  [0x89] = {attributes.vf_info_record, 128},
  [0x8D] = {attributes.fabric_info_record, 408},
  [0xF3] = {attributes.inform_info_record, 48},
}
local ADMINISTRATION_IB = {
  [0x01] = {attributes.ib_class_port_info, 72},
  [0x02] = {attributes.ib_notice, 80},
  [0x03] = {attributes.ib_inform_info, 36},
  [0x11] = {attributes.ib_node_record, 108},
  [0x31] = {attributes.ib_service_record, 176},
  [0x35] = {attributes.ib_path_record, 64},
  [0x38] = {attributes.ib_mc_member_record, 52},
  [0xF3] = {attributes.ib_inform_info_record, 60},
}
local COUNTERS = {
  [0x01] = {question = attributes.sa_class_port_info, head = attributes.sa_class_port_info},
  [0x40] = {question = attributes.pm_port_status_request, head = attributes.port_status, vl = attributes.port_status_vl, vl_mask = 4},
  [0x41] = {question = attributes.pm_clear_port_status, head = attributes.pm_clear_port_status, port_mask = 0},
  [0x42] = {question = attributes.pm_port_counters_request, head = attributes.pm_port_counters_request, port = attributes.data_port_counters_port, vl = attributes.data_port_counters_vl, port_mask = 0, vl_mask = 32},
  [0x43] = {question = attributes.pm_port_counters_request, head = attributes.pm_port_counters_request, port = attributes.error_port_counters_port, vl = attributes.error_port_counters_vl, port_mask = 0, vl_mask = 32},
  [0x44] = {question = attributes.pm_error_info_request, head = attributes.pm_error_info_request, port = attributes.pm_error_info, port_mask = 0},
}
-- end of generated

-- Where the data of a class begin, in MADs of base version 0x80 and 1
local SUBN_LID, SUBN_ADM, SUBN_DIRECTED = 0x01, 0x03, 0x81
local BASE_VERSION_IB = 1
local MAD_HEADER = 24
local IB_DATA, IB_DATA_END = 64, 128
local AGGREGATE = 0x80
local AGGREGATE_HEADER = 8
local SA_DATA = MAD_HEADER + attributes.rmpp.size + attributes.sa_header.size
local RMPP_DATA, RMPP_LAST = 1, 4
local PORT_MASK, VL_MASK = 32, 4
local GET, SET = 0x01, 0x02

-- Fields that the classes have before their data --------------------------------------------------------------------

local data = ProtoField.bytes("opa_mgmt.data", "data", base.SPACE)
local direction = ProtoField.bool("opa_mgmt.direction", "direction", 16, {"back", "forth"}, 0x8000, "of a directed route")
local hop_pointer = ProtoField.uint8("opa_mgmt.hop_pointer", "hop_pointer", base.DEC, nil, nil, "hops done")
local hop_count = ProtoField.uint8("opa_mgmt.hop_count", "hop_count", base.DEC, nil, nil, "hops of the directed route")
local seg_attr = ProtoField.uint16("opa_mgmt.aggregate.attr_id", "attr_id", base.HEX, nil, nil, "attribute of a part of an Aggregate")
local seg_error = ProtoField.bool("opa_mgmt.aggregate.error", "error", 16, nil, 0x8000, "this part has failed")
local seg_length = ProtoField.uint16("opa_mgmt.aggregate.length", "length", base.DEC, nil, 0x7F, "of its data, in units of 8 bytes")
local seg_mod = ProtoField.uint32("opa_mgmt.aggregate.attr_mod", "attr_mod", base.HEX, nil, nil, "modifier of a part of an Aggregate")
mgmt.fields = {
  data, direction, hop_pointer, hop_count,
  seg_attr, seg_error, seg_length, seg_mod,
}
for _, attribute in pairs(attributes) do
  for _, row in ipairs(attribute.rows) do
    table.insert(mgmt.fields, row[4])
  end
end
local truncated = ProtoExpert.new("opa_mgmt.truncated", "Truncated", expert.group.MALFORMED, expert.severity.ERROR)
mgmt.experts = {truncated}

-- Attributes --------------------------------------------------------------------------------------------------------

-- Adds the rows of an attribute that begins at byte `start`; all of it is there.
local function add_rows(branch, attribute, buffer, start)
  for _, row in ipairs(attribute.rows) do
    for index = 1, row.count or 1 do
      local range = buffer(start + row[2] + (index - 1) * row[3], row[3])
      local item = branch:add(row[4], range)
      if row.count then
        item:append_text(string.format(" [%d]", index - 1))
      end
      if row.of then
        add_rows(item, row.of, buffer, range:offset())
      end
    end
  end
end

-- Adds a header that is an attribute to this dissector.
local function add_header(branch, header, buffer, start)
  add_rows(branch:add(buffer(start, header.size), header.title), header, buffer, start)
end

-- Adds a line for bytes without a meaning.
local function add_rest(branch, buffer, from, to)
  if from < to then
    local rest = buffer(from, to - from)
    local zero = rest:raw():find("[^%z]") == nil
    branch:add(rest, string.format("Not used: %d bytes%s", rest:len(), zero and ", all zero" or ""))
  end
end

-- Adds `wanted` attributes of a kind {attribute, stride} between two bytes.
local function add_attributes(branch, kind, buffer, from, to, wanted)
  local attribute, stride, at = kind[1], kind[2], from
  for index = 1, wanted do
    if at + attribute.size > to then
      branch:add_proto_expert_info(truncated, string.format("%d of %d are there", index - 1, wanted))
      break
    end
    local number = wanted > 1 and string.format(" [%d]", index - 1) or ""
    add_rows(branch:add(buffer(at, attribute.size), attribute.title .. number), attribute, buffer, at)
    at = at + stride
  end
  add_rest(branch, buffer, math.min(at, to), to)
end

-- Subnet management -------------------------------------------------------------------------------------------------

-- Adds one attribute of subnet management, or what it holds room for in a Get.
local function add_subnet_attribute(branch, kinds, buffer, from, to, read)
  if read.id == AGGREGATE then
    local at = from
    for index = 1, read.mod % 0x100 do
      if at + AGGREGATE_HEADER > to then
        branch:add_proto_expert_info(truncated, string.format("%d of %d parts are there", index - 1, read.mod % 0x100))
        return
      end
      local id, length = buffer(at, 2):uint(), buffer(at + 2, 2):uint() % 0x80 * 8
      local ending = math.min(at + AGGREGATE_HEADER + length, to)
      local title = SUBNET[id] and SUBNET[id][1].title or string.format("attribute 0x%04x", id)
      local part = branch:add(buffer(at, ending - at), string.format("Part %d: %s", index - 1, title))
      part:add(seg_attr, buffer(at, 2))
      part:add(seg_error, buffer(at + 2, 2))
      part:add(seg_length, buffer(at + 2, 2))
      part:add(seg_mod, buffer(at + 4, 4))
      if id ~= AGGREGATE then
        local inner = {id = id, mod = buffer(at + 4, 4):uint(), method = read.method, status = buffer(at + 2, 1):uint() - buffer(at + 2, 1):uint() % 0x80}
        add_subnet_attribute(part, kinds, buffer, at + AGGREGATE_HEADER, ending, inner)
      end
      at = ending
    end
    add_rest(branch, buffer, at, to)
  elseif read.method == GET or read.method >= 0x80 and read.status ~= 0 then
    add_rest(branch, buffer, from, to)
  elseif kinds[read.id] then
    add_attributes(branch, kinds[read.id], buffer, from, to, math.max(1, math.floor(read.mod / 0x1000000)))
  elseif from < to then
    branch:add(data, buffer(from, to - from))
  end
end

local function add_subnet(branch, buffer, read)
  local directed, is_ib = read.class == SUBN_DIRECTED, read.base_version == BASE_VERSION_IB
  local before = directed and (is_ib and attributes.smp_directed_ib or attributes.smp_directed) or attributes.smp
  local from, to = is_ib and IB_DATA or MAD_HEADER + before.size, is_ib and IB_DATA_END or buffer:len()
  if buffer:len() < math.max(MAD_HEADER + before.size, from) or buffer:len() < to then
    branch:add_proto_expert_info(truncated, "No room for the header of the class")
    return
  end
  if directed then
    branch:add(direction, buffer(4, 2))
    branch:add(hop_pointer, buffer(6, 1))
    branch:add(hop_count, buffer(7, 1))
  end
  add_header(branch, before, buffer, MAD_HEADER)
  add_subnet_attribute(branch, is_ib and SUBNET_IB or SUBNET, buffer, from, to, read)
end

-- Subnet administration -------------------------------------------------------------------------------------------

-- Adds the records of one segment of a table: the first may have begun in the segment before.
local function add_table(branch, kind, buffer, from, to, stride, segment)
  local before = (segment - 1) * (buffer:len() - SA_DATA)
  local ahead = math.min((stride - before % stride) % stride, to - from)
  if ahead > 0 then
    branch:add(data, buffer(from, ahead)):append_text(" (the end of a record of the segment before)")
  end
  local at = from + ahead
  while at + kind[1].size <= to do
    local number = math.floor((before + at - from) / stride)
    add_rows(branch:add(buffer(at, kind[1].size), string.format("%s [%d]", kind[1].title, number)), kind[1], buffer, at)
    at = at + stride
  end
  if at < to then
    branch:add(data, buffer(at, to - at)):append_text(" (a record goes on in the next segment)")
  end
end

local function add_administration(branch, buffer, read)
  if buffer:len() < SA_DATA then
    branch:add_proto_expert_info(truncated, "No room for RMPP and SA header")
    return
  end
  add_header(branch, attributes.rmpp, buffer, MAD_HEADER)
  local kind, active = buffer(25, 1):uint(), buffer(26, 1):uint() % 2 == 1
  local segment, length = buffer(28, 4):uint(), buffer(32, 4):uint()
  if active and kind ~= RMPP_DATA then
    add_rest(branch, buffer, 36, buffer:len())
    return
  end
  add_header(branch, attributes.sa_header, buffer, MAD_HEADER + attributes.rmpp.size)
  local kinds = read.class_version >= 0x80 and ADMINISTRATION or ADMINISTRATION_IB
  local record, stride, to = kinds[read.id], buffer(44, 2):uint() * 8, buffer:len()
  local names_components = buffer(48, 8):raw():find("[^%z]") ~= nil
  local has_record = read.status == 0 and (read.method >= 0x80 or read.method == SET or names_components)
  if active and math.floor(buffer(26, 1):uint() / RMPP_LAST) % 2 == 1 then
    to = math.max(SA_DATA, math.min(to, 36 + length))
  end
  if not record then
    branch:add(data, buffer(SA_DATA, to - SA_DATA))
  elseif read.method >= 0x80 and active then
    if stride < record[1].size then
      add_rest(branch, buffer, SA_DATA, to)
    else
      add_table(branch, record, buffer, SA_DATA, to, stride, math.max(segment, 1))
    end
  elseif has_record then
    add_attributes(branch, record, buffer, SA_DATA, to, 1)
  else
    add_rest(branch, buffer, SA_DATA, to)
  end
  add_rest(branch, buffer, to, buffer:len())
end

-- Performance management ------------------------------------------------------------------------------------------

-- Returns how many bits of some bytes are set.
local function ones(range)
  local count = 0
  for _, byte in ipairs({range:raw():byte(1, -1)}) do
    while byte > 0 do
      count, byte = count + byte % 2, math.floor(byte / 2)
    end
  end
  return count
end

-- Adds a head, and for each port of its mask a block and one for each VL of its mask.
local function add_performance(branch, buffer, read)
  local kind = COUNTERS[read.id]
  local is_response = read.method >= 0x80
  if not kind or read.base_version == BASE_VERSION_IB then
    branch:add(data, buffer(MAD_HEADER))
    return
  elseif is_response and read.status ~= 0 then
    add_rest(branch, buffer, MAD_HEADER, buffer:len())
    return
  end
  local head, at = is_response and kind.head or kind.question, MAD_HEADER
  if at + head.size > buffer:len() then
    if is_response then
      branch:add_proto_expert_info(truncated, "No room for the attribute")
    else  -- a short question: zeros follow
      branch:add(data, buffer(at))
    end
    return
  end
  add_header(branch, head, buffer, at)
  at = at + head.size
  if is_response and (kind.port or kind.vl) then
    local ports = kind.port and ones(buffer(MAD_HEADER + kind.port_mask, PORT_MASK)) or 1
    local vls = kind.vl and ones(buffer(MAD_HEADER + kind.vl_mask, VL_MASK)) or 0
    for _ = 1, ports do
      for vl = kind.port and 0 or 1, vls do
        local block = vl == 0 and kind.port or kind.vl
        if at + block.size > buffer:len() then
          branch:add_proto_expert_info(truncated, "Blocks of ports are missing")
          return
        end
        add_header(branch, block, buffer, at)
        at = at + block.size
      end
    end
  end
  add_rest(branch, buffer, at, buffer:len())
end

-- The rest of a MAD behind its header -------------------------------------------------------------------------------

function mgmt.dissector(buffer, packet, tree)
  local branch = tree:add(mgmt, buffer(math.min(MAD_HEADER, buffer:len())))
  local read = {
    base_version = buffer(0, 1):uint(), class = buffer(1, 1):uint(), class_version = buffer(2, 1):uint(),
    method = buffer(3, 1):uint(), status = buffer(4, 2):uint(), id = buffer(16, 2):uint(), mod = buffer(20, 4):uint(),
  }
  if read.class == SUBN_DIRECTED or read.class == SUBN_LID then
    read.status = read.status % 0x8000
    packet.cols.protocol:set("OPA SM")
    branch:set_text("Subnet management")
    add_subnet(branch, buffer, read)
  elseif read.class == SUBN_ADM then
    packet.cols.protocol:set("OPA SA")
    branch:set_text("Subnet administration")
    add_administration(branch, buffer, read)
  elseif buffer:len() > MAD_HEADER then
    packet.cols.protocol:set("OPA PM")
    branch:set_text("Performance management")
    add_performance(branch, buffer, read)
  end
  return buffer:len()
end
