-- o2iblnd in Wireshark: kib_msg and kib_rej, which opa_rc.lua hands on here, and the LNet header inside.
--
--   tshark -r capture.pcapng -Y 'lnet_hdr.type == 1'
--
-- A message is in the byte order of its sender, which the magic tells. The LNet header is always little-endian.
-- The dissector "lnet" that Wireshark has is that of LNet over TCP; hence the other name.

local kib = Proto("kib", "o2iblnd")
local hdr = Proto("lnet_hdr", "LNet header")

-- A row of a header is name, first byte, bytes, field.
-- generated: headers (made by `make generated` from lnet/base/nid.py, lnet/wire/codes.py, lnet/wire/layouts.py; do not edit)
local MSG_TYPE = {
  CONNREQ = 0xC0,
  CONNACK = 0xC1,
  NOOP = 0xD0,
  IMMEDIATE = 0xD1,
  PUT_REQ = 0xD2,
  PUT_NAK = 0xD3,
  PUT_ACK = 0xD4,
  PUT_DONE = 0xD5,
  GET_REQ = 0xD6,
  GET_DONE = 0xD7,
}
local MSG_TYPE_NAMES = {
  [0xC0] = "CONNREQ",
  [0xC1] = "CONNACK",
  [0xD0] = "NOOP",
  [0xD1] = "IMMEDIATE",
  [0xD2] = "PUT_REQ",
  [0xD3] = "PUT_NAK",
  [0xD4] = "PUT_ACK",
  [0xD5] = "PUT_DONE",
  [0xD6] = "GET_REQ",
  [0xD7] = "GET_DONE",
}
local REJECT_REASON = {
  CONN_RACE = 0x01,
  NO_RESOURCES = 0x02,
  FATAL = 0x03,
  CONN_UNCOMPAT = 0x04,
  CONN_STALE = 0x05,
  RDMA_FRAGS = 0x06,
  MSG_QUEUE_SIZE = 0x07,
  INVALID_SRV_ID = 0x08,
  EARLY = 0x09,
}
local REJECT_REASON_NAMES = {
  [0x01] = "CONN_RACE",
  [0x02] = "NO_RESOURCES",
  [0x03] = "FATAL",
  [0x04] = "CONN_UNCOMPAT",
  [0x05] = "CONN_STALE",
  [0x06] = "RDMA_FRAGS",
  [0x07] = "MSG_QUEUE_SIZE",
  [0x08] = "INVALID_SRV_ID",
  [0x09] = "EARLY",
}
local LNET_MSG_TYPE = {
  PUT = 0x01,
  GET = 0x02,
}
local LNET_MSG_TYPE_NAMES = {
  [0x01] = "PUT",
  [0x02] = "GET",
}
local NET_TYPE = {
  TCP = 0x02,
  O2IB = 0x05,
  LO = 0x09,
  GNI = 0x0D,
  GIP = 0x0E,
  PTLF = 0x0F,
  KFI = 0x10,
  EFA = 0x12,
  BXI3F = 0x13,
}
local NET_TYPE_NAMES = {
  [0x02] = "TCP",
  [0x05] = "O2IB",
  [0x09] = "LO",
  [0x0D] = "GNI",
  [0x0E] = "GIP",
  [0x0F] = "PTLF",
  [0x10] = "KFI",
  [0x12] = "EFA",
  [0x13] = "BXI3F",
}
local KIB_MSG_SIZE = 48
local KIB_MAGIC = 0xBE91B91
local kib_msg = {
  {"magic", 0, 4, ProtoField.uint32("kib.magic", "magic", base.HEX, nil, nil, "0x0be91b91, in the byte order of the sender")},
  {"version", 4, 2, ProtoField.uint16("kib.version", "version", base.HEX, nil, nil, "0x12, or 0x11")},
  {"type", 6, 1, ProtoField.uint8("kib.type", "type", base.HEX, MSG_TYPE_NAMES, nil, "type of the message")},
  {"credits", 7, 1, ProtoField.uint8("kib.credits", "credits", base.DEC, nil, nil, "returned credits")},
  {"nob", 8, 4, ProtoField.uint32("kib.nob", "nob", base.DEC, nil, nil, "bytes of the whole message")},
  {"cksum", 12, 4, ProtoField.uint32("kib.cksum", "cksum", base.HEX, nil, nil, "checksum of the message, computed with 0 here; 0: none")},
  {"srcnid", 16, 8, ProtoField.uint64("kib.srcnid", "srcnid", base.HEX, nil, nil, "NID of the sender")},
  {"srcstamp", 24, 8, ProtoField.uint64("kib.srcstamp", "srcstamp", base.HEX, nil, nil, "a number that only the sender has, in its present incarnation")},
  {"dstnid", 32, 8, ProtoField.uint64("kib.dstnid", "dstnid", base.HEX, nil, nil, "NID of the receiver")},
  {"dststamp", 40, 8, ProtoField.uint64("kib.dststamp", "dststamp", base.HEX, nil, nil, "incarnation of the receiver; 0 if unknown")},
}
local KIB_CONNPARAMS_SIZE = 8
local kib_connparams = {
  {"queue_depth", 0, 2, ProtoField.uint16("kib.queue_depth", "queue_depth", base.DEC, nil, nil, "credits")},
  {"max_frags", 2, 2, ProtoField.uint16("kib.max_frags", "max_frags", base.DEC, nil, nil, "fragments of one RDMA")},
  {"max_msg_size", 4, 4, ProtoField.uint32("kib.max_msg_size", "max_msg_size", base.DEC, nil, nil, "bytes of a message")},
}
local KIB_COOKIE_SIZE = 8
local kib_cookie = {
  {"cookie", 0, 8, ProtoField.uint64("kib.cookie", "cookie", base.HEX, nil, nil, "number of the transfer, chosen by the requester")},
}
local KIB_PUTACK_SIZE = 16
local kib_putack = {
  {"cookie", 0, 8, ProtoField.uint64("kib.cookie", "cookie", base.HEX, nil, nil, "number of the transfer, chosen by the requester")},
  {"dst_cookie", 8, 8, ProtoField.uint64("kib.dst_cookie", "dst_cookie", base.HEX, nil, nil, "number of the transfer at the responder")},
}
local KIB_COMPLETION_SIZE = 12
local kib_completion = {
  {"cookie", 0, 8, ProtoField.uint64("kib.cookie", "cookie", base.HEX, nil, nil, "number of the transfer, chosen by the requester")},
  {"status", 8, 4, ProtoField.int32("kib.status", "status", base.DEC, nil, nil, "0 or more: success; negative: an errno")},
}
local KIB_DESC_SIZE = 8
local kib_desc = {
  {"key", 0, 4, ProtoField.uint32("kib.rdma.key", "key", base.HEX, nil, nil, "key of the memory")},
  {"nfrags", 4, 4, ProtoField.uint32("kib.rdma.nfrags", "nfrags", base.DEC, nil, nil, "number of fragments that follow")},
}
local KIB_FRAG_SIZE = 12
local kib_frag = {
  {"nob", 0, 4, ProtoField.uint32("kib.rdma.nob", "nob", base.DEC, nil, nil, "bytes")},
  {"addr", 4, 8, ProtoField.uint64("kib.rdma.addr", "addr", base.HEX, nil, nil, "address of the first byte")},
}
local KIB_REJ_SIZE = 24
local kib_rej = {
  {"magic", 0, 4, ProtoField.uint32("kib.rej.magic", "magic", base.HEX, nil, nil, "0x0be91b91, in the byte order of the sender")},
  {"version", 4, 2, ProtoField.uint16("kib.rej.version", "version", base.HEX, nil, nil, "0x12, or 0x11")},
  {"why", 6, 1, ProtoField.uint8("kib.rej.why", "why", base.DEC, REJECT_REASON_NAMES, nil, "reason of the rejection")},
  {"padding", 7, 1, ProtoField.bytes("kib.rej.padding", "padding", base.NONE, "0")},
  {"incarnation", 8, 8, ProtoField.uint64("kib.rej.incarnation", "incarnation", base.HEX, nil, nil, "incarnation of the rejecting side")},
  {"queue_depth", 16, 2, ProtoField.uint16("kib.rej.queue_depth", "queue_depth", base.DEC, nil, nil, "credits")},
  {"max_frags", 18, 2, ProtoField.uint16("kib.rej.max_frags", "max_frags", base.DEC, nil, nil, "fragments of one RDMA")},
  {"max_msg_size", 20, 4, ProtoField.uint32("kib.rej.max_msg_size", "max_msg_size", base.DEC, nil, nil, "bytes of a message")},
}
local LNET_PUT_SIZE = 72
local lnet_put = {
  {"dest_nid", 0, 8, ProtoField.uint64("lnet_hdr.dest_nid", "dest_nid", base.HEX, nil, nil, "NID of the receiver")},
  {"src_nid", 8, 8, ProtoField.uint64("lnet_hdr.src_nid", "src_nid", base.HEX, nil, nil, "NID of the sender")},
  {"dest_pid", 16, 4, ProtoField.uint32("lnet_hdr.dest_pid", "dest_pid", base.DEC, nil, nil, "process of the receiver")},
  {"src_pid", 20, 4, ProtoField.uint32("lnet_hdr.src_pid", "src_pid", base.DEC, nil, nil, "process of the sender")},
  {"type", 24, 4, ProtoField.uint32("lnet_hdr.type", "type", base.DEC, LNET_MSG_TYPE_NAMES, nil, "type of the message")},
  {"payload_length", 28, 4, ProtoField.uint32("lnet_hdr.payload_length", "payload_length", base.DEC, nil, nil, "PUT: bytes of payload; GET: 0")},
  {"interface_cookie", 32, 8, ProtoField.uint64("lnet_hdr.interface_cookie", "interface_cookie", base.HEX, nil, nil, "a number that only the sender has, in its present incarnation")},
  {"object_cookie", 40, 8, ProtoField.uint64("lnet_hdr.object_cookie", "object_cookie", base.HEX, nil, nil, "number of the message among all of its sender")},
  {"match_bits", 48, 8, ProtoField.uint64("lnet_hdr.match_bits", "match_bits", base.HEX, nil, nil, "bits that select the memory at the receiver")},
  {"hdr_data", 56, 8, ProtoField.uint64("lnet_hdr.hdr_data", "hdr_data", base.HEX, nil, nil, "out-of-band data for the receiver")},
  {"ptl_index", 64, 4, ProtoField.uint32("lnet_hdr.ptl_index", "ptl_index", base.DEC, nil, nil, "portal")},
  {"offset", 68, 4, ProtoField.uint32("lnet_hdr.offset", "offset", base.DEC, nil, nil, "offset in the receiver's memory")},
}
local LNET_GET_SIZE = 72
local lnet_get = {
  {"dest_nid", 0, 8, ProtoField.uint64("lnet_hdr.dest_nid", "dest_nid", base.HEX, nil, nil, "NID of the receiver")},
  {"src_nid", 8, 8, ProtoField.uint64("lnet_hdr.src_nid", "src_nid", base.HEX, nil, nil, "NID of the sender")},
  {"dest_pid", 16, 4, ProtoField.uint32("lnet_hdr.dest_pid", "dest_pid", base.DEC, nil, nil, "process of the receiver")},
  {"src_pid", 20, 4, ProtoField.uint32("lnet_hdr.src_pid", "src_pid", base.DEC, nil, nil, "process of the sender")},
  {"type", 24, 4, ProtoField.uint32("lnet_hdr.type", "type", base.DEC, LNET_MSG_TYPE_NAMES, nil, "type of the message")},
  {"payload_length", 28, 4, ProtoField.uint32("lnet_hdr.payload_length", "payload_length", base.DEC, nil, nil, "PUT: bytes of payload; GET: 0")},
  {"interface_cookie", 32, 8, ProtoField.uint64("lnet_hdr.interface_cookie", "interface_cookie", base.HEX, nil, nil, "a number that only the sender has, in its present incarnation")},
  {"object_cookie", 40, 8, ProtoField.uint64("lnet_hdr.object_cookie", "object_cookie", base.HEX, nil, nil, "number of the message among all of its sender")},
  {"match_bits", 48, 8, ProtoField.uint64("lnet_hdr.match_bits", "match_bits", base.HEX, nil, nil, "bits that select the memory at the receiver")},
  {"ptl_index", 56, 4, ProtoField.uint32("lnet_hdr.ptl_index", "ptl_index", base.DEC, nil, nil, "portal")},
  {"offset", 60, 4, ProtoField.uint32("lnet_hdr.offset", "offset", base.DEC, nil, nil, "offset in the receiver's memory")},
  {"sink_length", 64, 4, ProtoField.uint32("lnet_hdr.sink_length", "sink_length", base.DEC, nil, nil, "bytes requested")},
  {"padding", 68, 4, ProtoField.bytes("lnet_hdr.padding", "padding", base.NONE, "0")},
}
-- end of generated

