-- Management datagrams on the fabric, below opa16b.lua: the header of every MAD, and the attributes of the Ethernet
-- management agent (class 0x34, OUI 00066a) field by field.
--
-- A row of a declaration is name, bytes, base and meaning, in the order of the wire and with the names and meanings of
-- docs/ema-attributes.md. `names` are for values of a number, `bits` are parts of it, `count` repeats it.

local ema = Proto("ema", "OPA EMA")

local BYTES, MAC = "bytes", "mac"
local HEX, DEC = base.HEX, base.DEC
-- generated: codes (made by `make generated` from hfi_sim/mad/attributes.py, hfi_sim/mad/header.py; do not edit)
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
  SM_INFO = 0x20,
}
local SUBNET_ATTR_ID_NAMES = {
  [0x02] = "Notice",
  [0x10] = "NodeDescription",
  [0x11] = "NodeInfo",
  [0x12] = "SwitchInfo",
  [0x15] = "PortInfo",
  [0x16] = "PartitionTable",
  [0x20] = "SMInfo",
}
local COMMON_ATTR_ID = {
  CLASS_PORT_INFO = 0x01,
  NOTICE = 0x02,
}
local COMMON_ATTR_ID_NAMES = {
  [0x01] = "ClassPortInfo",
  [0x02] = "Notice",
}
-- end of generated

local STATES = {[1] = "dropping all", [3] = "forwarding"}
local LINK_STATUS = {[0] = "no such vport", [1] = "up", [2] = "down"}
local OPCODES = {[1] = "unicast list changed", [2] = "multicast list changed", [3] = "link status changed"}

-- Headers ---------------------------------------------------------------------------------------------------------

-- A row of these is name, first byte, bytes, field.
-- generated: headers (made by `make generated` from hfi_sim/mad/header.py; do not edit)
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

