-- Omni-Path 16B packets in Wireshark: header, L4 header, pad, ICRC, tail. Captures of them have link type 147, USER0.
--
--   opavnic install-dissectors; tshark -r capture.pcapng
--
-- Fields have the names that `opavnic decode` gives them. An Ethernet frame goes to Wireshark's own dissector, a MAD to
-- opa_ema.lua, a packet of a reliable connection to opa_rc.lua; if a dissector is missing, the bytes are shown as data.
-- Nothing public describes how the hardware computes the ICRC: preferences turn the check off or change the polynomial.

local opa = Proto("opa16b", "OPA 16B")

local QUAD_WORD, MIN_PACKET = 8, 24
local IBA_POLYNOMIAL = 0x04C11DB7
local LID_PERMISSIVE, LID_MULTICAST = 0xFFFFFF, 0xF00000
local ICRC_BAD, ICRC_GOOD, ICRC_UNVERIFIED = 0, 1, 2
local ICRC_NAMES = {[ICRC_BAD] = "Bad", [ICRC_GOOD] = "Good", [ICRC_UNVERIFIED] = "Unverified"}

-- The headers. A row is name, first byte, bytes, field; `shift` and `bits` where it is a part of these bytes ------------

-- generated: l4 (made by `make generated` from hfi_sim/wire/lrh16b.py; do not edit)
local L4 = {
  FM = 0x08,
  IB_LOCAL = 0x09,
  IB_GLOBAL = 0x0A,
  ETHERNET = 0x78,
  EEPH = 0x79,
  VENDOR_RC = 0x7A,
}
local L4_NAMES = {
  [0x08] = "management: FM header and MAD",
  [0x09] = "InfiniBand, no global route header",
  [0x0A] = "InfiniBand with global route header",
  [0x78] = "Ethernet of a virtual switch",
  [0x79] = "encapsulated Ethernet of another kind",
  [0x7A] = "this project's reliable connections",
}
-- end of generated

-- generated: lrh16b (made by `make generated` from hfi_sim/wire/lrh16b.py; do not edit)
local HEADER_SIZE = 16
local L2_16B = 0x2
local LT_HEAD = 0x1
local header = {
  {"slid_low", 0, 3, ProtoField.uint24("opa.slid_low", "slid_low", base.HEX, nil, 0xFFFFF, "source LID, bits 19:0"), shift = 0, bits = 20},
  {"length_qw", 2, 2, ProtoField.uint16("opa.length_qw", "length_qw", base.DEC, nil, 0x7FF0, "whole packet in 8-byte units: header, L4, payload, pad, ICRC, tail"), shift = 4, bits = 11},
  {"becn", 3, 1, ProtoField.bool("opa.becn", "becn", 8, nil, 0x80, "backward explicit congestion notification"), shift = 7, bits = 1},
  {"dlid_low", 4, 3, ProtoField.uint24("opa.dlid_low", "dlid_low", base.HEX, nil, 0xFFFFF, "destination LID, bits 19:0"), shift = 0, bits = 20},
  {"sc", 6, 2, ProtoField.uint16("opa.sc", "sc", base.DEC, nil, 0x1F0, "service channel"), shift = 4, bits = 5},
  {"rc", 7, 1, ProtoField.uint8("opa.rc", "rc", base.DEC, nil, 0xE, "routing control"), shift = 1, bits = 3},
  {"fecn", 7, 1, ProtoField.bool("opa.fecn", "fecn", 8, nil, 0x10, "forward explicit congestion notification"), shift = 4, bits = 1},
  {"l2", 7, 1, ProtoField.uint8("opa.l2", "l2", base.DEC, {[0x0] = "not 16B", [0x1] = "not 16B", [0x2] = "16B", [0x3] = "head of a 9B packet"}, 0x60, "packet format: 2 is 16B, 3 the head of a 9B packet"), shift = 5, bits = 2},
  {"lt", 7, 1, ProtoField.uint8("opa.lt", "lt", base.DEC, {[0x0] = "not a head flit", [0x1] = "head flit"}, 0x80, "link transfer: 1 is a head flit"), shift = 7, bits = 1},
  {"l4", 8, 1, ProtoField.uint8("opa.l4", "l4", base.HEX, L4_NAMES, nil, "what follows the header: 0x78 Ethernet, 0x08 management")},
  {"slid_high", 9, 1, ProtoField.uint8("opa.slid_high", "slid_high", base.HEX, nil, 0xF, "source LID, bits 23:20"), shift = 0, bits = 4},
  {"dlid_high", 9, 1, ProtoField.uint8("opa.dlid_high", "dlid_high", base.HEX, nil, 0xF0, "destination LID, bits 23:20"), shift = 4, bits = 4},
  {"pkey", 10, 2, ProtoField.uint16("opa.pkey", "pkey", base.HEX, nil, nil, "partition key; bit 15 says full member")},
  {"entropy", 12, 2, ProtoField.uint16("opa.entropy", "entropy", base.HEX, nil, nil, "spreads flows over paths; a VNIC uses the low 8 bits")},
  {"age", 14, 1, ProtoField.uint8("opa.age", "age", base.DEC, nil, nil, "age of the packet")},
  {"reserved", 15, 1, ProtoField.uint8("opa.header.reserved", "reserved", base.HEX, nil, nil, "0; given on as received")},
}
local header_wholes = {
  {"slid", 0, 3, ProtoField.uint24("opa.slid", "slid", base.HEX, nil, nil, "source LID, all 24 bits"), low = "slid_low", high = "slid_high", low_bits = 20},
  {"dlid", 4, 3, ProtoField.uint24("opa.dlid", "dlid", base.HEX, nil, nil, "destination LID, all 24 bits"), low = "dlid_low", high = "dlid_high", low_bits = 20},
}
-- the bits that may change on the way
local header_may_change = {0x00, 0x00, 0x00, 0x80, 0x00, 0x00, 0xF0, 0x11, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xFF, 0x00}
-- end of generated