local PING_PORTAL = 0
local PING_MATCH_BITS = "0000000000000080"  -- little-endian

local REJ_OLD_VERSION, REJ_OLD_SIZE = 0x11, 7 -- it ends with the reason
local REJ_BELOW = 0x40 -- a kib_rej has the reason where a kib_msg has its type
local payload = ProtoField.bytes("kib.payload", "payload")
local truncated = ProtoExpert.new("kib.truncated", "Truncated", expert.group.MALFORMED, expert.severity.ERROR)
local cut = ProtoExpert.new("kib.cut", "Not all captured", expert.group.PROTOCOL, expert.severity.NOTE)
local unknown = ProtoExpert.new("kib.type.unknown", "Unknown type", expert.group.PROTOCOL, expert.severity.WARN)
kib.experts = {truncated, cut, unknown}

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

kib.fields = fields_of(kib_msg, kib_connparams, kib_cookie, kib_putack, kib_completion, kib_desc, kib_frag, kib_rej)
table.insert(kib.fields, payload)
hdr.fields = fields_of(lnet_put, lnet_get)

local function number(range, little)
  return little and range:le_uint() or range:uint()
end

-- Returns a NID as Lustre prints it.
local function nid_text(range, little)
  local at = function(from, size)
    return number(range(little and 8 - from - size or from, size), little)
  end
  local kind, net, address = at(0, 2), at(2, 2), at(4, 4)
  if kind == 0xFFFF and net == 0xFFFF and address == 0xFFFFFFFF then
    return "<?>"
  end
  local name, shown = NET_TYPE_NAMES[kind], net > 0 and string.format("%d", net) or ""
  if name == "O2IB" or name == "TCP" or name == "GIP" or name == "EFA" then
    return string.format("%d.%d.%d.%d@%s%s", math.floor(address / 16777216), math.floor(address / 65536) % 256,
      math.floor(address / 256) % 256, address % 256, name:lower(), shown)
  elseif name then
    return string.format("%d@%s%s", address, name:lower(), shown)
  end
  return string.format("%x@<%d:%d>", address, kind, net)
