-- EJFAT in Wireshark: load balancer headers (versions 1, 2, 3), reassembly headers (8 and 20 bytes), sync messages.
--
--   tshark -X lua_script:ejfat.lua -r capture.pcap
--
-- Packets to the load balancer's port are dissected automatically. After the load balancer, packets go to the
-- worker's port and are recognised by the 20-byte reassembly header. The 8-byte header cannot be recognised: it is
-- dissected on the worker's port in the specification's example, and elsewhere with "Decode As".

local EXAMPLE_PORT = 0x4556
local SYNC_PORTS = "19531-19538"

-- A row of a header is name, first byte, bytes, field.
-- generated: headers (made by `make generated` from ejfat/wire/headers.py; do not edit)
local LB_V1_SIZE = 12
local LB_MAGIC = 0x4C42
local LB_PORT = 0x4C42
local lb_v1 = {
  {"magic", 0, 2, ProtoField.uint16("ejfat_lb.magic", "magic", base.HEX, {[0x4c42] = "LB"}, nil, "0x4c42, as text LB")},
  {"version", 2, 1, ProtoField.uint8("ejfat_lb.version", "version", base.DEC, nil, nil, "1")},
  {"protocol", 3, 1, ProtoField.uint8("ejfat_lb.protocol", "protocol", base.DEC, {[0x1] = "reassembly header"}, nil, "what follows")},
  {"tick", 4, 8, ProtoField.uint64("ejfat_lb.tick", "tick", base.DEC, nil, nil, "number of the event, by which a worker is chosen")},
}
local LB_V2_SIZE = 16
local lb_v2 = {
  {"magic", 0, 2, ProtoField.uint16("ejfat_lb.magic", "magic", base.HEX, {[0x4c42] = "LB"}, nil, "0x4c42, as text LB")},
  {"version", 2, 1, ProtoField.uint8("ejfat_lb.version", "version", base.DEC, nil, nil, "2")},
  {"protocol", 3, 1, ProtoField.uint8("ejfat_lb.protocol", "protocol", base.DEC, {[0x1] = "reassembly header"}, nil, "what follows")},
  {"reserved", 4, 2, ProtoField.uint16("ejfat_lb.reserved", "reserved", base.HEX, nil, nil, "0 from a well-behaved sender; carried through")},
  {"entropy", 6, 2, ProtoField.uint16("ejfat_lb.entropy", "entropy", base.HEX, nil, nil, "chooses the port at the worker")},
  {"tick", 8, 8, ProtoField.uint64("ejfat_lb.tick", "tick", base.DEC, nil, nil, "number of the event, by which a worker is chosen")},
}
local LB_V3_SIZE = 16
local lb_v3 = {
  {"magic", 0, 2, ProtoField.uint16("ejfat_lb.magic", "magic", base.HEX, {[0x4c42] = "LB"}, nil, "0x4c42, as text LB")},
  {"version", 2, 1, ProtoField.uint8("ejfat_lb.version", "version", base.DEC, nil, nil, "3")},
  {"protocol", 3, 1, ProtoField.uint8("ejfat_lb.protocol", "protocol", base.DEC, {[0x1] = "reassembly header"}, nil, "what follows")},
  {"slot_select", 4, 2, ProtoField.uint16("ejfat_lb.slot_select", "slot_select", base.HEX, nil, nil, "chooses the slot of the calendar")},
  {"port_select", 6, 2, ProtoField.uint16("ejfat_lb.port_select", "port_select", base.HEX, nil, nil, "chooses the port at the worker")},
  {"tick", 8, 8, ProtoField.uint64("ejfat_lb.tick", "tick", base.DEC, nil, nil, "number of the event, by which the epoch is chosen")},
}
local RE_HEADER_SIZE = 20
local re_header = {
  {"version", 0, 1, ProtoField.uint8("ejfat_re.version", "version", base.DEC, nil, 0xF0, "1; 0 and 2 from two of the public senders"), shift = 4, bits = 4},
  {"flags", 0, 2, ProtoField.uint16("ejfat_re.flags", "flags", base.HEX, nil, 0xFFF, "0; the public clients refuse anything else"), shift = 0, bits = 12},
  {"data_id", 2, 2, ProtoField.uint16("ejfat_re.data_id", "data_id", base.HEX, nil, nil, "which source within the event the data come from")},
  {"offset", 4, 4, ProtoField.uint32("ejfat_re.offset", "offset", base.DEC, nil, nil, "first byte in the event")},
  {"length", 8, 4, ProtoField.uint32("ejfat_re.length", "length", base.DEC, nil, nil, "bytes of the whole event, not of this segment")},
  {"event", 12, 8, ProtoField.uint64("ejfat_re.event", "event", base.DEC, nil, nil, "number of the event")},
}
local SEGMENT_SIZE = 8
local segment = {
  {"version", 0, 1, ProtoField.uint8("ejfat_seg.version", "version", base.DEC, nil, 0xF0, "0"), shift = 4, bits = 4},
  {"reserved", 0, 2, ProtoField.uint16("ejfat_seg.reserved", "reserved", base.HEX, nil, 0xFFC, "0"), shift = 2, bits = 10},
  {"first", 1, 1, ProtoField.bool("ejfat_seg.first", "first", 8, nil, 0x2, "the first segment of the event"), shift = 1, bits = 1},
  {"last", 1, 1, ProtoField.bool("ejfat_seg.last", "last", 8, nil, 0x1, "the last segment of the event"), shift = 0, bits = 1},
  {"data_id", 2, 2, ProtoField.uint16("ejfat_seg.data_id", "data_id", base.HEX, nil, nil, "which source within the event the data come from")},
  {"offset", 4, 4, ProtoField.uint32("ejfat_seg.offset", "offset", base.DEC, nil, nil, "first byte in the event (or number of the packet, by agreement)")},
}
local SYNC_MESSAGE_SIZE = 28
local SYNC_MAGIC = 0x4C43
local sync_message = {
  {"magic", 0, 2, ProtoField.uint16("ejfat_sync.magic", "magic", base.HEX, {[0x4c43] = "LC"}, nil, "0x4c43, as text LC")},
  {"version", 2, 1, ProtoField.uint8("ejfat_sync.version", "version", base.DEC, nil, nil, "2")},
  {"reserved", 3, 1, ProtoField.uint8("ejfat_sync.reserved", "reserved", base.HEX, nil, nil, "0")},
  {"source_id", 4, 4, ProtoField.uint32("ejfat_sync.source_id", "source_id", base.DEC, nil, nil, "number of the sender")},
  {"event", 8, 8, ProtoField.uint64("ejfat_sync.event", "event", base.DEC, nil, nil, "number of the event that it sends now")},
  {"rate_hz", 16, 4, ProtoField.uint32("ejfat_sync.rate", "rate_hz", base.DEC, nil, nil, "events per second")},
  {"unix_ns", 20, 8, ProtoField.uint64("ejfat_sync.unix_ns", "unix_ns", base.DEC, nil, nil, "the sender's clock, nanoseconds since 1970")},
}
-- end of generated