-- generated: ethernet-l4 (made by `make generated` from hfi_sim/wire/lrh16b.py; do not edit)
local ETHERNET_L4_SIZE = 4
local ethernet_l4 = {
  {"reserved", 0, 2, ProtoField.uint16("opa.ethernet.reserved", "reserved", base.HEX, nil, nil, "0; given on as received")},
  {"vesw_id", 2, 2, ProtoField.uint16("opa.vesw_id", "vesw_id", base.DEC, nil, nil, "virtual Ethernet switch id, 12 bits used")},
}
-- end of generated

-- generated: fm (made by `make generated` from hfi_sim/wire/lrh16b.py; do not edit)
local FM_SIZE = 8
local fm = {
  {"dest_reserved", 0, 1, ProtoField.uint8("opa.dest_reserved", "dest_reserved", base.HEX, nil, nil, "0; given on as received")},
  {"dest_qp", 1, 3, ProtoField.uint24("opa.dest_qp", "dest_qp", base.DEC, {[0x0] = "the subnet manager's QP", [0x1] = "the management QP"}, nil, "destination queue pair: 0 the subnet manager's, 1 everything else")},
  {"src_reserved", 4, 1, ProtoField.uint8("opa.src_reserved", "src_reserved", base.HEX, nil, nil, "0; given on as received")},
  {"src_qp", 5, 3, ProtoField.uint24("opa.src_qp", "src_qp", base.DEC, {[0x0] = "the subnet manager's QP", [0x1] = "the management QP"}, nil, "source queue pair")},
}
-- end of generated

-- generated: trailer (made by `make generated` from hfi_sim/wire/packet.py; do not edit)
local TRAILER_SIZE = 5
local trailer = {
  {"icrc", 0, 4, ProtoField.uint32("opa.icrc", "icrc", base.HEX, nil, nil, "checksum over what must not change on the way")},
  {"tail", 4, 1, ProtoField.uint8("opa.tail", "tail", base.DEC, nil, 0x3F, "number of pad bytes, 0 to 7"), shift = 0, bits = 6},
  {"lt", 4, 1, ProtoField.uint8("opa.tail.lt", "lt", base.DEC, {[0x0] = "left to the hardware", [0x1] = "tail flit", [0x2] = "impossible: 01 is a tail flit", [0x3] = "impossible: 01 is a tail flit"}, 0xC0, "link transfer: 01 is a tail flit; a receiver also takes 00"), shift = 6, bits = 2},
}
-- end of generated

local L4_SIZES = {[L4.FM] = FM_SIZE, [L4.ETHERNET] = ETHERNET_L4_SIZE}
local lid = ProtoField.uint24("opa.lid", "lid", base.HEX, nil, nil, "source or destination LID")
local pad = ProtoField.bytes("opa.pad", "pad", base.SPACE)
local icrc_status = ProtoField.uint8("opa.icrc.status", "icrc status", base.DEC, ICRC_NAMES)
local icrc_expected = ProtoField.uint32("opa.icrc.expected", "icrc expected", base.HEX)
local excess = ProtoField.bytes("opa.excess", "excess", base.SPACE, "bytes behind the packet")

