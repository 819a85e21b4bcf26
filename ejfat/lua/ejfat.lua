-- EJFAT in Wireshark: load balancer headers (versions 1, 2, 3), reassembly headers (8 and 20 bytes), sync messages.
--
--   tshark -X lua_script:ejfat.lua -r capture.pcap
--
-- The load balancer's port is dissected by itself. Behind the load balancer the port is the worker's: there a
-- packet is recognised by the 20-byte reassembly header. The 8-byte one has nothing to be recognised by: it is
-- dissected on the worker's port of the document's example, and elsewhere with "Decode As".

local LB_PORT = 0x4c42
local EXAMPLE_PORT = 0x4556
local SYNC_PORTS = "19531-19538"

-- Load balancer header -------------------------------------------------------------------------------------

local lb = Proto("ejfat_lb", "EJFAT load balancer")
local lb_magic = ProtoField.string("ejfat_lb.magic", "Magic")
local lb_version = ProtoField.uint8("ejfat_lb.version", "Version", base.DEC)
local lb_protocol = ProtoField.uint8("ejfat_lb.protocol", "Protocol", base.DEC, {[1] = "reassembly header"})
local lb_reserved = ProtoField.uint16("ejfat_lb.reserved", "Reserved", base.HEX)
local lb_entropy = ProtoField.uint16("ejfat_lb.entropy", "Entropy", base.HEX)
local lb_slot = ProtoField.uint16("ejfat_lb.slot_select", "Slot select", base.HEX)
local lb_port = ProtoField.uint16("ejfat_lb.port_select", "Port select", base.HEX)
local lb_tick = ProtoField.uint64("ejfat_lb.tick", "Tick", base.DEC)
local lb_calendar = ProtoField.uint16("ejfat_lb.slot", "Calendar slot (9 bits)", base.DEC)
lb.fields = {
  lb_magic, lb_version, lb_protocol, lb_reserved, lb_entropy, lb_slot, lb_port, lb_tick, lb_calendar,
}
local lb_bad = ProtoExpert.new("ejfat_lb.bad", "No load balancer header", expert.group.MALFORMED, expert.severity.ERROR)
lb.experts = {lb_bad}

-- Reassembly header of 20 bytes ----------------------------------------------------------------------------

local re = Proto("ejfat_re", "EJFAT reassembly")
local re_version = ProtoField.uint16("ejfat_re.version", "Version", base.DEC, nil, 0xF000)
local re_flags = ProtoField.uint16("ejfat_re.flags", "Flags", base.HEX, nil, 0x0FFF)
local re_data_id = ProtoField.uint16("ejfat_re.data_id", "Data id", base.HEX)
local re_offset = ProtoField.uint32("ejfat_re.offset", "Offset", base.DEC)
local re_length = ProtoField.uint32("ejfat_re.length", "Length of the event", base.DEC)
local re_event = ProtoField.uint64("ejfat_re.event", "Event", base.DEC)
re.fields = {re_version, re_flags, re_data_id, re_offset, re_length, re_event}
local re_beyond = ProtoExpert.new("ejfat_re.beyond", "Data beyond the end of the event", expert.group.PROTOCOL, expert.severity.WARN)
re.experts = {re_beyond}

-- Reassembly header of 8 bytes -----------------------------------------------------------------------------

local seg = Proto("ejfat_seg", "EJFAT segment")
local seg_version = ProtoField.uint16("ejfat_seg.version", "Version", base.DEC, nil, 0xF000)
local seg_reserved = ProtoField.uint16("ejfat_seg.reserved", "Reserved", base.HEX, nil, 0x0FFC)
local seg_first = ProtoField.bool("ejfat_seg.first", "First", 16, nil, 0x0002)
local seg_last = ProtoField.bool("ejfat_seg.last", "Last", 16, nil, 0x0001)
local seg_data_id = ProtoField.uint16("ejfat_seg.data_id", "Data id", base.HEX)
local seg_offset = ProtoField.uint32("ejfat_seg.offset", "Offset", base.DEC)
seg.fields = {seg_version, seg_reserved, seg_first, seg_last, seg_data_id, seg_offset}

-- Sync message ---------------------------------------------------------------------------------------------

local sync = Proto("ejfat_sync", "EJFAT sync")
local sync_magic = ProtoField.string("ejfat_sync.magic", "Magic")
local sync_version = ProtoField.uint8("ejfat_sync.version", "Version", base.DEC)
local sync_reserved = ProtoField.uint8("ejfat_sync.reserved", "Reserved", base.HEX)
local sync_source = ProtoField.uint32("ejfat_sync.source_id", "Source id", base.DEC)
local sync_event = ProtoField.uint64("ejfat_sync.event", "Event", base.DEC)
local sync_rate = ProtoField.uint32("ejfat_sync.rate", "Rate (Hz)", base.DEC)
local sync_time = ProtoField.uint64("ejfat_sync.unix_ns", "Sender's clock (ns since 1970)", base.DEC)
sync.fields = {sync_magic, sync_version, sync_reserved, sync_source, sync_event, sync_rate, sync_time}

local data = Dissector.get("data")

local function rest(buffer, from, packet, tree)
  if buffer:len() > from then
    data:call(buffer(from):tvb(), packet, tree)
  end
end

local function is_re(buffer)
  return buffer:len() >= 20 and buffer(0, 2):uint() == 0x1000
end