local lb = Proto("ejfat_lb", "EJFAT load balancer")
local lb_calendar = ProtoField.uint16("ejfat_lb.slot", "Calendar slot (9 bits)", base.DEC)
local lb_bad = ProtoExpert.new("ejfat_lb.bad", "No load balancer header", expert.group.MALFORMED, expert.severity.ERROR)
lb.experts = {lb_bad}
local re = Proto("ejfat_re", "EJFAT reassembly")
local re_beyond = ProtoExpert.new("ejfat_re.beyond", "Data beyond the end of the event", expert.group.PROTOCOL, expert.severity.WARN)
re.experts = {re_beyond}
local seg = Proto("ejfat_seg", "EJFAT segment")
local sync = Proto("ejfat_sync", "EJFAT sync")

-- Returns the fields of headers.
local function fields_of(...)
  local fields = {}
  for _, rows in ipairs({...}) do
    for _, row in ipairs(rows) do
      table.insert(fields, row[4])
    end
  end
  return fields
end

-- The names that the plug-ins of the specification give to fields, for its display filters; hidden in the tree.
local lb_names = {
  {"magic", 0, 2, ProtoField.string("udplb.magic", "magic", base.ASCII)},
  {"version", 2, 1, ProtoField.uint8("udplb.version", "version", base.DEC)},
  {"protocol", 3, 1, ProtoField.uint8("udplb.proto", "protocol", base.HEX)},
}
local lb_tick_name = ProtoField.uint64("udplb.tick", "tick", base.HEX)
local segment_names = {
  {"version", 0, 1, ProtoField.uint8("eviogseg.version", "version", base.DEC, nil, 0xF0)},
  {"flags", 0, 2, ProtoField.uint16("evio6seg.flags", "flags", base.HEX, nil, 0x0FFF)},
  {"reserved", 0, 2, ProtoField.bool("evio6seg.flags.rsvd", "reserved", 16, nil, 0xFFC)},
  {"first", 0, 2, ProtoField.bool("evio6seg.flags.first", "first", 16, nil, 0x002)},
  {"last", 0, 2, ProtoField.bool("evio6seg.flags.last", "last", 16, nil, 0x001)},
  {"data_id", 2, 2, ProtoField.uint16("evio6seg.rocid", "data_id", base.HEX)},
  {"offset", 4, 4, ProtoField.uint32("evio6seg.offset", "offset", base.HEX)},
}