end

-- Adds the rows of a header that begins at byte `from`, with NIDs as text. Returns its numbers and NIDs by name, or nil if
-- the bytes end before it does.
local function add_rows(branch, rows, size, buffer, from, little)
  if buffer:len() < from + size then
    branch:add_proto_expert_info(truncated, string.format("%d bytes, %d are needed", buffer:len(), from + size))
    return nil
  end
  local read = {}
  for _, row in ipairs(rows) do
    local name, range = row[1], buffer(from + row[2], row[3])
    local item = little and branch:add_le(row[4], range) or branch:add(row[4], range)
    if name:sub(-3) == "nid" then
      read[name] = nid_text(range, little)
      item:append_text(" (" .. read[name] .. ")")
    elseif row[3] <= 4 then
      read[name] = number(range, little)
    end
  end
  return read
end

-- Adds an LNet header. Returns what it says in a few words, or nil.
local function add_lnet(tree, buffer, from)
  local short = buffer:len() < from + LNET_PUT_SIZE
  local branch = tree:add(hdr, buffer(from, math.min(LNET_PUT_SIZE, buffer:len() - from)))
  local type_row = lnet_put[5]
  local kind = short and 0 or buffer(from + type_row[2], type_row[3]):le_uint()
  local rows = kind == LNET_MSG_TYPE.GET and lnet_get or lnet_put
  local read = add_rows(branch, rows, LNET_PUT_SIZE, buffer, from, true)
  if not read then
    return nil
  end
  local text = LNET_MSG_TYPE_NAMES[kind] or string.format("LNet type %d", kind)
  local match_row = lnet_put[9]
  local match_bits = buffer(from + match_row[2], match_row[3]):bytes():tohex()
  if read.ptl_index == PING_PORTAL and match_bits == PING_MATCH_BITS then
    text = kind == LNET_MSG_TYPE.GET and "ping" or "push"
  else
    local bytes = kind == LNET_MSG_TYPE.GET and read.sink_length or read.payload_length
    text = string.format("%s of %d bytes, portal %d", text, bytes, read.ptl_index)
  end
  branch:append_text(", " .. text)
  return text