local CLASS_PORT_INFO = {
  {"base_version", 1, HEX, "0x80"},
  {"class_version", 1, HEX, "0x80"},
  {"cap_mask", 2, HEX, "bit 0: sends traps; bits 8-15: vports, 255", bits = {{"traps", 0x0001}, {"vports", 0xFF00}}},
  {"cap_mask2_resp_time", 4, HEX, "response time, 4.096 us * 2**18"},
  {"redirect_gid", 16, BYTES, "redirection GID; not used"},
  {"redirect_tc_fl", 4, HEX, "redirection traffic class and flow label; not used"},
  {"redirect_lid", 4, HEX, "redirection LID; not used"},
  {"redirect_sl_qp", 4, HEX, "redirection SL and queue pair; not used"},
  {"redirect_qkey", 4, HEX, "redirection Q_Key; not used"},
  {"trap_gid", 16, BYTES, "GID of the trap sink; not used"},
  {"trap_tc_fl", 4, HEX, "traffic class and flow label of traps; not used"},
  {"trap_lid", 4, HEX, "LID of the trap sink; 0: send no traps"},
  {"trap_hl_qp", 4, HEX, "hop limit and queue pair of traps; not used, it is QP 1"},
  {"trap_qkey", 4, HEX, "Q_Key of traps; not used"},
  {"trap_pkey", 2, HEX, "P_Key of traps; not used, it is the port's management P_Key"},
  {"redirect_pkey", 2, HEX, "redirection P_Key; not used"},
  {"trap_sl_rsvd", 1, HEX, "bits 3-7: service level of traps; bits 0-2 kept", bits = {{"trap_sl", 0xF8}}},
  {"reserved_77", 3, BYTES, "reserved"},
}
local RC_BITS = {
  {"default", 0x00000007},
  {"ipv4", 0x00000070},
  {"ipv4_udp", 0x00000700},
  {"ipv4_tcp", 0x00007000},
  {"ipv6", 0x00070000},
  {"ipv6_tcp", 0x00700000},
  {"ipv6_udp", 0x07000000},
}
local VESW_PORT_INFO = {
  {"fabric_id", 2, HEX, "fabric id, 10 bits used in MAC addresses"},
  {"vesw_id", 2, DEC, "virtual Ethernet switch, 12 bits; 0: on none"},
  {"reserved_4", 6, BYTES, "reserved"},
  {"def_port_mask", 2, HEX, "which default ports are in use, a bit each"},
  {"reserved_12", 2, BYTES, "reserved"},
  {"pkey", 2, HEX, "partition key of the packets"},
  {"reserved_16", 4, BYTES, "reserved"},
  {"u_mcast_dlid", 4, HEX, "LID for multicast and broadcast frames"},
  {"u_ucast_dlid", 4, HEX, "LID of each default port", count = 16},
  {"rc", 4, HEX, "routing controls: 3 bits from bit 0, 4, ... 24; see RcShift", bits = RC_BITS},
  {"reserved_92", 56, BYTES, "reserved"},
  {"eth_mtu", 2, DEC, "largest MTU, in bytes of Ethernet payload"},
  {"reserved_150", 2, BYTES, "reserved"},
  {"vesw_port_num", 4, DEC, "number of the port on the virtual switch"},
  {"eth_link_status", 1, DEC, "1 up, 2 down, 0 no such vport", names = LINK_STATUS},
  {"reserved_157", 3, BYTES, "reserved"},
  {"base_mac", 6, MAC, "the MAC address that the EM gives"},
  {"config_state", 1, DEC, "3 forwarding; anything else drops all", names = STATES},
  {"oper_state", 1, DEC, "3 forwarding, 1 dropping all", names = STATES},
  {"max_mac_tbl_ent", 2, DEC, "entries of the MAC table, 2048"},
  {"max_smac_ent", 2, DEC, "how many of them may be source entries, 256"},
  {"mac_tbl_digest", 4, HEX, "digest that came with the last MacEntries Set"},
  {"reserved_176", 4, BYTES, "reserved"},
  {"encap_slid", 4, HEX, "source LID of the packets"},
  {"pcp_to_sc_uc", 8, BYTES, "service class of tagged unicast frames, one byte for each PCP"},
  {"pcp_to_vl_uc", 8, BYTES, "virtual lane of tagged unicast frames, one byte for each PCP"},
  {"pcp_to_sc_mc", 8, BYTES, "service class of tagged multicast frames, one byte for each PCP"},
  {"pcp_to_vl_mc", 8, BYTES, "virtual lane of tagged multicast frames, one byte for each PCP"},
  {"non_vlan_sc_uc", 1, DEC, "service class, unicast, of frames without a VLAN tag"},
  {"non_vlan_vl_uc", 1, DEC, "virtual lane, unicast, of frames without a VLAN tag"},
  {"non_vlan_sc_mc", 1, DEC, "service class, multicast, of frames without a VLAN tag"},
  {"non_vlan_vl_mc", 1, DEC, "virtual lane, multicast, of frames without a VLAN tag"},
  {"reserved_220", 48, BYTES, "reserved"},
  {"uc_macs_gen_count", 2, DEC, "changes of the unicast list, modulo 2**16"},
  {"mc_macs_gen_count", 2, DEC, "changes of the multicast list, modulo 2**16"},
  {"reserved_272", 8, BYTES, "reserved"},
}
local MAC_ENTRIES = {
  {"offset", 2, DEC, "index of the first entry, 0 to 2048"},
  {"num_entries", 2, DEC, "number of entries, 0 to 125"},
  {"digest", 4, HEX, "the EM's digest of the whole table; a Get ignores it"},
}
local MAC_ENTRY = {
  {"mac", 6, MAC, "MAC address; all zero removes the entry"},
  {"mask", 6, MAC, "mask of the address; destinations are compared whole"},
  {
    "dlid_sd", 4, HEX, "bits 8-31: LID; bit 5: source entry; others kept",
    bits = {{"dlid", 0xFFFFFF00}, {"source_entry", 0x20}},
  },
}
local IFACE_MACS = {
  {"start", 2, DEC, "index of the first address wanted; echoed"},
  {"num_macs", 2, DEC, "how many are wanted, 0: up to 333; how many are here"},
  {"total", 2, DEC, "addresses in the whole list"},
  {"gen_count", 2, DEC, "changes of the list so far, modulo 2**16"},
}
local IFACE_MAC = {{"macs", 6, MAC, "6 bytes each"}}
local SUMMARY_COUNTERS = {
  {"vport_num", 2, DEC, "number of the vport"},
  {"vesw_id", 2, DEC, "virtual Ethernet switch that it is on now"},
  {"opa_port_num", 4, DEC, "number of the HFI port"},
  {"tx_errors", 8, DEC, "frames not sent: fifo, carrier, state, no destination"},
  {"rx_errors", 8, DEC, "frames not delivered: fifo, no VNIC, state, oversize, runt"},
  {"tx_packets", 8, DEC, "attempts to send"},
  {"rx_packets", 8, DEC, "frames received"},
  {"tx_bytes", 8, DEC, "bytes sent, 4 of FCS each"},
  {"rx_bytes", 8, DEC, "bytes received, 4 of FCS each"},
}
for _, direction in ipairs({{"tx", "sent"}, {"rx", "received"}}) do
  for _, group in ipairs({
    {"unicast", "frames to one station"},
    {"mcastbcast", "frames to many"},
    {"untagged", "frames without a VLAN tag"},
    {"vlan", "frames with a VLAN tag"},
    {"64", "up to 64 bytes, FCS included"},
    {"65_127", "65 to 127 bytes"},
    {"128_255", "128 to 255 bytes"},
    {"256_511", "256 to 511 bytes"},
    {"512_1023", "512 to 1023 bytes"},
    {"1024_1518", "1024 to 1518 bytes"},
    {"1519_max", "1519 bytes and more"},
  }) do
    table.insert(SUMMARY_COUNTERS, {direction[1] .. "_" .. group[1], 8, DEC, direction[2] .. ": " .. group[2]})
  end