lb.fields = fields_of(lb_v1, lb_v2, lb_v3, {{"slot", 0, 2, lb_calendar}, {"tick", 0, 8, lb_tick_name}}, lb_names)
re.fields, seg.fields, sync.fields = fields_of(re_header), fields_of(segment, segment_names), fields_of(sync_message)

-- Adds fields that display filters find and the tree does not show.
local function add_names(branch, rows, buffer)
  for _, row in ipairs(rows) do
    branch:add(row[4], buffer(row[2], row[3])):set_hidden(true)
  end
end

-- Adds a header that begins at byte 0. Returns its branch, and the bytes of each field by name.
local function add_header(tree, proto, rows, size, buffer)
  local branch, range = tree:add(proto, buffer(0, size)), {}
  for _, row in ipairs(rows) do
    range[row[1]] = buffer(row[2], row[3])
    branch:add(row[4], range[row[1]])
  end
  return branch, range
end

local data = Dissector.get("data")

local function rest(buffer, from, packet, tree)
  if buffer:len() > from then
    data:call(buffer(from):tvb(), packet, tree)
  end
end

local function is_re(buffer)
  local word = buffer:len() >= RE_HEADER_SIZE and buffer(0, 2):uint()
  return word == 0x1000 or word == 0x2000 or word == 0
end

-- Returns whether the data of a packet lie within its event, and there are any.
local function fits(buffer)
  local size = buffer:len() - RE_HEADER_SIZE
  return size > 0 and buffer(4, 4):uint() + size <= buffer(8, 4):uint()
end

function re.dissector(buffer, packet, tree)
  if not is_re(buffer) then
    return 0
  end
  local branch, range = add_header(tree, re, re_header, RE_HEADER_SIZE, buffer)
  local offset, length = range.offset:uint(), range.length:uint()
  local behind = offset + buffer:len() - RE_HEADER_SIZE
  if behind > length then
    branch:add_proto_expert_info(re_beyond)
  end
  packet.cols.protocol:set("EJFAT-RE")
  packet.cols.info:set(string.format(
    "Event %s data id %d: %d-%d of %d", range.event:uint64(), range.data_id:uint(), offset, behind, length))
  rest(buffer, RE_HEADER_SIZE, packet, tree)
  return buffer:len()
end

function seg.dissector(buffer, packet, tree)
  if buffer:len() < SEGMENT_SIZE then
    return 0
  end
  local branch, range = add_header(tree, seg, segment, SEGMENT_SIZE, buffer)
  add_names(branch, segment_names, buffer)
  packet.cols.protocol:set("EJFAT-SEG")
  packet.cols.info:set(string.format("Data id %d offset %d", range.data_id:uint(), range.offset:uint()))
  rest(buffer, SEGMENT_SIZE, packet, tree)
  return buffer:len()