opa.fields = {lid, pad, icrc_status, icrc_expected, excess}
for _, rows in ipairs({header, header_wholes, ethernet_l4, fm, trailer}) do
  for _, row in ipairs(rows) do
    table.insert(opa.fields, row[4])
  end
end

local function fault(name, text, severity)
  return ProtoExpert.new("opa." .. name, text, expert.group.PROTOCOL, severity)
end
local not_16b = fault("l2.unknown", "L2 or LT is not that of a 16B packet", expert.severity.ERROR)
local wrong_length = fault("length_qw.wrong", "Length disagrees with the bytes", expert.severity.ERROR)
local wrong_tail = fault("tail.wrong", "Impossible last byte", expert.severity.ERROR)
local truncated = fault("truncated", "Truncated", expert.severity.ERROR)
local unknown_l4 = fault("l4.unknown", "Unknown L4 type", expert.severity.WARN)
local wrong_icrc = ProtoExpert.new("opa.icrc.bad", "Wrong ICRC", expert.group.CHECKSUM, expert.severity.ERROR)
local no_destination = fault("dlid.zero", "LID 0 is never a destination", expert.severity.WARN)
opa.experts = {not_16b, wrong_length, wrong_tail, truncated, unknown_l4, wrong_icrc, no_destination}

-- ICRC: a reflected CRC-32, all ones at both ends -----------------------------------------------------------------

opa.prefs.check_icrc = Pref.bool("Check the ICRC", true, "Compute the ICRC of every packet and compare")
opa.prefs.polynomial = Pref.string("Polynomial of the ICRC", "0x04c11db7", "32 bits such as 0x04c11db7, without x^32")

-- crc_tables[n][byte] is the effect of a byte on the checksum if n - 1 more bytes follow. Four bytes are handled at once,
-- because a call of the bit library costs more than all the arithmetic between two calls.
local crc_tables = {{}, {}, {}, {}}

local function make_crc_tables(polynomial)
  local reflected = 0
  for position = 0, 31 do
    if bit.band(polynomial, bit.lshift(1, position)) ~= 0 then
      reflected = bit.bor(reflected, bit.lshift(1, 31 - position))
    end
  end
  for byte = 0, 255 do
    local value = byte
    for _ = 1, 8 do
      local low = bit.band(value, 1)
      value = bit.rshift(value, 1)
      if low == 1 then
        value = bit.bxor(value, reflected)
      end
    end
    crc_tables[1][byte] = value
  end
  for byte = 0, 255 do
    for n = 2, 4 do
      local before = crc_tables[n - 1][byte]
      crc_tables[n][byte] = bit.bxor(bit.rshift(before, 8), crc_tables[1][bit.band(before, 0xFF)])
    end
  end
end

local function read_polynomial()
  make_crc_tables(tonumber((opa.prefs.polynomial:gsub("^0[xX]", "")), 16) or IBA_POLYNOMIAL)
end
opa.prefs_changed = read_polynomial
read_polynomial()

local function crc32(data, value)
  local bxor, byte = bit.bxor, string.byte
  local one, two, three, four = crc_tables[1], crc_tables[2], crc_tables[3], crc_tables[4]
  local fours = #data - #data % 4
  for at = 1, fours, 4 do
    local a, b, c, d = byte(data, at, at + 3)
    value = bxor(value, a + b * 0x100 + c * 0x10000 + d * 0x1000000)
    a = value % 0x100
    value = (value - a) / 0x100
    b = value % 0x100
    value = (value - b) / 0x100
    c = value % 0x100
    value = bxor(four[a], three[b], two[c], one[(value - c) / 0x100 % 0x100])
  end
  for at = fours + 1, #data do
    value = bxor(bit.rshift(value, 8), one[bit.band(bxor(value, byte(data, at)), 0xFF)])
  end
  return value
end