end
table.insert(SUMMARY_COUNTERS, {"reserved_232", 128, BYTES, "reserved"})
local ERROR_COUNTERS = {
  {"vport_num", 2, DEC, "number of the vport"},
  {"vesw_id", 2, DEC, "virtual Ethernet switch that it is on now"},
  {"opa_port_num", 4, DEC, "number of the HFI port"},
  {"tx_errors", 8, DEC, "frames not sent, as in SummaryCounters"},
  {"rx_errors", 8, DEC, "frames not delivered, as in SummaryCounters"},
  {"reserved_24", 8, BYTES, "reserved"},
  {"tx_smac_filt", 8, DEC, "source address not in the MAC table's source entries"},
  {"reserved_40", 8, BYTES, "reserved"},
  {"reserved_48", 8, BYTES, "reserved"},
  {"reserved_56", 8, BYTES, "reserved"},
  {"tx_dlid_zero", 8, DEC, "no destination LID"},
  {"reserved_72", 8, BYTES, "reserved"},
  {"tx_logic", 8, DEC, "fifo and carrier errors"},
  {"reserved_88", 8, BYTES, "reserved"},
  {"tx_drop_state", 8, DEC, "sent while not operational"},
  {"rx_bad_veswid", 8, DEC, "for a virtual switch that no VNIC here is on"},
  {"reserved_112", 8, BYTES, "reserved"},
  {"rx_runt", 8, DEC, "frames under 60 bytes"},
  {"rx_oversize", 8, DEC, "frames over MTU + 18 bytes"},
  {"reserved_136", 8, BYTES, "reserved"},
  {"rx_eth_down", 8, DEC, "always 0"},
  {"rx_drop_state", 8, DEC, "received while not operational"},
  {"rx_logic", 8, DEC, "fifo errors"},
  {"reserved_168", 136, BYTES, "reserved"},
}
local NOTICE = {
  {"generic_type", 1, HEX, "0x08: notice type 4, vendor specific"},
  {"oui", 3, HEX, "00066a"},
  {"trap_num", 2, DEC, "0"},
  {"toggle_count", 2, DEC, "0"},
  {"issuer_lid", 4, HEX, "encap_slid of the vport"},
  {"reserved_12", 4, BYTES, "reserved"},
  {"issuer_gid", 16, BYTES, "0"},
  {"fabric_id", 2, HEX, "of the vport"},
  {"vesw_id", 2, DEC, "of the vport"},
  {"vesw_port_num", 4, DEC, "of the vport"},
  {"opa_port_num", 2, DEC, "number of the HFI port"},
  {"vport_num", 1, DEC, "number of the vport"},
  {"opcode", 1, DEC, "1 unicast list, 2 multicast list, 3 link status", names = OPCODES},
  {"reserved_44", 4, BYTES, "reserved"},
}