end

-- Packets on a worker's port, where no load balancer header tells which header follows.
local worker = Proto("ejfat_worker", "EJFAT worker")

function worker.dissector(buffer, packet, tree)
  if is_re(buffer) and fits(buffer) then
    return re.dissector(buffer, packet, tree)
  end
  return seg.dissector(buffer, packet, tree)
end

-- What follows the load balancer header, by its protocol field; version 1 goes with the 8-byte header.
local function payload(buffer, from, version, protocol, packet, tree)
  if buffer:len() <= from then
    return
  end
  local inner = buffer(from):tvb()
  local taken = 0
  if protocol == 1 and version == 1 then
    taken = seg.dissector(inner, packet, tree)
  elseif protocol == 1 then
    taken = re.dissector(inner, packet, tree)
  end
  if taken == 0 then
    data:call(inner, packet, tree)
  end
end

local LB_VERSIONS = {{lb_v1, LB_V1_SIZE}, {lb_v2, LB_V2_SIZE}, {lb_v3, LB_V3_SIZE}}

-- Returns version, rows and size of the load balancer header at the start of `buffer`; nil where there is none.
local function lb_header(buffer)
  if buffer:len() < LB_V1_SIZE or buffer(0, 2):uint() ~= LB_MAGIC then
    return nil
  end
  local version = buffer(2, 1):uint()
  local rows, size = table.unpack(LB_VERSIONS[version] or {})
  if rows and buffer:len() >= size then
    return version, rows, size
  end
  return nil
end

function lb.dissector(buffer, packet, tree)
  local version, rows, size = lb_header(buffer)
  packet.cols.protocol:set("EJFAT-LB")
  if not version and is_re(buffer) and fits(buffer) then
    return re.dissector(buffer, packet, tree)  -- a worker that listens on the load balancer's port
  end
  if not version then
    tree:add(lb, buffer()):add_proto_expert_info(lb_bad)
    return buffer:len()
  end
  local branch, range = add_header(tree, lb, rows, size, buffer)
  add_names(branch, lb_names, buffer)
  branch:add(lb_tick_name, range.tick):set_hidden(true)
  local slot = range.slot_select or range.tick(6, 2)
  branch:add(lb_calendar, slot, slot:uint() % 512):set_generated()
  packet.cols.info:set("Tick " .. tostring(range.tick:uint64()))
  payload(buffer, size, version, range.protocol:uint(), packet, tree)
  return buffer:len()
end

function sync.dissector(buffer, packet, tree)
  if buffer:len() ~= SYNC_MESSAGE_SIZE or buffer(0, 2):uint() ~= SYNC_MAGIC then
    return 0
  end
  local _, range = add_header(tree, sync, sync_message, SYNC_MESSAGE_SIZE, buffer)
  packet.cols.protocol:set("EJFAT-SYNC")
  packet.cols.info:set("Event " .. tostring(range.event:uint64()))
  return buffer:len()
end

local udp = DissectorTable.get("udp.port")
udp:add(LB_PORT, lb)
udp:add(SYNC_PORTS, sync)
udp:add(EXAMPLE_PORT, worker)
udp:add_for_decode_as(lb)
udp:add_for_decode_as(re)
udp:add_for_decode_as(seg)

-- A worker may listen on any port: a packet is EJFAT if its magic, or its version word and lengths, match.
lb:register_heuristic("udp", function(buffer, packet, tree)
  if not lb_header(buffer) then
    return false
  end
  lb.dissector(buffer, packet, tree)
  return true
end)
re:register_heuristic("udp", function(buffer, packet, tree)
  -- not version 0: many packets of others begin with zeros
  if not is_re(buffer) or buffer(0, 2):uint() == 0 or not fits(buffer) then
    return false
  end
  re.dissector(buffer, packet, tree)
  return true
end)
sync:register_heuristic("udp", function(buffer, packet, tree)
  return buffer:len() > 2 and buffer(2, 1):uint() == 2 and sync.dissector(buffer, packet, tree) > 0
end)