-- Computes the ICRC of a packet: BECN, SC, FECN and age count as ones, and the pad count follows the pad.
local function icrc_of(buffer, icrc_at, pad_count)
  local bytes = {buffer(0, HEADER_SIZE):raw():byte(1, HEADER_SIZE)}
  for at, mask in ipairs(header_may_change) do
    bytes[at] = bit.bor(bytes[at], mask)
  end
  local value = crc32(string.char(table.unpack(bytes)), -1)
  if icrc_at > HEADER_SIZE then
    value = crc32(buffer(HEADER_SIZE, icrc_at - HEADER_SIZE):raw(), value)
  end
  return bit.bnot(crc32(string.char(pad_count), value)) % 0x100000000
end

-- The packet from its two ends to its middle ------------------------------------------------------------------------

local function lid_text(value)
  if value == LID_PERMISSIVE then
    return " (the permissive LID)"
  end
  return value >= LID_MULTICAST and " (multicast)" or ""
end

local function pkey_text(value)
  local partition = value % 0x8000
  local name = partition == 0x7FFF and "management partition" or string.format("partition 0x%x", partition)
  return string.format(" (%s, %s member)", name, value >= 0x8000 and "full" or "limited")
end

-- Returns the numbers of a little-endian header that begins at byte `start`, by the names of its fields.
local function read_rows(rows, buffer, start)
  local values = {}
  for _, row in ipairs(rows) do
    local number = buffer(start + row[2], row[3]):le_uint()
    values[row[1]] = row.bits and math.floor(number / 2 ^ row.shift) % 2 ^ row.bits or number
  end
  return values
end

-- Adds the fields of a header that begins at byte `start`. Returns their items by name.
local function add_rows(branch, rows, buffer, start, is_big_endian)
  local items = {}
  for _, row in ipairs(rows) do
    local range = buffer(start + row[2], row[3])
    items[row[1]] = (is_big_endian and branch.add or branch.add_le)(branch, row[4], range)
  end
  return items
end

-- Adds the 16B header and returns the fields needed later.
local function add_header(branch, buffer, size)
  local read = read_rows(header, buffer, 0)
  read.length = read.length_qw * QUAD_WORD
  read.is_16b = read.l2 == L2_16B and read.lt == LT_HEAD
  for _, row in ipairs(header_wholes) do
    local value, range = read[row.low] + read[row.high] * 2 ^ row.low_bits, buffer(row[2], row[3])
    read[row[1]] = value
    branch:add(row[4], range, value):append_text(lid_text(value))
    branch:add(lid, range, value):set_hidden()
  end
  local items = add_rows(branch, header, buffer, 0)
  items.length_qw:append_text(string.format(" (%d bytes)", read.length))
  items.pkey:append_text(pkey_text(read.pkey))
  if read.length ~= size then
    local reason = string.format("Length says %d bytes, but there are %d", read.length, size)
    items.length_qw:add_proto_expert_info(wrong_length, reason)
  end
  if read.dlid == 0 then
    items.dlid_low:add_proto_expert_info(no_destination)
  end
  if not read.is_16b then
    items.l2:add_proto_expert_info(not_16b)
  end
  if not L4_NAMES[read.l4] then
    items.l4:add_proto_expert_info(unknown_l4, string.format("Unknown L4 type 0x%02x", read.l4))
  end
  return read
end

-- Returns where the payload ends in a packet of `length` bytes with last byte `last`; ignores an impossible pad count.
local function payload_end(length, last)
  local icrc_at = length - TRAILER_SIZE
  local without_pad = icrc_at - last % QUAD_WORD
  return without_pad >= HEADER_SIZE and without_pad or icrc_at
end

-- Adds pad, ICRC and tail of a packet of `length` bytes and returns whether the ICRC is right, as far as it was checked.
local function add_trailer(branch, buffer, from, length)
  local icrc_at, last = length - TRAILER_SIZE, buffer(length - 1, 1):uint()
  local inner = branch:add(buffer(from, length - from), "Trailer")
  if icrc_at > from then
    inner:add(pad, buffer(from, icrc_at - from))
  end
  local items, found = add_rows(inner, trailer, buffer, icrc_at), buffer(icrc_at, 4)
  local status = ICRC_UNVERIFIED
  if opa.prefs.check_icrc then
    local expected = icrc_of(buffer, icrc_at, last % QUAD_WORD)
    status = expected == found:le_uint() and ICRC_GOOD or ICRC_BAD
    items.icrc:append_text(status == ICRC_GOOD and " (matches)" or " (does not match)")
    if status == ICRC_BAD then
      inner:add(icrc_expected, found, expected):set_generated()
      items.icrc:add_proto_expert_info(wrong_icrc, string.format("ICRC does not match: 0x%08x would", expected))
    end
  end
  inner:add(icrc_status, found, status):set_generated()
  inner:append_text(", ICRC " .. ICRC_NAMES[status]:lower())
  if last % 0x40 >= QUAD_WORD or last >= 0x80 or from + last % QUAD_WORD > icrc_at then
    items.tail:add_proto_expert_info(wrong_tail, string.format("Impossible last byte 0x%02x", last))
  end
  return status ~= ICRC_BAD
