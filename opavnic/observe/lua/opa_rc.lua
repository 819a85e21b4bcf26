-- Reliable connections of this project, below opa16b.lua: L4 type 0x7A, 28 bytes of header, big-endian.

local rc = Proto("opa_rc", "OPA RC")

local SIZE = 28
local OPCODES = {
  [1] = "REQ", [2] = "REP", [3] = "REJ", [4] = "DATA", [5] = "ACK", [6] = "CLOSE", [7] = "RESET",
}
local DATA = 4

-- offset, bytes, field
local rows = {
  {0, 1, ProtoField.uint8("opa_rc.opcode", "opcode", base.DEC, OPCODES, nil, "what the packet does")},
  {1, 1, ProtoField.uint8("opa_rc.flags", "flags", base.HEX)},
  {1, 1, ProtoField.bool("opa_rc.flags.last", "LAST", 8, nil, 0x01, "the last packet of its message")},
  {1, 1, ProtoField.bool("opa_rc.flags.ack_req", "ACK_REQ", 8, nil, 0x02, "the sender waits for an acknowledgement")},
  {2, 2, ProtoField.uint16("opa_rc.tag", "tag", base.DEC, nil, nil, "REQ: the service; DATA: the kind of message")},
  {4, 4, ProtoField.uint32("opa_rc.dst_conn", "dst_conn", base.HEX, nil, nil, "the receiver's number of the connection")},
  {8, 4, ProtoField.uint32("opa_rc.src_conn", "src_conn", base.HEX, nil, nil, "the sender's number of the connection")},
  {12, 4, ProtoField.uint32("opa_rc.psn", "psn", base.DEC, nil, nil, "packet sequence number of DATA")},
  {16, 4, ProtoField.uint32("opa_rc.ack", "ack", base.DEC, nil, nil, "the next psn that the sender expects")},
  {20, 8, ProtoField.uint64("opa_rc.sack", "sack", base.HEX, nil, nil, "bit i: packet ack + 1 + i has arrived")},
}
local payload = ProtoField.bytes("opa_rc.payload", "payload")
rc.fields = {payload}
for _, row in ipairs(rows) do
  table.insert(rc.fields, row[3])
end
local truncated = ProtoExpert.new("opa_rc.truncated", "Truncated", expert.group.MALFORMED, expert.severity.ERROR)
local unknown = ProtoExpert.new("opa_rc.opcode.unknown", "Unknown opcode", expert.group.PROTOCOL, expert.severity.WARN)
rc.experts = {truncated, unknown}

function rc.dissector(buffer, packet, tree)
  packet.cols.protocol:set("OPA RC")
  local branch = tree:add(rc, buffer())
  if buffer:len() < SIZE then
    branch:add_proto_expert_info(truncated, string.format("%d bytes, %d are needed", buffer:len(), SIZE))
    return buffer:len()
  end
  for _, row in ipairs(rows) do
    branch:add(row[3], buffer(row[1], row[2]))
  end
  local opcode, number = buffer(0, 1):uint(), function(at) return buffer(at, 4):uint() end
  if not OPCODES[opcode] then
    branch:add_proto_expert_info(unknown, string.format("Unknown opcode 0x%02x", opcode))
  end
  local title = string.format("%s 0x%x > 0x%x", OPCODES[opcode] or "RC", number(8), number(4))
  if opcode == DATA then
    title = string.format("%s psn %d tag %d", title, number(12), buffer(2, 2):uint())
  end
  title = string.format("%s ack %d", title, number(16))
  branch:append_text(", " .. title)
  packet.cols.info:set(title)
  if buffer:len() > SIZE then
    packet.cols.info:append(string.format(", %d bytes", buffer:len() - SIZE))
    branch:add(payload, buffer(SIZE))
  end
  return buffer:len()
end