-- Fields of the declarations --------------------------------------------------------------------------------------

local NUMBERS = {
  [1] = ProtoField.uint8, [2] = ProtoField.uint16, [3] = ProtoField.uint24, [4] = ProtoField.uint32,
  [8] = ProtoField.uint64,
}

local function make_field(prefix, row)
  local name, size, kind, meaning = row[1], row[2], row[3], row[4]
  local filter = prefix .. "." .. name
  if kind == BYTES then
    return ProtoField.bytes(filter, name, base.NONE, meaning)
  elseif kind == MAC then
    return ProtoField.ether(filter, name, meaning)
  end
  return NUMBERS[size](filter, name, kind, row.names, nil, meaning)
end

-- Makes a field of every row, and one of every part of its number, and lists them in the protocol.
local function declare(prefix, rows)
  for _, row in ipairs(rows) do
    row.field = make_field(prefix, row)
    table.insert(ema.fields, row.field)
    for _, part in ipairs(row.bits or {}) do
      part.field = NUMBERS[row[2]](prefix .. "." .. row[1] .. "." .. part[1], part[1], DEC, nil, part[2])
      table.insert(ema.fields, part.field)
    end
  end
end

local attr = ProtoField.string("ema.attr", "attr", base.ASCII, "name of the attribute")
local vport = ProtoField.uint8("ema.vport", "vport", DEC, nil, nil, "number of the vport: low byte of attr_mod")
local data = ProtoField.bytes("ema.data", "data")
local response_in = ProtoField.framenum("ema.response_in", "response in", base.NONE, frametype.RESPONSE)
local response_to = ProtoField.framenum("ema.response_to", "response to", base.NONE, frametype.REQUEST)
local response_time = ProtoField.relative_time("ema.response_time", "time since the request")
ema.fields = {attr, vport, data, response_in, response_to, response_time}
for _, rows in ipairs({mad, rmpp, vendor}) do
  for _, row in ipairs(rows) do
    table.insert(ema.fields, row[4])
  end
end
declare("ema.class_port_info", CLASS_PORT_INFO)
declare("ema.notice", NOTICE)
declare("ema.vesw_port_info", VESW_PORT_INFO)
declare("ema.mac_entries", MAC_ENTRIES)
declare("ema.mac_entry", MAC_ENTRY)
declare("ema.iface_macs", IFACE_MACS)
declare("ema.iface_macs", IFACE_MAC)
declare("ema.summary_counters", SUMMARY_COUNTERS)
declare("ema.error_counters", ERROR_COUNTERS)

local truncated = ProtoExpert.new("ema.truncated", "Truncated", expert.group.MALFORMED, expert.severity.ERROR)
local failed = ProtoExpert.new("ema.failed", "The request failed", expert.group.RESPONSE_CODE, expert.severity.WARN)
ema.experts = {truncated, failed}

-- Attributes by their number: what stands at the start, what is repeated behind it, and a word for the list of
-- packets. In a Get only the start of a list counts.

local function vesw_port_info_text(buffer)
  local state = buffer(166, 1):uint()
  return string.format("vesw %d, %s", buffer(2, 2):uint(), STATES[state] or "state " .. state)
end

local function mac_entries_text(buffer)
  return string.format("%d entries from %d", buffer(2, 2):uint(), buffer(0, 2):uint())
end

local function iface_macs_text(buffer, is_get)
  if is_get then
    return string.format("from %d", buffer(0, 2):uint())
  end
  return string.format("%d of %d from %d", buffer(2, 2):uint(), buffer(4, 2):uint(), buffer(0, 2):uint())
end

local function notice_text(buffer)
  local opcode = buffer(43, 1):uint()
  return string.format("vport %d, %s", buffer(42, 1):uint(), OPCODES[opcode] or "opcode " .. opcode)
end