function re.dissector(buffer, packet, tree)
  if not is_re(buffer) then
    return 0
  end
  local offset, length = buffer(4, 4):uint(), buffer(8, 4):uint()
  local branch = tree:add(re, buffer(0, 20))
  branch:add(re_version, buffer(0, 2))
  branch:add(re_flags, buffer(0, 2))
  branch:add(re_data_id, buffer(2, 2))
  branch:add(re_offset, buffer(4, 4))
  branch:add(re_length, buffer(8, 4))
  branch:add(re_event, buffer(12, 8))
  if offset + buffer:len() - 20 > length then
    branch:add_proto_expert_info(re_beyond)
  end
  packet.cols.protocol:set("EJFAT-RE")
  packet.cols.info:set(string.format(
    "Event %s data id %d: %d-%d of %d", buffer(12, 8):uint64(), buffer(2, 2):uint(), offset,
    offset + buffer:len() - 20, length))
  rest(buffer, 20, packet, tree)
  return buffer:len()
end

function seg.dissector(buffer, packet, tree)
  if buffer:len() < 8 then
    return 0
  end
  local branch = tree:add(seg, buffer(0, 8))
  branch:add(seg_version, buffer(0, 2))
  branch:add(seg_reserved, buffer(0, 2))
  branch:add(seg_first, buffer(0, 2))
  branch:add(seg_last, buffer(0, 2))
  branch:add(seg_data_id, buffer(2, 2))
  branch:add(seg_offset, buffer(4, 4))
  packet.cols.protocol:set("EJFAT-SEG")
  packet.cols.info:set(string.format("Data id %d offset %d", buffer(2, 2):uint(), buffer(4, 4):uint()))
  rest(buffer, 8, packet, tree)
  return buffer:len()
end

-- A worker's port, where nothing in front says which header it is.
local worker = Proto("ejfat_worker", "EJFAT worker")

function worker.dissector(buffer, packet, tree)
  if is_re(buffer) then
    return re.dissector(buffer, packet, tree)
  end
  return seg.dissector(buffer, packet, tree)
end

-- What follows the load balancer header, by its protocol field; version 1 goes with the 8-byte header.
local function payload(buffer, from, version, packet, tree)
  if buffer:len() <= from then
    return
  end
  local inner = buffer(from):tvb()
  local protocol = buffer(3, 1):uint()
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

function lb.dissector(buffer, packet, tree)
  local version = buffer:len() >= 3 and buffer(2, 1):uint() or 0
  local size = version == 1 and 12 or 16
  if buffer:len() < size or buffer(0, 2):uint() ~= LB_PORT or version < 1 or version > 3 then
    packet.cols.protocol:set("EJFAT-LB")
    tree:add(lb, buffer()):add_proto_expert_info(lb_bad)
    return buffer:len()
  end
  local branch = tree:add(lb, buffer(0, size))
  branch:add(lb_magic, buffer(0, 2))
  branch:add(lb_version, buffer(2, 1))
  branch:add(lb_protocol, buffer(3, 1))
  local slot
  if version == 3 then
    branch:add(lb_slot, buffer(4, 2))
    branch:add(lb_port, buffer(6, 2))
    slot = buffer(4, 2)
  elseif version == 2 then
    branch:add(lb_reserved, buffer(4, 2))
    branch:add(lb_entropy, buffer(6, 2))
  end
  branch:add(lb_tick, buffer(size - 8, 8))
  slot = slot or buffer(size - 2, 2)
  branch:add(lb_calendar, slot, slot:uint() % 512):set_generated()
  packet.cols.protocol:set("EJFAT-LB")
  packet.cols.info:set("Tick " .. tostring(buffer(size - 8, 8):uint64()))
  payload(buffer, size, version, packet, tree)
  return buffer:len()
end

function sync.dissector(buffer, packet, tree)
  if buffer:len() ~= 28 or buffer(0, 2):uint() ~= 0x4c43 then
    return 0
  end
  local branch = tree:add(sync, buffer())
  branch:add(sync_magic, buffer(0, 2))
  branch:add(sync_version, buffer(2, 1))
  branch:add(sync_reserved, buffer(3, 1))
  branch:add(sync_source, buffer(4, 4))
  branch:add(sync_event, buffer(8, 8))
  branch:add(sync_rate, buffer(16, 4))
  branch:add(sync_time, buffer(20, 8))
  packet.cols.protocol:set("EJFAT-SYNC")
  packet.cols.info:set("Event " .. tostring(buffer(8, 8):uint64()))
  return buffer:len()
end

local udp = DissectorTable.get("udp.port")
udp:add(LB_PORT, lb)
udp:add(SYNC_PORTS, sync)
udp:add(EXAMPLE_PORT, worker)
udp:add_for_decode_as(lb)
udp:add_for_decode_as(re)
udp:add_for_decode_as(seg)

-- A worker may listen anywhere: a packet is one of ours where magic, or version word and lengths, fit.
lb:register_heuristic("udp", function(buffer, packet, tree)
  if buffer:len() < 12 or buffer(0, 2):uint() ~= LB_PORT then
    return false
  end
  local version = buffer(2, 1):uint()
  if version < 1 or version > 3 or (version > 1 and buffer:len() < 16) then
    return false
  end
  lb.dissector(buffer, packet, tree)
  return true
end)
re:register_heuristic("udp", function(buffer, packet, tree)
  if not is_re(buffer) then
    return false
  end
  if buffer(4, 4):uint() + buffer:len() - 20 > buffer(8, 4):uint() then
    return false
  end
  re.dissector(buffer, packet, tree)
  return true
end)