end

local function add_desc(branch, buffer, from, little)
  local read = add_rows(branch, kib_desc, KIB_DESC_SIZE, buffer, from, little)
  if not read then
    return nil
  end
  local bytes = 0
  for index = 0, read.nfrags - 1 do
    local frag = add_rows(branch, kib_frag, KIB_FRAG_SIZE, buffer, from + KIB_DESC_SIZE + index * KIB_FRAG_SIZE, little)
    if not frag then
      return nil
    end
    bytes = bytes + frag.nob
  end
  return string.format("%d bytes in %d fragments", bytes, read.nfrags)
end

-- What follows kib_msg, by type. Each function returns a few words, or nil.
local function add_connparams(branch, buffer, from, little)
  local read = add_rows(branch, kib_connparams, KIB_CONNPARAMS_SIZE, buffer, from, little)
  return read and string.format("%d credits, %d fragments", read.queue_depth, read.max_frags)
end

local function add_completion(branch, buffer, from, little)
  local read = add_rows(branch, kib_completion, KIB_COMPLETION_SIZE, buffer, from, little)
  if not read then
    return nil
  end
  local status = read.status < 0x80000000 and read.status or read.status - 0x100000000
  return string.format("status %d", status)
end

local function add_request(branch, buffer, from, little)
  local text = add_lnet(branch, buffer, from)
  return text and add_rows(branch, kib_cookie, KIB_COOKIE_SIZE, buffer, from + LNET_PUT_SIZE, little) and text
