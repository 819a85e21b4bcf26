-- Reliable connections of this project, below opa16b.lua: L4 type 0x7A, 28 bytes of header, big-endian.
-- Messages of o2iblnd go on to its dissector, if that is installed.

local rc = Proto("opa_rc", "OPA RC")

-- A row is name, first byte, bytes, field; `parts` are fields of its named bits.
-- generated: rc (made by `make generated` from hfi_sim/wire/reliable_header.py; do not edit)
local RC_OPCODE = {
  REQ = 0x01,
  REP = 0x02,
  REJ = 0x03,
  DATA = 0x04,
  ACK = 0x05,
  CLOSE = 0x06,
  RESET = 0x07,
}
local RC_OPCODE_NAMES = {
  [0x01] = "REQ",
  [0x02] = "REP",
  [0x03] = "REJ",
  [0x04] = "DATA",
  [0x05] = "ACK",
  [0x06] = "CLOSE",
  [0x07] = "RESET",
}
local HEADER_SIZE = 28
local header = {
  {"opcode", 0, 1, ProtoField.uint8("opa_rc.opcode", "opcode", base.DEC, RC_OPCODE_NAMES, nil, "what the packet does")},
  {"flags", 1, 1, ProtoField.uint8("opa_rc.flags", "flags", base.HEX, nil, nil, "what the receiver is to know of the packet"), parts = {ProtoField.bool("opa_rc.flags.last", "last", 8, nil, 0x1, "the last packet of its message"), ProtoField.bool("opa_rc.flags.ack_req", "ack_req", 8, nil, 0x2, "the sender waits for an acknowledgement")}},
  {"tag", 2, 2, ProtoField.uint16("opa_rc.tag", "tag", base.DEC, nil, nil, "REQ: the service asked for; DATA: the kind of the message; otherwise 0")},
  {"dst_conn", 4, 4, ProtoField.uint32("opa_rc.dst_conn", "dst_conn", base.HEX, nil, nil, "the receiver's number of the connection; 0 in a REQ")},
  {"src_conn", 8, 4, ProtoField.uint32("opa_rc.src_conn", "src_conn", base.HEX, nil, nil, "the sender's number of the connection")},
  {"psn", 12, 4, ProtoField.uint32("opa_rc.psn", "psn", base.DEC, nil, nil, "DATA: packet sequence number, modulo 2**32; otherwise 0")},
  {"ack", 16, 4, ProtoField.uint32("opa_rc.ack", "ack", base.DEC, nil, nil, "the next psn that the sender of this packet expects")},
  {"sack", 20, 8, ProtoField.uint64("opa_rc.sack", "sack", base.HEX, nil, nil, "bit i: packet ack + 1 + i has arrived already")},
}
-- end of generated

local payload = ProtoField.bytes("opa_rc.payload", "payload")
rc.fields = {payload}
for _, row in ipairs(header) do
  table.insert(rc.fields, row[4])
  for _, part in ipairs(row.parts or {}) do
    table.insert(rc.fields, part)
  end
end
local truncated = ProtoExpert.new("opa_rc.truncated", "Truncated", expert.group.MALFORMED, expert.severity.ERROR)
local unknown = ProtoExpert.new("opa_rc.opcode.unknown", "Unknown opcode", expert.group.PROTOCOL, expert.severity.WARN)
rc.experts = {truncated, unknown}

-- Names of dissectors by the magic that their messages begin with, in either byte order.
local UPPER = {[0x0BE91B91] = "kib", [0x911BE90B] = "kib"}

-- Calls the dissector of what is carried, or shows it as bytes if there is none.
local function hand_on(range, packet, tree, branch)
  local name = range:len() >= 4 and UPPER[range:range(0, 4):uint()]
  local found, upper = pcall(Dissector.get, name or "")
  if name and found and upper then
    upper:call(range:tvb(), packet, tree)
  else
    branch:add(payload, range)
  end
end

function rc.dissector(buffer, packet, tree)
  packet.cols.protocol:set("OPA RC")
  local branch = tree:add(rc, buffer())
  if buffer:len() < HEADER_SIZE then
    branch:add_proto_expert_info(truncated, string.format("%d bytes, %d are needed", buffer:len(), HEADER_SIZE))
    return buffer:len()
  end
  local range = {}
  for _, row in ipairs(header) do
    range[row[1]] = buffer(row[2], row[3])
    local item = branch:add(row[4], range[row[1]])
    for _, part in ipairs(row.parts or {}) do
      item:add(part, range[row[1]])
    end
  end
  local number = function(name) return range[name]:uint() end
  local opcode = number("opcode")
  if not RC_OPCODE_NAMES[opcode] then
    branch:add_proto_expert_info(unknown, string.format("Unknown opcode 0x%02x", opcode))
  end
  local title = string.format("%s 0x%x > 0x%x", RC_OPCODE_NAMES[opcode] or "RC", number("src_conn"), number("dst_conn"))
  if opcode == RC_OPCODE.DATA then
    title = string.format("%s psn %d tag %d", title, number("psn"), number("tag"))
  end
  title = string.format("%s ack %d", title, number("ack"))
  branch:append_text(", " .. title)
  packet.cols.info:set(title)
  if buffer:len() > HEADER_SIZE then
    packet.cols.info:append(string.format(", %d bytes", buffer:len() - HEADER_SIZE))
    hand_on(buffer(HEADER_SIZE), packet, tree, branch)
  end
  return buffer:len()
end