end

-- Adds the L4 header. Returns what dissects the rest, and where that begins.
local function add_l4(branch, buffer, read, to, packet)
  local from = HEADER_SIZE + (L4_SIZES[read.l4] or 0)
  if not read.is_16b then
    return "data", HEADER_SIZE
  elseif from > to then
    branch:add_proto_expert_info(truncated, "No room for the L4 header")
    return "data", HEADER_SIZE
  elseif read.l4 == L4.ETHERNET then
    local id = read_rows(ethernet_l4, buffer, HEADER_SIZE).vesw_id
    local inner = branch:add(buffer(HEADER_SIZE, from - HEADER_SIZE), string.format("Ethernet L4, vesw %d", id))
    local items = add_rows(inner, ethernet_l4, buffer, HEADER_SIZE)
    items.vesw_id:append_text(id > 0xFFF and " (more than the 12 bits in use)" or "")
    branch:append_text(string.format(", vesw %d", id))
    packet.cols.info:append(string.format(" vesw %d", id))
    return "eth_withoutfcs", from
  elseif read.l4 == L4.FM then
    add_rows(branch:add(buffer(HEADER_SIZE, from - HEADER_SIZE), "FM header"), fm, buffer, HEADER_SIZE, true)
    return "ema", from
  elseif read.l4 == L4.VENDOR_RC then
    return "opa_rc", from
  end
  packet.cols.info:append(string.format(" L4 0x%02x", read.l4))
  return "data", from
end

-- Calls another dissector, or shows data if there is none of that name. A dissector that runs out of bytes reports this
-- in the tree and then raises an error, which can be ignored.
local function hand_on(name, buffer, from, to, packet, tree)
  if to <= from then
    return
  end
  local found, dissector = pcall(Dissector.get, name)
  dissector = found and dissector or Dissector.get("data")
  pcall(dissector.call, dissector, buffer(from, to - from):tvb(), packet, tree)
end

function opa.dissector(buffer, packet, tree)
  local captured, size = buffer:len(), buffer:reported_len()
  packet.cols.protocol:set("OPA 16B")
  packet.cols.info:set("16B packet")
  if captured < HEADER_SIZE then
    local reason = string.format("%d bytes, the 16B header needs %d", captured, HEADER_SIZE)
    tree:add(opa, buffer()):add_proto_expert_info(truncated, reason)
    packet.cols.info:append(" [truncated]")
    return captured
  end
  local branch = tree:add(opa, buffer())
  local read = add_header(branch, buffer, size)
  branch:append_text(string.format(", SLID 0x%x > DLID 0x%x", read.slid, read.dlid))
  packet.cols.info:set(string.format("SLID 0x%x > DLID 0x%x", read.slid, read.dlid))
  packet.cols.src:set(string.format("LID 0x%x", read.slid))
  packet.cols.dst:set(string.format("LID 0x%x", read.dlid))
  packet.private["opa_slid"] = string.format("0x%x", read.slid)
  packet.private["opa_dlid"] = string.format("0x%x", read.dlid)
  local whole = read.length >= MIN_PACKET and read.length <= captured
  local to = whole and payload_end(read.length, buffer(read.length - 1, 1):uint()) or captured
  local dissector, from = add_l4(branch, buffer, read, to, packet)
  local remark = ""
  if whole then
    remark = add_trailer(branch, buffer, to, read.length) and "" or " [ICRC wrong]"
    if captured > read.length then
      branch:add(excess, buffer(read.length))
    end
  elseif read.length > captured then
    local reason = string.format("%d of %d bytes are there, without the trailer", captured, read.length)
    branch:add_proto_expert_info(truncated, reason)
    remark = " [truncated]"
  end
  hand_on(dissector, buffer, from, to, packet, tree)
  packet.cols.info:append(remark)
  return captured
end

DissectorTable.get("wtap_encap"):add(wtap_encaps.USER0, opa)