end

local BODIES = {
  [MSG_TYPE.CONNREQ] = add_connparams,
  [MSG_TYPE.CONNACK] = add_connparams,
  [MSG_TYPE.NOOP] = function() return nil end,
  [MSG_TYPE.IMMEDIATE] = function(branch, buffer, from)
    local text = add_lnet(branch, buffer, from)
    if text and buffer:len() > from + LNET_PUT_SIZE then
      branch:add(payload, buffer(from + LNET_PUT_SIZE))
    end
    return text
  end,
  [MSG_TYPE.PUT_REQ] = add_request,
  [MSG_TYPE.GET_REQ] = function(branch, buffer, from, little)
    local text = add_request(branch, buffer, from, little)
    return text and add_desc(branch, buffer, from + LNET_PUT_SIZE + KIB_COOKIE_SIZE, little) and text
  end,
  [MSG_TYPE.PUT_ACK] = function(branch, buffer, from, little)
    local read = add_rows(branch, kib_putack, KIB_PUTACK_SIZE, buffer, from, little)
    return read and add_desc(branch, buffer, from + KIB_PUTACK_SIZE, little)
  end,
  [MSG_TYPE.PUT_NAK] = add_completion,
  [MSG_TYPE.PUT_DONE] = add_completion,
  [MSG_TYPE.GET_DONE] = add_completion,
}

local function show(packet, branch, title)
  packet.cols.protocol:set("LNet")
  packet.cols.info:set(title)
  branch:append_text(", " .. title)
end

local function dissect_rej(buffer, packet, tree, little)
  local branch = tree:add(kib, buffer())
  local rows, size = kib_rej, KIB_REJ_SIZE
  if buffer:len() >= REJ_OLD_SIZE and number(buffer(4, 2), little) == REJ_OLD_VERSION then
    rows, size = {kib_rej[1], kib_rej[2], kib_rej[3]}, REJ_OLD_SIZE
  end
  local read = add_rows(branch, rows, size, buffer, 0, little)
  if read then
    show(packet, branch, "rejected: " .. (REJECT_REASON_NAMES[read.why] or string.format("reason %d", read.why)))
  end
end

local function dissect_msg(buffer, packet, tree, little)
  local branch = tree:add(kib, buffer())
  local read = add_rows(branch, kib_msg, KIB_MSG_SIZE, buffer, 0, little)
  if not read then
    return
  end
  local title = string.format("%s %s > %s", MSG_TYPE_NAMES[read.type] or string.format("type 0x%02x", read.type),
    read.srcnid, read.dstnid)
  local body = BODIES[read.type]
  if not body then
    branch:add_proto_expert_info(unknown, string.format("Unknown type 0x%02x", read.type))
  elseif read.nob > buffer:len() then
    branch:add_proto_expert_info(cut, string.format("%d of %d bytes captured", buffer:len(), read.nob))
  else
    local text = body(branch, buffer(0, math.max(read.nob, KIB_MSG_SIZE)):tvb(), KIB_MSG_SIZE, little)
    title = text and title .. ", " .. text or title
  end
  show(packet, branch, title)
end

function kib.dissector(buffer, packet, tree)
  if buffer:len() < 7 then
    return 0
  end
  local little = buffer(0, 4):le_uint() == KIB_MAGIC
  if not little and buffer(0, 4):uint() ~= KIB_MAGIC then
    return 0
  end
  local dissect = buffer(6, 1):uint() < REJ_BELOW and dissect_rej or dissect_msg
  dissect(buffer, packet, tree, little)
  return buffer:len()
end