local ATTRIBUTES = {
  [ATTR_ID.CLASS_PORT_INFO] = {rows = CLASS_PORT_INFO, of_port = true},
  [ATTR_ID.NOTICE] = {rows = NOTICE, of_port = true, text = notice_text},
  [ATTR_ID.VESW_PORT_INFO] = {rows = VESW_PORT_INFO, text = vesw_port_info_text},
  [ATTR_ID.MAC_ENTRIES] = {rows = MAC_ENTRIES, list = MAC_ENTRY, text = mac_entries_text},
  [ATTR_ID.IFACE_UCAST_MACS] = {rows = IFACE_MACS, list = IFACE_MAC, text = iface_macs_text},
  [ATTR_ID.IFACE_MCAST_MACS] = {rows = IFACE_MACS, list = IFACE_MAC, text = iface_macs_text},
  [ATTR_ID.DELETE_VESW] = {rows = VESW_PORT_INFO, text = vesw_port_info_text},
  [ATTR_ID.SUMMARY_COUNTERS] = {rows = SUMMARY_COUNTERS},
  [ATTR_ID.ERROR_COUNTERS] = {rows = ERROR_COUNTERS},
}
local ATTRIBUTE_NAMES = {
  [MAD_CLASS.EMA] = ATTR_ID_NAMES,
  [MAD_CLASS.SUBN_LID] = SUBNET_ATTR_ID_NAMES,
  [MAD_CLASS.SUBN_DIRECTED] = SUBNET_ATTR_ID_NAMES,
}

local function attribute_name(class, id)
  local names = ATTRIBUTE_NAMES[class] or COMMON_ATTR_ID_NAMES
  return names[id] or string.format("attribute 0x%04x", id)
end

-- Returns the bytes of each field of a header that begins at byte `start`, by name.
local function ranges_of(rows, buffer, start)
  local ranges = {}
  for _, row in ipairs(rows) do
    ranges[row[1]] = buffer(start + row[2], row[3])
  end
  return ranges
end

-- Adds a header, and its fields below it.
local function add_header(branch, title, rows, size, buffer, start)
  local header, ranges = branch:add(buffer(start, size), title), ranges_of(rows, buffer, start)
  for _, row in ipairs(rows) do
    header:add(row[4], ranges[row[1]])
  end
  return header
end

-- Adds the rows that `buffer` has room for from `at` on. Returns where they end, and whether all of them were there.
local function add_rows(branch, rows, buffer, at)
  for _, row in ipairs(rows) do
    for index = 1, row.count or 1 do
      if at + row[2] > buffer:len() then
        return at, false
      end
      local item = branch:add(row.field, buffer(at, row[2]))
      if row.count then
        item:append_text(string.format(" [%d]", index - 1))
      end
      for _, part in ipairs(row.bits or {}) do
        item:add(part.field, buffer(at, row[2]))
      end
      at = at + row[2]
    end
  end
  return at, true
end

-- Adds the repeated part of a list, as long as the start of the attribute says and the bytes allow.
local function add_list(branch, rows, buffer, at)
  local first, wanted = buffer(0, 2):uint(), buffer(2, 2):uint()
  for index = 0, wanted - 1 do
    local from, complete = at, true
    if #rows == 1 then
      at, complete = add_rows(branch, rows, buffer, from)
    elseif from < buffer:len() then
      local entry = branch:add(buffer(from, math.min(16, buffer:len() - from)), "Entry " .. first + index)
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

-- Says in a line what follows an attribute: bytes that mean nothing.
local function add_rest(branch, buffer, at)
  if at < buffer:len() then
    local rest = buffer(at)
    local zero = rest:raw():find("[^%z]") == nil
    branch:add(rest, string.format("Not used: %d bytes%s", rest:len(), zero and ", all zero" or ""))
  end
end

-- What of an attribute's data counts: "none", the "start" of a list, or "all".
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

-- Finds the exchange of a MAD when it is seen first. A capture of a whole fabric has it once for every link.
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
    local reason = string.format("status 0x%04x: %s", status, MAD_STATUS_NAMES[status] or "failed")
    header:add_proto_expert_info(failed, reason)
    packet.cols.info:append(", " .. reason)
  end
  if not packet.visited then
    note_exchange(packet, slid, dlid, tid, is_response)
  end
  add_exchange(branch, packet, is_response)
  if class < 0x30 or class > 0x4F then
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
